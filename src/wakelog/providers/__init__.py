"""Registry of model providers: opens a provider by name, and finds the HTTP client that network providers need.

Rule 1: a provider keeps no state between two calls. It uses only the request, which is derived from the log, so any
process can make the next call.
Rule 2: an external failure is a `Faulted`; only a caller's mistake is an exception.
Rule 3: a provider's module is imported when it is opened. This module must not import the HTTP client, which is an
optional package.
Rule 4: no vendor SDK is imported. Requests and replies are our own; the SDKs judge both in the tests.

Each provider module has a function `open_model`. Read `requests` (settings, media), `event_stream` and `faults`
(replies and errors of servers), `endpoints` (addresses, keys, headers), `http_client` (one request), `http_provider`
(one streamed call), then a wire format: `anthropic.messages`, `openai.responses`, `openai.chat`. Offline models:
`playback`, `scripted`, `demo`.
"""

import difflib
import importlib
import importlib.util
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec

from wakelog.errors import UsageError
from wakelog.ports.runtime import Provider

_PROVIDERS = {
    "anthropic": "wakelog.providers.anthropic.messages",
    "openai": "wakelog.providers.openai.responses",
    "openai-chat": "wakelog.providers.openai.chat",
    "scripted": "wakelog.providers.scripted",
    "demo": "wakelog.providers.demo",
}
# The extra of each provider that uses the network. All of them bring the same HTTP client.
_EXTRAS = {"anthropic": "anthropic", "openai": "openai", "openai-chat": "openai"}
_HTTP_PACKAGES = ("httpx2", "anyio")
# How each is written on a command line.
_MODEL_FORMS = "anthropic:NAME, openai:NAME, openai-chat:NAME, scripted:FILE, demo"


def split_model(text: str) -> tuple[str, str]:
    """Split `PROVIDER:MODEL`; a provider that has only one model may be written alone."""
    provider, colon, model = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not provider or (colon and not model):
        raise UsageError(f"{text!r} is not a model", hint=f"use one of {_MODEL_FORMS}")
    return provider, model if colon else provider


def format_model(provider: str | None, model: str | None) -> str:
    """Return provider and model as people write them; a provider that has only one model is written alone."""
    return ":".join(dict.fromkeys(filter(None, (provider, model))))


def is_installed(provider: str) -> bool:
    """Return whether the packages of a provider are installed. Nothing is imported for that."""
    return provider not in _EXTRAS or not _missing_packages()


def _missing_packages() -> list[str]:
    return [package for package in _HTTP_PACKAGES if importlib.util.find_spec(package) is None]


def check_provider_name(provider: str) -> None:
    """Raise `UsageError` for an unknown provider name."""
    if provider not in _PROVIDERS:
        near = difflib.get_close_matches(provider, _PROVIDERS, 1)
        suggestion = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"unknown provider {provider!r}", hint=f"{suggestion}use one of {_MODEL_FORMS}")


def needs_reasoning_back(provider: str, model: str) -> bool:
    """Return whether a model's reasoning must be sent back unchanged; False for offline providers."""
    return provider in _EXTRAS and bool(getattr(open_provider(provider, model), "needs_reasoning_back", False))


class HttpRequest(msgspec.Struct, frozen=True):
    """A request to a model server, about to be sent with the method POST. Header names are lower case."""

    url: str
    headers: Mapping[str, str]
    body: bytes


PrepareRequest: TypeAlias = Callable[[HttpRequest], HttpRequest | Awaitable[HttpRequest]]
"""Function that returns the request to send instead: signed, with other headers, or to another address."""


def open_provider(
    provider: str,
    model: str,
    environ: Mapping[str, str] | None = None,
    *,
    key_source: str = "",
    prepare: PrepareRequest | None = None,
) -> Provider:
    """Return the provider of that name for that model. Keys and addresses come from the environment.

    `key_source` describes where a key in `environ` came from, for the error message when it is refused. `prepare` is
    called before each request of a provider that uses the network, and returns the request to send.
    """
    check_provider_name(provider)
    variables = os.environ if environ is None else environ
    if provider not in _EXTRAS:
        if prepare is not None:
            raise UsageError(f"{provider} sends no requests, so none can be prepared", hint="leave `prepare` out")
        offline: Provider = importlib.import_module(_PROVIDERS[provider]).open_model(model, variables, key_source)
        return offline
    try:
        module = importlib.import_module(_PROVIDERS[provider])
    except ImportError as error:
        raise _not_installed(provider, error) from error
    opened: Provider = module.open_model(model, variables, key_source, prepare)
    return opened


def _not_installed(provider: str, error: ImportError) -> UsageError:
    missing = ", ".join(_missing_packages())
    what = f"packages that are not installed: {missing}" if missing else f"packages that cannot be loaded ({error})"
    return UsageError(f"{provider} models need {what}", hint=f"pip install 'wakelog[{_EXTRAS[provider]}]'")
