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
from wakelog.stores.urls import parse_store_url

if TYPE_CHECKING:
    from wakelog.stores.locking import LockWait


def _url_text(url: object) -> str:
    """Return the URL of a store; the path of a folder is one."""
    if isinstance(url, str):
        return url
    if isinstance(url, os.PathLike):
        return str(os.fspath(url))
    raise UsageError(f"not the URL of a store: {type(url).__name__}", hint='pass text, such as "sqlite:agent.db"')


def open_store(
    url: "str | os.PathLike[str]",
    *,
    trusted_owners: Sequence[str] | Callable[[], Sequence[str]] = (),
    lock_wait: "LockWait | None" = None,
) -> Store:
    """The store of a URL: a directory, `jsonl:DIR`, `sqlite:FILE`, `postgresql://…` or `memory:`.

    `trusted_owners`: other users and groups whose files may be run, such as `("ada", "uid:1000", "group:agents")`;
    `("everyone",)` switches the check off. Stores without files ignore it.
    `lock_wait`: the limit on waits for locks of other processes, and a callback for long waits (`stores.locking`).
    """
    parsed = parse_store_url(_url_text(url))
    options: dict[str, Any] = {"trusted_owners": trusted_owners}
    if lock_wait is not None:
        options["lock_wait"] = lock_wait
    module, _, name = parsed.kind.store.partition(":")
    taken = {option: value for option, value in options.items() if option in parsed.kind.options}
    store: Store = getattr(load(module), name)(*parsed.arguments, **taken)
    return store


def open_catalog(url: str, store: Store, *, lock_wait: "LockWait | None" = None) -> Catalog:
    """The catalog of a URL's store: in the store's own database or, for other stores, in the cache folder.

    `lock_wait`: as for `open_store`; a catalog in the store's own database uses the limit of the store.
    """
    module = parse_store_url(url).kind.catalog
    catalog: Catalog
    if module is not None:
        catalog = load(module).catalog_in(without_retries(store))
    else:
        catalog = load("wakelog.stores.catalog.index").index_in_cache(url, store, lock_wait=lock_wait)
    return catalog


def load(module: str) -> ModuleType:
    """Import a module by its full name."""
    return importlib.import_module(module)
