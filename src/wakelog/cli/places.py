"""Where sessions are: the store that was asked for, and the catalog of it.

`--store`, else `WAKELOG_STORE`, else what is configured, else `wakelog/sessions` in the XDG data folder. The catalog is
opened when a question needs it and brought up to date then. That of a store of files is an index in the cache; a
database keeps its own. Either may be deleted at any time.
"""

import heapq
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from wakelog.cli import load
from wakelog.cli.exposed import remember
from wakelog.cli.failures import note
from wakelog.cli.lock_waits import lock_wait
from wakelog.cli.progress import watched
from wakelog.errors import WakelogError
from wakelog.log.times import parse_ms
from wakelog.ports import Catalog, Store
from wakelog.projections.session_row import SessionRow
from wakelog.projects import is_configured
from wakelog.stores import has_own_catalog, open_catalog, open_store
from wakelog.stores.retrying import with_retries

_NAMES_COMPLETED = 200
_PAGE = 20
# How much is read into the index before a session is gone on with; `ls` and `search` read the rest.
_READ_MAX_BYTES = 16 * 1024 * 1024
_LOGIN = r"(?<=://).*@"
_HIDDEN = r"([?&](?:password|direct)=)[^&]*"


def store_url(given: str | None) -> str:
    """The store a command is about."""
    return given or os.environ.get("WAKELOG_STORE") or _configured_store() or default_store()


def _configured_store() -> str | None:
    """The store that is configured: one's own file says it, or says which project may. Without one, nobody does."""
    if not is_configured(os.environ):
        return None
    found: str | None = load("wakelog.config.finding").configured_store(os.environ)
    return found


def default_store() -> str:
    """The folder that is used when nothing else is said."""
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(home, "wakelog", "sessions")


def shown_url(url: str) -> str:
    """A store for people to see: its URL without what is secret in it."""
    named = re.sub(_LOGIN, lambda found: f"{found[0].partition(':')[0].rstrip('@')}@", url)
    return re.sub(_HIDDEN, r"\1…", named)


def opened_store(url: str) -> Store:
    """The store of a URL, with the owners that the user's own configuration trusts.

    The configuration is read only where a file is not private. The command warns of such files at its end. Long waits
    for a lock are told on stderr. A database rides out short outages, which are told there too; files have none.
    """
    store = open_store(url, trusted_owners=_trusted_owners, lock_wait=lock_wait())
    remember(store)
    return with_retries(store, notice=note) if has_own_catalog(url) else store


def _trusted_owners() -> tuple[str, ...]:
    if not is_configured(os.environ):
        return ()
    found: tuple[str, ...] = load("wakelog.config.finding").trusted_owners(os.environ)
    return found


class Place:
    """One store and, when it is asked for, the catalog of it."""

    def __init__(self, url: str | None) -> None:
        self.url = store_url(url)
        self.store: Store = opened_store(self.url)
        self._catalog: Catalog | None = None

    @property
    def shown(self) -> str:
        """The store for people to see."""
        return shown_url(self.url)

    @property
    def index_path(self) -> str:
        """Where the index of a store of files is; empty for a store that keeps its catalog itself."""
        path: str = "" if has_own_catalog(self.url) else load("wakelog.stores.catalog.index").index_path(self.url)
        return path

    @property
    def catalog(self) -> Catalog:
        """The catalog, up to date. Most commands name a session outright and never need it."""
        if self._catalog is None:
            catalog = open_catalog(self.url, self.store, lock_wait=lock_wait())
            with watched("Reading sessions") as progress:
                catalog.refresh(progress=progress)
            self._catalog = catalog
        return self._catalog

    def recent(self, **filters: str) -> Iterator[SessionRow]:
        """The sessions, the last changed first, without waiting for large logs that are not indexed yet.

        Of those logs the first and the last lines are read instead. `filters` are those of `Catalog.rows`.
        """
        catalog, left = self._catalog, list[SessionRow]()
        if catalog is None:
            catalog = open_catalog(self.url, self.store, lock_wait=lock_wait())
            with watched("Reading sessions") as progress:
                catalog.refresh(progress=progress, limit_bytes=_READ_MAX_BYTES)
            left = list(catalog.left_out())
        names = {row.name for row in left}
        fitting = (row for row in left if not row.archived and _is_of(row, filters))
        known = (row for row in _pages(catalog, filters) if row.name not in names)
        return heapq.merge(sorted(fitting, key=_by_age), known, key=_by_age)


def _is_of(row: SessionRow, filters: Mapping[str, str]) -> bool:
    return all(getattr(row, field) == value for field, value in filters.items())


def _by_age(row: SessionRow) -> tuple[int, str]:
    """The order of rows in a catalog: the last changed first, then by name."""
    return -(parse_ms(row.updated) or 0), row.name


def _pages(catalog: Catalog, filters: Mapping[str, Any]) -> Iterator[SessionRow]:
    after = None
    while rows := catalog.rows(limit=_PAGE, after=after, **filters):
        yield from rows
        after = rows[-1].cursor


def session_names(url: str | None, beginning: str) -> list[str]:
    """Names of sessions for a shell to complete. A completion never complains."""
    try:
        rows = Place(url).catalog.rows(archived=None)
    except (WakelogError, OSError):
        return []
    names = [row.name for row in rows if row.name.startswith(beginning)]
    return [*(["@latest"] if "@latest".startswith(beginning) else []), *names[:_NAMES_COMPLETED]]
