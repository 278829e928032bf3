"""Open the store of a front end and its catalog, and warn about files that other users own or may write to.

The store is the given URL, else `WAKELOG_STORE`, else the configured store, else `wakelog/sessions` in the user's data
folder. The catalog is opened on first use and brought up to date then. For a store of files it is an index in the cache
folder; a database holds its own. Either may be deleted at any time. Waiting for another process's lock is limited by
`WAKELOG_LOCK_TIMEOUT`; a long wait causes a notice.
"""

import heapq
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from wakelog.app.notices import notify, progress
from wakelog.errors import UsageError, WakelogError
from wakelog.folders import is_configured, user_folder
from wakelog.log.timestamps import parse_ms
from wakelog.ports.catalogs import Catalog, SessionRow
from wakelog.ports.stores import Exposure, Store
from wakelog.stores import load, open_catalog, open_store
from wakelog.stores.locking import DEFAULT_TIMEOUT_S, LockWait, LockWaitNotice
from wakelog.stores.retrying import with_retries
from wakelog.stores.urls import parse_store_url

_NAMES_COMPLETED = 200
_PAGE_ROWS = 20
# Limit on bytes read into the index before continuing a session; `ls` and `search` read the rest.
_READ_MAX_BYTES = 16 * 1024 * 1024
_CREDENTIALS = r"(?<=://).*@"
_PRIVATE_PARAMETERS = r"([?&](?:password|direct)=)[^&]*"


def store_url(given: str | None) -> str:
    """Return the URL of the store a command uses."""
    return given or os.environ.get("WAKELOG_STORE") or _configured_store() or default_store()


def _configured_store() -> str | None:
    """Return the configured store: of the user's own file, or of a project that file trusts; else None."""
    if not is_configured(os.environ):
        return None
    found: str | None = load("wakelog.config.files").configured_store(os.environ)
    return found


def default_store() -> str:
    """Return the folder used when no store is named."""
    return os.path.join(user_folder("data"), "sessions")


def url_for_display(url: str) -> str:
    """Return a store's URL for display, without its secrets."""
    named = re.sub(_CREDENTIALS, lambda found: f"{found[0].partition(':')[0].rstrip('@')}@", url)
    return re.sub(_PRIVATE_PARAMETERS, r"\1…", named)


def open_trusted_store(url: str) -> Store:
    """Open the store of a URL, with the owners that the user's own configuration trusts.

    The configuration is read only if a file is not private; the command warns of such files at its end. Long waits for
    a lock cause a notice. A database store retries during short outages, which cause notices too.
    """
    store = open_store(url, trusted_owners=_trusted_owners, lock_wait=lock_wait())
    remember_store(store)
    return with_retries(store, notice=notify) if parse_store_url(url).kind.may_be_unavailable else store


def _trusted_owners() -> tuple[str, ...]:
    if not is_configured(os.environ):
        return ()
    found: tuple[str, ...] = load("wakelog.config.files").trusted_owners(os.environ)
    return found


class StoreLocation:
    """A store and its catalog, which is opened on first use."""

    def __init__(self, url: str | None) -> None:
        self.url = store_url(url)
        self.store: Store = open_trusted_store(self.url)
        self._catalog: Catalog | None = None

    @property
    def display_url(self) -> str:
        """Return the store's URL for display."""
        return url_for_display(self.url)

    @property
    def index_path(self) -> str:
        """Return the path of the index of a store of files; empty for a store with its own catalog."""
        if parse_store_url(self.url).kind.catalog is not None:
            return ""
        path: str = load("wakelog.stores.catalog.index").index_path(self.url)
        return path

    @property
    def catalog(self) -> Catalog:
        """Return the up-to-date catalog. Commands that name a session by its full name do not need it."""
        if self._catalog is None:
            catalog = open_catalog(self.url, self.store, lock_wait=lock_wait())
            with progress("Reading sessions") as report:
                catalog.refresh(progress=report)
            self._catalog = catalog
        return self._catalog

    def recent(self, **filters: str) -> Iterator[SessionRow]:
        """Yield sessions, the last changed first, without waiting for large logs that are not indexed yet.

        Of those logs only the first and the last lines are read. `filters` are those of `Catalog.rows`.
        """
        catalog, left = self._catalog, list[SessionRow]()
        if catalog is None:
            catalog = open_catalog(self.url, self.store, lock_wait=lock_wait())
            with progress("Reading sessions") as report:
                catalog.refresh(progress=report, limit_bytes=_READ_MAX_BYTES)
            left = list(catalog.left_out())
        names = {row.name for row in left}
        fitting = (row for row in left if not row.archived and _matches(row, filters))
        known = (row for row in _pages(catalog, filters) if row.name not in names)
        return heapq.merge(sorted(fitting, key=_by_age), known, key=_by_age)


def _matches(row: SessionRow, filters: Mapping[str, str]) -> bool:
    return all(getattr(row, field) == value for field, value in filters.items())


def _by_age(row: SessionRow) -> tuple[int, str]:
    """Return the sort key of catalog rows: the last changed first, then by name."""
    return -(parse_ms(row.updated) or 0), row.name


def _pages(catalog: Catalog, filters: Mapping[str, Any]) -> Iterator[SessionRow]:
    after = None
    while rows := catalog.rows(limit=_PAGE_ROWS, after=after, **filters):
        yield from rows
        after = rows[-1].cursor


def session_names(url: str | None, beginning: str) -> list[str]:
    """Return session names for shell completion; empty on any error."""
    try:
        rows = StoreLocation(url).catalog.rows(archived=None)
    except (WakelogError, OSError):
        return []
    names = [row.name for row in rows if row.name.startswith(beginning)]
    return [*(["@latest"] if "@latest".startswith(beginning) else []), *names[:_NAMES_COMPLETED]]


LOCK_TIMEOUT_VARIABLE = "WAKELOG_LOCK_TIMEOUT"
_LONGEST_S = 24 * 60 * 60


def lock_wait() -> LockWait:
    """Return the limit from `WAKELOG_LOCK_TIMEOUT`, in seconds, or the default; long waits cause a notice."""
    timeout_s = _timeout_s()

    def report(waiting: LockWaitNotice) -> None:
        notify(f"{waiting}; gives up after {timeout_s:.3g} s")

    return LockWait(timeout_s, report)


def _timeout_s() -> float:
    given = os.environ.get(LOCK_TIMEOUT_VARIABLE)
    if not given:
        return DEFAULT_TIMEOUT_S
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _LONGEST_S:
        raise UsageError(
            f"{LOCK_TIMEOUT_VARIABLE} must be a number of seconds, not {given[:40]!r}", hint="for example 30"
        )
    return seconds


class StoresRead:
    """Stores, and sessions of them, that a command reads: it warns once about those that other users may change."""

    def __init__(self) -> None:
        self.is_reported = False
        self._stores: dict[int, tuple[Store, dict[str, None]]] = {}

    def add(self, store: Store, session: str | None) -> None:
        """Remember a store, and optionally a session of it."""
        _, sessions = self._stores.setdefault(id(store), (store, {}))
        if session is not None:
            sessions[session] = None

    def warn_once(self) -> None:
        """Send a notice about exposed files, unless they were reported already."""
        if self.is_reported:
            return
        try:
            exposures = {found.path: found for found in self._exposures()}
        except UsageError as error:
            # The configuration, which names the trusted users, is invalid.
            self.is_reported = True
            notify(str(error))
            return
        if exposures:
            self.is_reported = True
            first = next(iter(exposures.values()))
            more = f" (and {len(exposures) - 1} more)" if len(exposures) > 1 else ""
            remedy = f"`{first.remedy}` prevents that"
            notify(f"{first.path} {first.reason}{more}: it is read, but no agent is run on it; {remedy}")

    def _exposures(self) -> Iterator[Exposure]:
        for store, sessions in self._stores.values():
            for session in sessions or (None,):
                yield from _custody(store, session)
            # Files opened on the way: logs of a list, blobs, parents of forks. Only stores of files have a folder.
            folder = getattr(store, "folder", None)
            if folder is not None:
                yield from folder.custody.noticed_exposures()


_STORES_READ: ContextVar[StoresRead | None] = ContextVar("stores_read", default=None)


def track_stores() -> StoresRead:
    """Begin a command: return the record of the stores that it reads from now on."""
    read = StoresRead()
    _STORES_READ.set(read)
    return read


def remember_store(store: Store, session: str | None = None) -> None:
    """Remember a store, and optionally a session of it, that the running command reads."""
    if (read := _STORES_READ.get()) is not None:
        read.add(store, session)


def mark_exposure_reported() -> None:
    """Record that the running command has reported the exposure as an error, so that no warning follows."""
    if (read := _STORES_READ.get()) is not None:
        read.is_reported = True


def warn_once() -> None:
    """Send a notice about exposed files among all that the running command has read, unless that was done already."""
    if (read := _STORES_READ.get()) is not None:
        read.warn_once()


def _custody(store: Store, session: str | None) -> tuple[Exposure, ...]:
    """Return the exposed files; empty if they cannot be examined, because the reading itself reports that."""
    try:
        return store.custody(session)
    except UsageError:
        raise
    except (WakelogError, OSError):
        return ()
