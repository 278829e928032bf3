"""Location of sessions: the store a command uses, and its catalog.

`--store`, else `WAKELOG_STORE`, else the configured store, else `wakelog/sessions` in the XDG data folder. The catalog
is opened on first use and brought up to date then. For a store of files it is an index in the cache folder; a database
holds its own. Either may be deleted at any time.
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
# Limit on bytes read into the index before continuing a session; `ls` and `search` read the rest.
_READ_MAX_BYTES = 16 * 1024 * 1024
_LOGIN = r"(?<=://).*@"
_HIDDEN = r"([?&](?:password|direct)=)[^&]*"


def store_url(given: str | None) -> str:
    """Return the URL of the store a command uses."""
    return given or os.environ.get("WAKELOG_STORE") or _configured_store() or default_store()


def _configured_store() -> str | None:
    """Return the configured store: of the user's own file, or of a project that file trusts; else None."""
    if not is_configured(os.environ):
        return None
    found: str | None = load("wakelog.config.finding").configured_store(os.environ)
    return found


def default_store() -> str:
    """Return the folder used when no store is named."""
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(home, "wakelog", "sessions")


def shown_url(url: str) -> str:
    """Return a store's URL for display, without its secrets."""
    named = re.sub(_LOGIN, lambda found: f"{found[0].partition(':')[0].rstrip('@')}@", url)
    return re.sub(_HIDDEN, r"\1…", named)


def opened_store(url: str) -> Store:
    """Open the store of a URL, with the owners that the user's own configuration trusts.

    The configuration is read only if a file is not private; the command warns of such files at its end. Long waits for
    a lock are noted on stderr. A database store retries during short outages, which are noted there too.
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
    """A store and its catalog, which is opened on first use."""

    def __init__(self, url: str | None) -> None:
        self.url = store_url(url)
        self.store: Store = opened_store(self.url)
        self._catalog: Catalog | None = None

    @property
    def shown(self) -> str:
        """Return the store's URL for display."""
        return shown_url(self.url)

    @property
    def index_path(self) -> str:
        """Return the path of the index of a store of files; empty for a store with its own catalog."""
        path: str = "" if has_own_catalog(self.url) else load("wakelog.stores.catalog.index").index_path(self.url)
        return path

    @property
    def catalog(self) -> Catalog:
        """Return the up-to-date catalog. Commands that name a session by its full name do not need it."""
        if self._catalog is None:
            catalog = open_catalog(self.url, self.store, lock_wait=lock_wait())
            with watched("Reading sessions") as progress:
                catalog.refresh(progress=progress)
            self._catalog = catalog
        return self._catalog

    def recent(self, **filters: str) -> Iterator[SessionRow]:
        """Yield sessions, the last changed first, without waiting for large logs that are not indexed yet.

        Of those logs only the first and the last lines are read. `filters` are those of `Catalog.rows`.
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
    """Return the sort key of catalog rows: the last changed first, then by name."""
    return -(parse_ms(row.updated) or 0), row.name


def _pages(catalog: Catalog, filters: Mapping[str, Any]) -> Iterator[SessionRow]:
    after = None
    while rows := catalog.rows(limit=_PAGE, after=after, **filters):
        yield from rows
        after = rows[-1].cursor


def session_names(url: str | None, beginning: str) -> list[str]:
    """Return session names for shell completion; empty on any error."""
    try:
        rows = Place(url).catalog.rows(archived=None)
    except (WakelogError, OSError):
        return []
    names = [row.name for row in rows if row.name.startswith(beginning)]
    return [*(["@latest"] if "@latest".startswith(beginning) else []), *names[:_NAMES_COMPLETED]]
