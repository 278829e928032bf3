"""Journal files: `.journals/NAME/REPLY`, one line for each piece, written without a sync.

A piece is written before it is displayed, so after a crash of the process the journal contains at least what was
displayed. A last piece without LF was never displayed and is ignored.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import BinaryIO, NamedTuple

from wakelog.errors import UsageError
from wakelog.log.ids import checked_id, is_id
from wakelog.ports.stores import JOURNAL_PIECE_MAX_BYTES, JournalPiece
from wakelog.stores.file_events import CREATED, MODIFIED
from wakelog.stores.files import storage, write_all
from wakelog.stores.jsonl.folder import Folder, checked_name, open_no_follow

_FOLDER = ".journals"
_NEWS_BYTES = 4 * 1024 * 1024
_BLOCK_BYTES = 1024 * 1024


class _Position(NamedTuple):
    """Read position in a journal: the number of pieces read, and the file offset behind them."""

    pieces: int = 0
    place: int = 0


class JournalFiles:
    """The journals of one store folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._positions: dict[str, dict[str, _Position]] = {}

    def add(self, name: str, reply_id: str, piece: bytes) -> None:
        """Add a piece to a reply's journal."""
        if b"\n" in piece:
            raise UsageError("a journal piece is one line")
        path = os.path.join(self._folder.make(_FOLDER, name), checked_name(checked_id(reply_id)))
        with storage(f"write the journal of {reply_id}"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(path, flags, 0o600)
            try:
                write_all(descriptor, piece + b"\n")
            finally:
                os.close(descriptor)

    def read(self, name: str) -> dict[str, "JournalPieces"]:
        """The journals of a session by reply id; each file is read while its pieces are iterated over."""
        folder = self._folder.inside(_FOLDER, name)
        with storage(f"read the journals of {name}"):
            return {reply_id: JournalPieces(os.path.join(folder, reply_id)) for reply_id in _journals_in(folder)}

    def read_new(self, name: str, had: Mapping[str, int]) -> list[JournalPiece]:
        """The new pieces of each journal; `had` is the number of pieces the caller has, by reply id.

        The last read position of each journal is cached, so that a growing journal is not read again from its start.
        If no piece ends at that position any more, the journal is read from its start. At most about `_NEWS_BYTES` of
        new pieces are returned for each journal; the next call returns the rest.
        """
        found: list[JournalPiece] = []
        positions, now = self._positions.pop(name, {}), dict[str, _Position]()
        with storage(f"read the journals of {name}"):
            for reply_id, file in self._opened(name):
                count = had.get(reply_id, 0)
                before = _seek_position(file, positions.get(reply_id), count)
                fresh, now[reply_id] = _read_new(file, before, count)
                found += [JournalPiece(reply_id, at, piece) for at, piece in enumerate(fresh, count)]
        if now:
            self._positions[name] = now
        return found

    def _opened(self, name: str) -> Iterator[tuple[str, BinaryIO]]:
        """Every journal of a session, opened one after the other; journals dropped meanwhile are skipped."""
        folder = self._folder.inside(_FOLDER, name)
        for reply_id in _journals_in(folder):
            path = os.path.join(folder, reply_id)
            with contextlib.suppress(FileNotFoundError), _opened(path) as file:
                self._folder.custody.notice(path, os.fstat(file.fileno()))
                yield reply_id, file

    def watched_paths(self, name: str) -> dict[str, int]:
        """The path whose events tell of new pieces: the folder of the journals or, until it exists, one above it."""
        for parts, mask in (((_FOLDER, name), MODIFIED | CREATED), ((_FOLDER,), CREATED)):
            if os.path.isdir(path := self._folder.inside(*parts)):
                return {path: mask}
        return {self._folder.path: CREATED}

    def sizes(self, name: str) -> tuple[tuple[str, int], ...]:
        """The journals of a session with the sizes of their files."""
        folder = self._folder.inside(_FOLDER, name)
        with storage(f"look at the journals of {name}"):
            try:
                with os.scandir(folder) as entries:
                    return tuple(sorted((entry.name, entry.stat(follow_symlinks=False).st_size) for entry in entries))
            except FileNotFoundError:
                return ()

    def files(self, name: str) -> list[str]:
        """The paths of a session's journal folder and of the files in it."""
        folder = self._folder.inside(_FOLDER, name)
        with storage(f"list {folder}"):
            return [folder, *(os.path.join(folder, reply_id) for reply_id in _listed(folder))]

    def drop(self, name: str, reply_id: str) -> None:
        """Remove a journal; does nothing if it does not exist."""
        path = os.path.join(self._folder.inside(_FOLDER, name), checked_name(checked_id(reply_id)))
        with storage("drop a journal"), contextlib.suppress(FileNotFoundError):
            os.unlink(path)


class JournalPieces:
    """The pieces of one journal, read from its file each time they are iterated over."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        """The complete pieces; none if the journal was dropped."""
        with (
            storage(f"read the journal {self._path}"),
            contextlib.suppress(FileNotFoundError),
            _opened(self._path) as file,
        ):
            for piece, _ in _pieces(file):
                yield piece


def _opened(path: str) -> BinaryIO:
    return open(path, "rb", opener=open_no_follow)


def _read_new(file: BinaryIO, before: _Position, count: int) -> tuple[list[bytes], _Position]:
    """The pieces behind the first `count`, up to about `_NEWS_BYTES`, and the new read position."""
    fresh: list[bytes] = []
    number, place, size = before.pieces, before.place, 0
    for piece, length in _pieces(file):
        number, place = number + 1, place + length
        if number > count:
            fresh.append(piece)
            size += length
            if size > _NEWS_BYTES:
                break
    return fresh, _Position(number, place)


def _seek_position(file: BinaryIO, position: _Position | None, count: int) -> _Position:
    """Seek to the cached read position, if it is for `count` pieces and a piece ends there; else to the start."""
    if position is not None and position.place and position.pieces == count:
        file.seek(position.place - 1)
        if file.read(1) == b"\n":
            return position
    file.seek(0)
    return _Position()


def _pieces(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """The complete pieces from the current position, each with its size in the file. Oversized pieces are empty."""
    while line := file.readline(JOURNAL_PIECE_MAX_BYTES):
        size = len(line)
        is_whole = line.endswith(b"\n")
        piece = line[:-1] if is_whole else b""
        while not line.endswith(b"\n"):
            line = file.readline(_BLOCK_BYTES)
            size += len(line)
            if not line:
                return
        yield piece, size


def _journals_in(folder: str) -> list[str]:
    return list(filter(is_id, sorted(_listed(folder))))


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
