"""Keeping it: the stores, each behind the same port, each judged by the same suite.

This is one of the two places where a module is loaded by name: a store nobody asked for costs
nothing, and its driver need not be installed.
"""

import importlib
import os
from types import ModuleType

from wakelog.errors import UsageError
from wakelog.ports import Store

_STORES = {
    "jsonl": ("wakelog.stores.jsonl", "JsonlStore"),
    "memory": ("wakelog.stores.memory", "MemoryStore"),
}


def open_store(url: str) -> Store:
    """The store that a URL names: a directory, `jsonl:DIR`, or `memory:`."""
    scheme, colon, place = url.partition(":")
    if not colon or scheme not in _STORES:
        if colon and "/" not in scheme and place.startswith("//"):
            raise UsageError(f"no store speaks {scheme!r}", hint="use a directory, jsonl:DIR or memory:")
        scheme, place = "jsonl", url
    module, name = _STORES[scheme]
    make = getattr(load(module), name)
    store: Store = make() if scheme == "memory" else make(os.path.expanduser(place))
    return store


def load(module: str) -> ModuleType:
    """A module by its full name, when it is needed."""
    return importlib.import_module(module)
