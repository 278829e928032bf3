"""What lies in a store, counted and looked over. Used by `doctor` and `du`.

What is said of folders and files is empty for a store that is no folder. Logs are read for the blobs they name, and
those are looked for in a listing; their bytes are not read. No log is changed: the only thing that is repaired are
links, which are derived from the logs.
"""

import os
import stat
from collections.abc import Iterator, Mapping

import msgspec

from wakelog.cli.places import Place
from wakelog.cli.progress import watched
from wakelog.errors import NoAccess, StoreError, WakelogError
from wakelog.log.names import is_name
from wakelog.log.needs import Needs
from wakelog.ports import Store
from wakelog.stores.files import LOG_SUFFIX, storage
from wakelog.stores.jsonl import JsonlStore

_OURS = frozenset({"by-id", "by-title", ".locks", ".journals", ".blobs"})
_PROBLEMS_MAX = 20


class LostBlobs(msgspec.Struct, frozen=True):
    """A session, and how many blobs it names that are not there or have another size."""

    name: str
    blobs: int


class StoreReport(msgspec.Struct, frozen=True, rename="camel"):
    """What `doctor` says about a store."""

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

    @property
    def is_bad(self) -> bool:
        """Whether something that was kept cannot be had."""
        return bool(self.damaged or self.lost or self.inaccessible)


def check_store(place: Place) -> StoreReport:
    """Looks a store over."""
    folder = folder_of(place)
    # A file where a folder should be is a finding, and nothing that can be listed.
    is_readable = folder is None or os.path.isdir(folder) or not os.path.lexists(folder)
    stats = list(place.store.sessions()) if is_readable else []
    rows = place.catalog.rows(archived=None) if stats else []
    relinked, refused = relink(place, {row.name: row.title for row in rows if row.title}) if stats else ([], [])
    lost, inaccessible = _lost_blobs(place.store, [found.name for found in stats])
    return StoreReport(
        store=folder or place.shown,
        sessions=len(stats),
        bytes=sum(found.size for found in stats),
        index=place.index_path,
        index_bytes=index_bytes(place),
        damaged=[row.name for row in rows if row.damage],
        lost=lost,
        inaccessible=inaccessible,
        problems=[*refused, *_some(_problems(folder))] if folder else [],
        relinked=relinked,
    )


def relink(place: Place, titles: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Makes the missing links of a store of files; gives those that were made, and why some could not be made."""
    if not isinstance(place.store, JsonlStore):
        return [], []
    try:
        return place.store.relink(titles), []
    except StoreError as error:
        return [], [str(error)]


def _lost_blobs(store: Store, names: list[str]) -> tuple[list[LostBlobs], list[str]]:
    """The logs that name blobs which cannot be had, and what this user may not read."""
    lost: list[LostBlobs] = []
    inaccessible: list[str] = []
    try:
        sizes = {blob.digest: blob.bytes for blob in store.blobs.stored()} if names else {}
    except NoAccess:
        return [], ["the blobs"]
    with watched("Reading logs") as progress:
        for at, name in enumerate(names):
            try:
                missing = [digest for digest, size in _named_blobs(store, name).items() if sizes.get(digest) != size]
                lost += [LostBlobs(name, len(missing))] if missing else []
            except NoAccess:
                inaccessible.append(name)
            except WakelogError:
                # The catalog could not read it either, and calls it damaged.
                continue
            if progress is not None:
                progress(at + 1, len(names))
    return lost, inaccessible


def _named_blobs(store: Store, name: str) -> dict[str, int]:
    needs = Needs()
    for line in store.load(name):
        needs.take(line)
    return needs.blobs


def folder_of(place: Place) -> str | None:
    """The folder of a store of files."""
    return place.store.folder.path if isinstance(place.store, JsonlStore) else None


def index_bytes(place: Place) -> int:
    """What the index in the cache takes up; what a store keeps in itself is part of the store."""
    path = place.index_path
    return sum(os.path.getsize(path + end) for end in ("", "-wal", "-shm", ".lock") if os.path.isfile(path + end))


def bytes_under(path: str) -> int:
    """The sizes of all files below a folder, links not followed; 0 if there is none."""
    total = 0
    for folder, _, files in os.walk(path):
        for file in files:
            try:
                total += os.lstat(os.path.join(folder, file)).st_size
            except FileNotFoundError:
                continue
    return total


def _some(problems: Iterator[str]) -> Iterator[str]:
    for number, problem in enumerate(problems):
        if number == _PROBLEMS_MAX:
            yield "and more"
            return
        yield problem


def _problems(folder: str) -> Iterator[str]:
    if not os.path.isdir(folder):
        there = os.path.lexists(folder)
        yield f"{folder} is no folder" if there else f"{folder} is not there yet; `wakelog new` makes it"
        return
    yield from _mode_problems(folder, folder)
    with storage(f"list {folder}"), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            yield from _entry_problems(entry)
    yield from _dangling(os.path.join(folder, "by-id"))
    yield from _dangling(os.path.join(folder, "by-title"))


def _entry_problems(entry: os.DirEntry[str]) -> Iterator[str]:
    if entry.name in _OURS:
        return
    if entry.name.startswith(".new-"):
        yield f"{entry.name} is left from a session that was being created; it may be removed"
    elif entry.is_symlink():
        yield f"{entry.name} is a link; links are not followed inside a store"
    elif not entry.name.endswith(LOG_SUFFIX) or not is_name(entry.name.removesuffix(LOG_SUFFIX)) or not entry.is_file():
        yield f"{entry.name} is no log and is not looked at"
    else:
        yield from _mode_problems(entry.path, entry.name)


def _mode_problems(path: str, name: str) -> Iterator[str]:
    found = os.lstat(path)
    if found.st_uid != os.geteuid():
        yield f"{name} belongs to another user"
    if found.st_mode & 0o022:
        yield f"{name} can be written by others, so no agent is run on it; `chmod go-w` ends that"
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
            yield f"{os.path.basename(folder)}/{name} points at a log that is not there"
