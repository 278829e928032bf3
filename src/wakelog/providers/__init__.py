"""Asking a model: the providers, each behind the same port, none knowing another.

Rule 1: a provider keeps nothing between two calls. All it may go by is the request, which is derived
from the log, so any process can make the next call.
Rule 2: what the outside world does is a `Faulted`; only a caller's mistake is an exception.
A provider is loaded by name when it is asked for: one that nobody uses costs nothing, and what it needs
need not be installed. Each module here that holds one has a function `open_model`.
"""

import difflib
import importlib
import os
from collections.abc import Mapping

from wakelog.errors import UsageError
from wakelog.ports import Provider

_PROVIDERS = {
    "anthropic": "wakelog.providers.anthropic",
    "openai": "wakelog.providers.openai.responses",
    "openai-chat": "wakelog.providers.openai.chat",
    "scripted": "wakelog.providers.scripted",
    "demo": "wakelog.providers.demo",
}
# How each is asked for on a command line.
_SPELLINGS = "anthropic:NAME, openai:NAME, openai-chat:NAME, scripted:FILE, demo"


def split_model(text: str) -> tuple[str, str]:
    """`PROVIDER:MODEL` as the two; a provider that has one model only may stand alone."""
    provider, colon, model = text.partition(":")
    if not provider or (colon and not model):
        raise UsageError(f"{text!r} names no model", hint=f"use one of {_SPELLINGS}")
    return provider, model if colon else provider


def open_provider(provider: str, model: str, environ: Mapping[str, str] | None = None) -> Provider:
    """The provider of that name, ready to be asked for that model. Keys and addresses come from the environment."""
    if provider not in _PROVIDERS:
        near = difflib.get_close_matches(provider, _PROVIDERS, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"there is no provider {provider!r}", hint=f"{meant}there are {_SPELLINGS}")
    found = os.environ if environ is None else environ
    opened: Provider = importlib.import_module(_PROVIDERS[provider]).open_model(model, found)
    return opened
