"""Model providers, loaded by name: each implements the same port, and none depends on another.

Rule 1: a provider keeps nothing between two calls. It uses only the request, which is derived from the log, so any
process can make the next call.
Rule 2: an external failure is a `Faulted`; only a caller's mistake is an exception.
A provider's module is imported on request: an unused one costs nothing, and its packages need not be installed. Each
such module has a function `open_model`.
"""

import difflib
import importlib
import importlib.util
import os
from collections.abc import Mapping

from wakelog.errors import UsageError
from wakelog.ports import Provider

_PROVIDERS = {
    "anthropic": "wakelog.providers.anthropic.provider",
    "openai": "wakelog.providers.openai.responses",
    "openai-chat": "wakelog.providers.openai.chat",
    "scripted": "wakelog.providers.scripted",
    "demo": "wakelog.providers.demo",
}
# The SDK of each provider that needs one; importing it takes a second or two.
_SDKS = {"anthropic": "anthropic", "openai": "openai", "openai-chat": "openai"}
# How each is written on a command line.
_SPELLINGS = "anthropic:NAME, openai:NAME, openai-chat:NAME, scripted:FILE, demo"


def split_model(text: str) -> tuple[str, str]:
    """Split `PROVIDER:MODEL`; a provider that has only one model may be written alone."""
    provider, colon, model = text.partition(":")
    if not provider or (colon and not model):
        raise UsageError(f"{text!r} names no model", hint=f"use one of {_SPELLINGS}")
    return provider, model if colon else provider


def spelled(provider: str | None, model: str | None) -> str:
    """Return provider and model as people write them; a provider that has only one model is written alone."""
    return ":".join(dict.fromkeys(filter(None, (provider, model))))


def is_installed(provider: str) -> bool:
    """Return whether the packages of a provider are installed. Nothing is imported for that."""
    return provider not in _SDKS or importlib.util.find_spec(_SDKS[provider]) is not None


def check_known(provider: str) -> None:
    """Raise `UsageError` for an unknown provider name."""
    if provider not in _PROVIDERS:
        near = difflib.get_close_matches(provider, _PROVIDERS, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"there is no provider {provider!r}", hint=f"{meant}there are {_SPELLINGS}")


def needs_reasoning_back(provider: str, model: str) -> bool:
    """Return whether a model's reasoning must be sent back unchanged; False for providers without an SDK."""
    return provider in _SDKS and bool(getattr(open_provider(provider, model), "needs_reasoning_back", False))


def open_provider(
    provider: str, model: str, environ: Mapping[str, str] | None = None, *, key_from: str = ""
) -> Provider:
    """Return the provider of that name for that model. Keys and addresses come from the environment.

    `key_from` describes where a key in `environ` came from, for the error message when it is refused.
    """
    check_known(provider)
    found = os.environ if environ is None else environ
    opened: Provider = importlib.import_module(_PROVIDERS[provider]).open_model(model, found, key_from)
    return opened
