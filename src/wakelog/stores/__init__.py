"""Open a store or its catalog by URL.

All stores implement `ports.Store` and pass the same conformance suite. Store modules are imported by name on first
use, so an unused store costs no start-up time and its driver need not be installed.
"""

import importlib
import os
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from wakelog.errors import UsageError
from wakelog.ports.catalogs import Catalog
from wakelog.ports.stores import Store
from wakelog.stores.retrying import without_retries

if TYPE_CHECKING:
    from wakelog.stores.locking import LockWait

_SCHEMES_HINT = "use a folder, jsonl:DIR, sqlite:FILE, postgresql://… or memory:"
_CATALOG_MODULES = {
    "sqlite": "wakelog.stores.sqlite.catalog",
    "postgresql": "wakelog.stores.postgres.catalog",
    "postgres": "wakelog.stores.postgres.catalog",
}


def open_store(
    url: str,
    *,
    trusted_owners: Sequence[str] | Callable[[], Sequence[str]] = (),
    lock_wait: "LockWait | None" = None,
) -> Store:
    """The store of a URL: a directory, `jsonl:DIR`, `sqlite:FILE`, `postgresql://…` or `memory:`.

    `trusted_owners`: other users and groups whose files may be run, such as `("ada", "uid:1000", "group:agents")`;
    `("everyone",)` switches the check off. Stores without files ignore it.
    `lock_wait`: the limit on waits for locks of other processes, and a callback for long waits (`stores.locking`).
    """
    scheme, colon, place = url.partition(":")
    given: dict[str, Any] = {} if lock_wait is None else {"lock_wait": lock_wait}
    store: Store
    match scheme if colon else "":
        case "memory":
            store = load("wakelog.stores.memory").MemoryStore()
        case "sqlite":
            if not place.strip("/"):
                raise UsageError("`sqlite:` needs a file name", hint="for example sqlite:sessions.db")
            path = os.path.expanduser(place.removeprefix("//"))
            store = load("wakelog.stores.sqlite").SqliteStore(path, trusted_owners=trusted_owners, **given)
        case "postgresql" | "postgres":
            store = load("wakelog.stores.postgres").PostgresStore(url, **given)
        case "jsonl":
            path = os.path.expanduser(place)
            store = load("wakelog.stores.jsonl").JsonlStore(path, trusted_owners=trusted_owners, **given)
        case word if word and "/" not in word and not os.path.isdir(url):
            raise UsageError(f"unknown store scheme {word!r}", hint=_SCHEMES_HINT)
        case _:
            path = os.path.expanduser(url)
            store = load("wakelog.stores.jsonl").JsonlStore(path, trusted_owners=trusted_owners, **given)
    return store


def open_catalog(url: str, store: Store, *, lock_wait: "LockWait | None" = None) -> Catalog:
    """The catalog of a URL's store: in the store's own database or, for other stores, in the cache folder.

    `lock_wait`: as for `open_store`; a catalog in the store's own database uses the limit of the store.
    """
    module = _CATALOG_MODULES.get(_scheme(url))
    catalog: Catalog
    if module is not None:
        catalog = load(module).catalog_in(without_retries(store))
    else:
        catalog = load("wakelog.stores.catalog.index").index_in_cache(url, store, lock_wait=lock_wait)
    return catalog


def has_own_catalog(url: str) -> bool:
    """Whether the catalog of a URL's store is in the store's own database."""
    return _scheme(url) in _CATALOG_MODULES


def _scheme(url: str) -> str:
    scheme, colon, _ = url.partition(":")
    return scheme if colon else ""


def load(module: str) -> ModuleType:
    """Import a module by its full name."""
    return importlib.import_module(module)
