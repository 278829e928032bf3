"""Import a log of wakelog itself: a file of another store, or an exported one. The session keeps its id and its bytes.

Rule 1: bytes are copied, damage included, as `wakelog copy` does it (`transfer`): the log here is a prefix of the file,
or the file is refused. A grown file adds its new lines; a file that has nothing new changes nothing.
Rule 2: if the file is in the folder of a store, the blobs that it names come from there, and so do the sessions that it
needs: the one that a fork inherits from, and its subagents. Blobs of an exported file that are not in this store are
reported.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from wakelog.errors import BadId, NotASession, NotFound
from wakelog.exchange.account import Account, ImportedSession
from wakelog.exchange.chains import json_cell
from wakelog.exchange.files import DiskFile
from wakelog.exchange.records import BadRecord
from wakelog.exchange.sessions import SessionOrigin, SkippedRecords
from wakelog.log.content import BlobRef
from wakelog.log.entry import SessionHeader
from wakelog.log.ids import is_id
from wakelog.log.lines import EntryReader, Line, split_lines
from wakelog.log.session_names import is_name, name_stem
from wakelog.ports.stores import SessionStat, Store, StoredBlob
from wakelog.projections.overview import overview
from wakelog.session import Session
from wakelog.stores import open_store
from wakelog.transfer import Copied, copy

TOOL = "wakelog"
_ENDING = ".jsonl"
_STORE_FOLDERS = ("by-id", ".blobs", ".locks")
_OWN_FIELDS = ("v", "seq", "h")
_UNFINISHED = frozenset(("pending", "interrupted", "undelivered", "waiting", "failed"))


def is_own_log(head: Sequence[Any]) -> bool:
    """Return whether the first records of a file are those of a wakelog log: a header with fields of the store."""
    match head:
        case [{"type": "session", "id": str(), **rest}, *_]:
            return any(field in rest for field in _OWN_FIELDS)
    return False


def is_own_log_file(path: str) -> bool:
    """Return whether a file is a log of wakelog itself, by its first line."""
    first = next(split_lines([next(DiskFile(path).blocks(), b"")]), None)
    found = json_cell(first.raw, 1) if first is not None and first.ended else None
    return is_own_log([found])


def import_own_log(
    store: Store, path: str, *, dry_run: bool = False, unattended: bool = False
) -> Iterator[ImportedSession]:
    """Import the log in a file, and the sessions that it needs, and yield the result of each.

    `unattended`: automatic wakers leave the sessions alone until a person continues them, unless that has happened.
    `NotASession` if the file has no header. A session that differs from the one in the store is a result with an error.
    """
    file = DiskFile(path)
    header = _header(file)
    source, name = _source(file, header)
    with contextlib.closing(source):
        if _is_known(store, source, header.id, name):
            yield _result(Copied(header.id, name, "unchanged", to=store.name(header.id)), source, path)
            return
        for done in copy(source, store, [name], dry_run=dry_run):
            if unattended and done.error is None and done.to is not None and not dry_run:
                _leave_unattended(store, done.to)
            yield _result(done, source, path)


def _leave_unattended(store: Store, name: str) -> None:
    """Mark a session that has work to do, so that automatic wakers leave it alone until a person continues it.

    The mark is a `head` entry, as for a fork. The header, which says so for sessions of other agents, stays as it is.
    From then on the log differs from its file: `wakelog copy` keeps stores of one's own in sync.
    """
    session = Session(store, name)
    waits = overview(session.tree, held=False, damaged=False).state in _UNFINISHED
    if waits and session.tree.head is not None:
        session.move_head(session.tree.head)


def _header(file: DiskFile) -> SessionHeader:
    first = next(split_lines(file.blocks()), None)
    for entry in EntryReader().feed(first) if first is not None else ():
        if isinstance(entry.value, SessionHeader) and is_id(entry.id):
            return entry.value
    raise NotASession(f"{file.path} is not a log of wakelog: its first line is not the header of a session")


def _source(file: DiskFile, header: SessionHeader) -> tuple[Store, str]:
    """Return the store that a file is in, and its name there; an exported file is a store of its own."""
    folder, base = os.path.split(os.path.abspath(file.path))
    name = base.removesuffix(_ENDING)
    is_in_store = any(os.path.isdir(os.path.join(folder, each)) for each in _STORE_FOLDERS)
    if is_in_store and base.endswith(_ENDING) and is_name(name) and not file.is_compressed:
        return open_store(folder), name
    if header.agent and header.number is not None:
        name = f"{name_stem(header.agent, header.sender)}{header.number}"
    name = name if is_name(name) else header.id
    return cast("Store", _LogFile(file, header.id, name)), name


def _is_known(store: Store, source: Store, session: str, name: str) -> bool:
    """Return whether the store has all bytes of a log, and perhaps more: the session was continued here."""
    try:
        there = store.load(store.name(session))
    except (NotFound, BadId):
        return False
    held = b""
    for line in source.load(name):
        while len(held) < len(line.bytes) and (other := next(there, None)) is not None:
            held += other.bytes
        if not held.startswith(line.bytes):
            return False
        held = held[len(line.bytes) :]
    return bool(held) or next(there, None) is not None


def _result(done: Copied, source: Store, path: str) -> ImportedSession:
    account = Account(
        skipped={}, bad=[BadRecord(each.line, each.offset, each.size, each.reason) for each in done.damage]
    )
    for lost in done.lost:
        account.add(SkippedRecords("missing", 1, f"{lost.what}: {lost.reason}"))
    lines, added = _counted(source, done) if done.error is None else (0, 0)
    account.mapped = lines
    return ImportedSession(
        origin=SessionOrigin(tool=TOOL, id=done.session, path=path),
        session=done.session,
        name=done.to,
        is_new=done.error is None and done.bytes > 0 and done.copied == done.bytes,
        added=added,
        account=account,
        error=done.error,
    )


def _counted(source: Store, done: Copied) -> tuple[int, int]:
    """Return how many entries a log has, and how many of them are new."""
    reader, lines, added = EntryReader(), 0, 0
    known = done.bytes - done.copied
    for line in source.load(done.name):
        found = len(reader.feed(line))
        lines += found
        added += found if done.copied and line.offset >= known else 0
    return lines, added


class _LogFile:
    """A log file as a store with one session, as far as `copy` reads it. It has no blobs."""

    def __init__(self, file: DiskFile, session: str, name: str) -> None:
        self._file = file
        self._session = session
        self._name = name
        self.blobs = _NoBlobs(file.path)

    def sessions(self) -> Iterator[SessionStat]:
        """See `Store`."""
        yield SessionStat(self._name, self._file.size, 0)

    def name(self, session: str) -> str:
        """See `Store`."""
        if session in (self._session, self._name):
            return self._name
        raise NotFound(f"{session} is not in {self._file.path}")

    def load(self, session: str, *, after: int = -1) -> Iterator[Line]:  # noqa: ARG002 - `copy` reads whole logs
        """See `Store`."""
        return split_lines(self._file.blocks())

    def journals(self, session: str) -> Mapping[str, Iterable[bytes]]:  # noqa: ARG002 - replies in progress stay
        """See `Store`."""
        return {}

    def close(self) -> None:
        """See `Store`. The file is open only while it is read."""


class _NoBlobs:
    """The blobs of an exported file: none."""

    def __init__(self, path: str) -> None:
        self._path = path

    def stored(self) -> Iterator[StoredBlob]:
        """See `Blobs`."""
        return iter(())

    def get(self, ref: BlobRef) -> bytes:
        """See `Blobs`."""
        raise NotFound(f"the blob {ref.digest} is not beside {self._path}")
