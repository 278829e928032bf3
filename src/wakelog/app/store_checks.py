"""Checks and sizes of a store, for `doctor`, `verify --all` and `du`.

`check_store` verifies lines and seals of the sessions that changed last, up to a number of bytes, and compares their
blobs with a listing. Its report says what it did not check; `verify_all` checks everything. Findings about folders and
files are empty for a database. No log is changed; only links and the index, which are derived from the logs, are
repaired.
"""

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from wakelog.app.notices import progress
from wakelog.app.stores import StoreLocation
from wakelog.errors import NewerFormat, NoAccess, StoreError
from wakelog.log.session_names import is_name
from wakelog.ports.catalogs import SessionRow
from wakelog.ports.stores import Store
from wakelog.stores.files import storage
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.jsonl.folder import LOG_SUFFIX
from wakelog.verification import (
    BlobCheck,
    SessionCheck,
    check_blobs_by_size,
    check_each_blob_once,
    verify_sessions,
)

_STORE_FOLDERS = frozenset({"by-id", "by-title", ".locks", ".journals", ".blobs"})
_PROBLEMS_MAX = 20
# `doctor` verifies logs of about this size together: a few seconds.
_VERIFIED_MAX_BYTES = 256 * 1024 * 1024


class LostBlobs(msgspec.Struct, frozen=True):
    """A session, and how many of the blobs it names are missing or have another size."""

    name: str
    blobs: int


class StoreReport(msgspec.Struct, frozen=True, rename="camel"):
    """The report of `doctor` about a store; its fields are the `--json` output."""

    store: str
    sessions: int
    bytes: int
    index: str
    index_bytes: int
    damaged: list[str]
    lost: list[LostBlobs]
    inaccessible: list[str]
    problems: list[str]
    relinked: list[str]
    redacted: dict[str, int]
    """The number of redaction marks in the sessions that were verified, by kind."""
    verified: int
    """The number of sessions whose lines and seals were verified."""
    unverified: int
    unverified_bytes: int
    """The size of the logs that were not verified."""
    unread_blobs: int
    """The number of blobs of which only the size was checked."""

    @property
    def is_damaged(self) -> bool:
        """Return whether stored data is damaged or lost."""
        return bool(self.damaged or self.lost)

    @property
    def is_complete(self) -> bool:
        """Return whether everything was checked."""
        return not (self.unverified or self.unread_blobs or self.inaccessible)


def check_store(place: StoreLocation) -> StoreReport:
    """Check a store, make its missing links, and read damaged sessions into its index again."""
    folder = store_folder(place)
    # A file in place of the folder is reported as a problem; it cannot be listed.
    is_readable = folder is None or os.path.isdir(folder) or not os.path.lexists(folder)
    stats = list(place.store.sessions()) if is_readable else []
    rows = place.catalog.rows(archived=None) if stats else []
    relinked, refused = relink(place, {row.name: row.title for row in rows if row.title}) if stats else ([], [])
    sizes = _blob_sizes(place.store) if stats else {}
    left = _beyond(rows, _VERIFIED_MAX_BYTES)
    found = _Findings([] if sizes is not None else ["the blobs"], [row.name for row in left if row.damage])
    names = [row.name for row in rows if row.name not in {row.name for row in left}]
    for check in _verify(place.store, names, len(names), _size_check(place.store, sizes)):
        found.add(check)
    _reread(place, rows, found.readable)
    return StoreReport(
        store=folder or place.display_url,
        sessions=len(stats),
        bytes=sum(found.size for found in stats),
        index=place.index_path,
        index_bytes=index_bytes(place),
        damaged=found.damaged,
        lost=found.lost,
        inaccessible=found.inaccessible,
        problems=[*found.unreadable, *refused, *(_limit_problems(_problems(folder)) if folder else ())],
        relinked=relinked,
        redacted=dict(found.redacted),
        verified=len(found.readable),
        unverified=len(left),
        unverified_bytes=sum(row.size for row in left),
        unread_blobs=len(sizes or ()),
    )


class _Findings:
    """What the verification of the sessions of a store has found."""

    def __init__(self, inaccessible: list[str], damaged: list[str]) -> None:
        self.inaccessible = inaccessible
        self.damaged = damaged
        self.lost: list[LostBlobs] = []
        self.unreadable: list[str] = []
        self.readable: dict[str, bool] = {}
        """Whether each session that could be read is damaged, by name."""
        self.redacted = Counter[str]()

    def add(self, check: SessionCheck) -> None:
        """Add the verification of a session."""
        if isinstance(check.error, NoAccess):
            self.inaccessible.append(check.name)
        elif isinstance(check.error, NewerFormat):
            self.unreadable.append(f"{check.name} was not checked: {check.error}")
        elif check.is_damaged:
            self.damaged.append(check.name)
        if check.lost_blobs:
            self.lost.append(LostBlobs(check.name, check.lost_blobs))
        if check.verified is not None:
            self.readable[check.name] = bool(check.verified.damage)
            self.redacted.update(check.verified.redacted)


def verify_all(store: Store) -> Iterator[SessionCheck]:
    """Verify every session of a store, with every blob."""
    names = (found.name for found in store.sessions())
    return _verify(store, names, None, check_each_blob_once(store.blobs))


def _verify(store: Store, names: Iterable[str], total: int | None, check: BlobCheck) -> Iterator[SessionCheck]:
    """Verify sessions, with a progress bar; without `total` they are counted for it."""
    with progress("Verifying sessions") as report:
        if report is not None and total is None:
            total = sum(1 for _ in store.sessions())
        for done, result in enumerate(verify_sessions(store, names, check), 1):
            yield result
            if report is not None and total is not None:
                report(done, total)


def _beyond(rows: Iterable[SessionRow], max_bytes: int) -> list[SessionRow]:
    """Return the sessions that are too large to be verified within `max_bytes`, those changed last first."""
    left = []
    for row in rows:
        if row.size > max_bytes:
            left.append(row)
        else:
            max_bytes -= row.size
    return left


def _blob_sizes(store: Store) -> dict[str, int] | None:
    """Return the sizes of all blobs by digest; None if this user may not list them."""
    try:
        return {blob.digest: blob.bytes for blob in store.blobs.stored()}
    except NoAccess:
        return None


def _size_check(store: Store, sizes: dict[str, int] | None) -> BlobCheck:
    return check_blobs_by_size(store.blobs, sizes) if sizes is not None else lambda _: None


def _reread(place: StoreLocation, rows: Iterable[SessionRow], readable: Mapping[str, bool]) -> None:
    """Read sessions into the index again of which it does not know that they are damaged, or are not any more."""
    outdated = [row.name for row in rows if row.name in readable and readable[row.name] != bool(row.damage)]
    if outdated:
        place.catalog.refresh(reread=outdated)


def relink(place: StoreLocation, titles: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Make the missing links of a store of files; return those made, and the errors."""
    if not isinstance(place.store, JsonlStore):
        return [], []
    try:
        return place.store.relink(titles), []
    except StoreError as error:
        return [], [str(error)]


def store_folder(place: StoreLocation) -> str | None:
    """Return the folder of a store of files; None for other stores."""
    return place.store.folder.path if isinstance(place.store, JsonlStore) else None


def index_bytes(place: StoreLocation) -> int:
    """Return the bytes of the index in the cache folder; 0 for a store with its own catalog."""
    path = place.index_path
    return sum(os.path.getsize(path + end) for end in ("", "-wal", "-shm", ".lock") if os.path.isfile(path + end))


def bytes_under(path: str) -> int:
    """Return the total size of all files below a folder; symbolic links are not followed. 0 if it does not exist."""
    total = 0
    for folder, _, files in os.walk(path):
        for file in files:
            try:
                total += os.lstat(os.path.join(folder, file)).st_size
            except FileNotFoundError:
                continue
    return total


def _limit_problems(problems: Iterator[str]) -> Iterator[str]:
    for number, problem in enumerate(problems):
        if number == _PROBLEMS_MAX:
            yield "and more"
            return
        yield problem


def _problems(folder: str) -> Iterator[str]:
    if not os.path.isdir(folder):
        exists = os.path.lexists(folder)
        yield f"{folder} is not a folder" if exists else f"{folder} does not exist yet; `wakelog new` creates it"
        return
    yield from _mode_problems(folder, folder)
    with storage(f"list {folder}"), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            yield from _entry_problems(entry)
    yield from _dangling(os.path.join(folder, "by-id"))
    yield from _dangling(os.path.join(folder, "by-title"))


def _entry_problems(entry: os.DirEntry[str]) -> Iterator[str]:
    if entry.name in _STORE_FOLDERS:
        return
    if entry.name.startswith(".new-"):
        yield f"{entry.name} is left from a session that was being created; it may be removed"
    elif entry.is_symlink():
        yield f"{entry.name} is a link; links are not followed inside a store"
    elif not entry.name.endswith(LOG_SUFFIX) or not is_name(entry.name.removesuffix(LOG_SUFFIX)) or not entry.is_file():
        yield f"{entry.name} is not a log and is ignored"
    else:
        yield from _mode_problems(entry.path, entry.name)


def _mode_problems(path: str, name: str) -> Iterator[str]:
    found = os.lstat(path)
    if found.st_uid != os.geteuid():
        yield f"{name} belongs to another user"
    if found.st_mode & 0o022:
        yield f"{name} can be written by others, so no agent is run on it; `chmod go-w` prevents that"
    elif stat.S_IMODE(found.st_mode) & 0o077:
        private = "700" if stat.S_ISDIR(found.st_mode) else "600"
        yield f"{name} can be read by others; `chmod {private}` makes it private"


def _dangling(folder: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        path = os.path.join(folder, name)
        if os.path.islink(path) and not os.path.exists(path):
            yield f"{os.path.basename(folder)}/{name} points to a log that does not exist"
