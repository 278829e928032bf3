"""Asking a model: the providers, each behind the same port, none knowing another.

Rule 1: a provider keeps nothing between two calls. All it may go by is the request, which is derived
from the log, so any process can make the next call.
Rule 2: what the outside world does is a `Faulted`; only a caller's mistake is an exception.
A provider is loaded by name when it is asked for: one that nobody uses costs nothing, and what it needs
need not be installed. Each module here that holds one has a function `open_model`.
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
# What those need that have keys; it takes a second or two to load.
_SDKS = {"anthropic": "anthropic", "openai": "openai", "openai-chat": "openai"}
# How each is asked for on a command line.
_SPELLINGS = "anthropic:NAME, openai:NAME, openai-chat:NAME, scripted:FILE, demo"


def split_model(text: str) -> tuple[str, str]:
    """`PROVIDER:MODEL` as the two; a provider that has one model only may stand alone."""
    provider, colon, model = text.partition(":")
    if not provider or (colon and not model):
        raise UsageError(f"{text!r} names no model", hint=f"use one of {_SPELLINGS}")
    return provider, model if colon else provider


def spelled(provider: str | None, model: str | None) -> str:
    """The two as people write them; a provider that has one model only stands alone."""
    return ":".join(dict.fromkeys(filter(None, (provider, model))))


def is_installed(provider: str) -> bool:
    """Whether all that a provider needs is there. Nothing is loaded for that."""
    return provider not in _SDKS or importlib.util.find_spec(_SDKS[provider]) is not None


def check_known(provider: str) -> None:
    """`UsageError` for a name that no provider has."""
    if provider not in _PROVIDERS:
        near = difflib.get_close_matches(provider, _PROVIDERS, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"there is no provider {provider!r}", hint=f"{meant}there are {_SPELLINGS}")


def needs_reasoning_back(provider: str, model: str) -> bool:
    """Whether a provider must get a model's reasoning back as it came; no for those that are not known here."""
    return provider in _SDKS and bool(getattr(open_provider(provider, model), "needs_reasoning_back", False))


def open_provider(
    provider: str, model: str, environ: Mapping[str, str] | None = None, *, key_from: str = ""
) -> Provider:
    """The provider of that name, ready to be asked for that model. Keys and addresses come from the environment.

    `key_from` says in words where a key in there came from, for those who have to find it when it is refused.
    """
    check_known(provider)
    found = os.environ if environ is None else environ
    opened: Provider = importlib.import_module(_PROVIDERS[provider]).open_model(model, found, key_from)
    return opened
