"""Registry of model providers: opens a provider by name, and finds the optional SDK that it needs.

Rule 1: a provider keeps no state between two calls. It uses only the request, which is derived from the log, so any
process can make the next call.
Rule 2: an external failure is a `Faulted`; only a caller's mistake is an exception.
Rule 3: a provider's module is imported when it is opened, and its SDK when it is called, which takes a second or
two; a missing key or an invalid setting is reported before that. This module must not import an SDK, nor a package
that comes with one.

Each provider module has a function `open_model`. Read `requests` (settings, media), `event_stream` and `faults`
(replies and errors of servers), `endpoints` (addresses and keys), `http_provider` (one streamed call), then a wire
format: `anthropic.messages`, `openai.responses`, `openai.chat`. Offline models: `playback`, `scripted`, `demo`.
"""

import difflib
import importlib
import importlib.util
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from wakelog.errors import UsageError
from wakelog.ports.runtime import Provider

_PROVIDERS = {
    "anthropic": "wakelog.providers.anthropic.messages",
    "openai": "wakelog.providers.openai.responses",
    "openai-chat": "wakelog.providers.openai.chat",
    "scripted": "wakelog.providers.scripted",
    "demo": "wakelog.providers.demo",
}
# The SDK of each provider that needs one; importing it takes a second or two.
_SDKS = {"anthropic": "anthropic", "openai": "openai", "openai-chat": "openai"}
# How each is written on a command line.
_MODEL_FORMS = "anthropic:NAME, openai:NAME, openai-chat:NAME, scripted:FILE, demo"


def split_model(text: str) -> tuple[str, str]:
    """Split `PROVIDER:MODEL`; a provider that has only one model may be written alone."""
    provider, colon, model = text.partition(":")
    if not provider or (colon and not model):
        raise UsageError(f"{text!r} is not a model", hint=f"use one of {_MODEL_FORMS}")
    return provider, model if colon else provider


def format_model(provider: str | None, model: str | None) -> str:
    """Return provider and model as people write them; a provider that has only one model is written alone."""
    return ":".join(dict.fromkeys(filter(None, (provider, model))))


def is_installed(provider: str) -> bool:
    """Return whether the packages of a provider are installed. Nothing is imported for that."""
    return provider not in _SDKS or importlib.util.find_spec(_SDKS[provider]) is not None


def check_provider_name(provider: str) -> None:
    """Raise `UsageError` for an unknown provider name."""
    if provider not in _PROVIDERS:
        near = difflib.get_close_matches(provider, _PROVIDERS, 1)
        suggestion = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"unknown provider {provider!r}", hint=f"{suggestion}use one of {_MODEL_FORMS}")


def needs_reasoning_back(provider: str, model: str) -> bool:
    """Return whether a model's reasoning must be sent back unchanged; False for providers without an SDK."""
    return provider in _SDKS and bool(getattr(open_provider(provider, model), "needs_reasoning_back", False))


def open_provider(
    provider: str, model: str, environ: Mapping[str, str] | None = None, *, key_source: str = ""
) -> Provider:
    """Return the provider of that name for that model. Keys and addresses come from the environment.

    `key_source` describes where a key in `environ` came from, for the error message when it is refused.
    """
    check_provider_name(provider)
    variables = os.environ if environ is None else environ
    opened: Provider = importlib.import_module(_PROVIDERS[provider]).open_model(model, variables, key_source)
    return opened


class OptionalSdk(NamedTuple):
    """An SDK: the name of its package, which is also that of the extra, and what needs it, in words."""

    package: str
    needed_by: str

    def check(self) -> None:
        """Raise `UsageError` if it is not installed. Nothing is imported for that."""
        if importlib.util.find_spec(self.package) is None:
            raise self._missing(f"package {self.package} not found")

    def load(self) -> Any:
        """Import the package; `UsageError` if that fails."""
        try:
            return importlib.import_module(self.package)
        except ImportError as error:
            raise self._missing(str(error)) from error

    def _missing(self, why: str) -> UsageError:
        return UsageError(
            f"{self.needed_by} need an SDK that is not installed ({why})", hint=f"pip install 'wakelog[{self.package}]'"
        )


ANTHROPIC_SDK = OptionalSdk("anthropic", "anthropic models")
OPENAI_SDK = OptionalSdk("openai", "OpenAI models")
