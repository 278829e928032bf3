"""Checks and sizes of a store, for `doctor` and `du`.

Findings about folders and files are empty for a database. Logs are read for the digests of their blobs, which are
compared with a listing; blob contents are not read. No log is changed; only links, which are derived from the logs, are
repaired.
"""

import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from wakelog.app.notices import progress
from wakelog.app.stores import StoreLocation
from wakelog.errors import NoAccess, StoreError, WakelogError
from wakelog.log.redaction_marks import count_marks
from wakelog.log.references import LogReferences
from wakelog.log.session_names import is_name
from wakelog.ports.stores import Store
from wakelog.stores.files import storage
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.jsonl.folder import LOG_SUFFIX

_STORE_FOLDERS = frozenset({"by-id", "by-title", ".locks", ".journals", ".blobs"})
_PROBLEMS_MAX = 20


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
    """The number of redaction marks in the logs, by kind."""

    @property
    def is_bad(self) -> bool:
        """Return whether stored data is damaged, lost or not accessible."""
        return bool(self.damaged or self.lost or self.inaccessible)


def check_store(place: StoreLocation) -> StoreReport:
    """Check a store, and make its missing links."""
    folder = store_folder(place)
    # A file in place of the folder is reported as a problem; it cannot be listed.
    is_readable = folder is None or os.path.isdir(folder) or not os.path.lexists(folder)
    stats = list(place.store.sessions()) if is_readable else []
    rows = place.catalog.rows(archived=None) if stats else []
    relinked, refused = relink(place, {row.name: row.title for row in rows if row.title}) if stats else ([], [])
    redacted = Counter[str]()
    lost, inaccessible = _lost_blobs(place.store, [found.name for found in stats], redacted)
    return StoreReport(
        store=folder or place.display_url,
        sessions=len(stats),
        bytes=sum(found.size for found in stats),
        index=place.index_path,
        index_bytes=index_bytes(place),
        damaged=[row.name for row in rows if row.damage],
        lost=lost,
        inaccessible=inaccessible,
        problems=[*refused, *_limit_problems(_problems(folder))] if folder else [],
        relinked=relinked,
        redacted=dict(redacted),
    )


def relink(place: StoreLocation, titles: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Make the missing links of a store of files; return those made, and the errors."""
    if not isinstance(place.store, JsonlStore):
        return [], []
    try:
        return place.store.relink(titles), []
    except StoreError as error:
        return [], [str(error)]


def _lost_blobs(store: Store, names: list[str], redacted: Counter[str]) -> tuple[list[LostBlobs], list[str]]:
    """Return the sessions with missing blobs, and what this user may not read; count the marks in `redacted`."""
    lost: list[LostBlobs] = []
    inaccessible: list[str] = []
    try:
        sizes = {blob.digest: blob.bytes for blob in store.blobs.stored()} if names else {}
    except NoAccess:
        return [], ["the blobs"]
    with progress("Reading logs") as report:
        for at, name in enumerate(names):
            try:
                missing = [
                    digest for digest, size in _named_blobs(store, name, redacted).items() if sizes.get(digest) != size
                ]
                lost += [LostBlobs(name, len(missing))] if missing else []
            except NoAccess:
                inaccessible.append(name)
            except WakelogError:
                # The catalog could not read it either, and reports it as damaged.
                continue
            if report is not None:
                report(at + 1, len(names))
    return lost, inaccessible


def _named_blobs(store: Store, name: str, redacted: Counter[str]) -> dict[str, int]:
    needs = LogReferences()
    for line in store.load(name):
        needs.add(line)
        redacted.update(count_marks((line.raw,)))
    return needs.blobs


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
