"""Keeping it: the stores, each behind the same port, each judged by the same suite.

This is one of the two places where a module is loaded by name: a store nobody asked for costs
nothing, and its driver need not be installed.
"""

import importlib
import os
from types import ModuleType

from wakelog.errors import UsageError
from wakelog.ports import Store

_SPOKEN = "use a directory, jsonl:DIR, sqlite:FILE, postgresql://… or memory:"


def open_store(url: str) -> Store:
    """The store that a URL names: a directory, `jsonl:DIR`, `sqlite:FILE`, `postgresql://…` or `memory:`."""
    scheme, colon, place = url.partition(":")
    store: Store
    match scheme if colon else "":
        case "memory":
            store = load("wakelog.stores.memory").MemoryStore()
        case "sqlite":
            if not place.strip("/"):
                raise UsageError("no file is named after `sqlite:`", hint="sqlite:sessions.db, for example")
            store = load("wakelog.stores.sqlite").SqliteStore(os.path.expanduser(place.removeprefix("//")))
        case "postgresql" | "postgres":
            store = load("wakelog.stores.postgres").PostgresStore(url)
        case unknown:
            if unknown != "jsonl" and "/" not in unknown and place.startswith("//"):
                raise UsageError(f"no store speaks {scheme!r}", hint=_SPOKEN)
            folder = place if unknown == "jsonl" else url
            store = load("wakelog.stores.jsonl").JsonlStore(os.path.expanduser(folder))
    return store


def load(module: str) -> ModuleType:
    """A module by its full name, when it is needed."""
    return importlib.import_module(module)
