"""ST-9: an import that finds nothing new opens no file of the other agent, decodes nothing and writes nothing."""

import importlib
import os
from collections.abc import Callable, Iterator

import pytest

import wakelog.exchange.files
import wakelog.exchange.records
from bench.foreign_logs import TOOLS, write_logs
from bench.made import Words
from wakelog.exchange.detection import READERS
from wakelog.exchange.records import SourceLine
from wakelog.exchange.sync import import_files
from wakelog.exchange.sync_index import SyncIndex
from wakelog.log.entry import SessionHeader
from wakelog.ports.stores import CreatesWhole
from wakelog.session import Session
from wakelog.stores import open_store
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.memory import MemoryStore


class _Counts:
    """Counts the files of other agents that are opened, and the lines of them that are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = self.lines = 0
        open_regular, lines = wakelog.exchange.files._open_regular, wakelog.exchange.files._lines

        def counted_open(path: str, *, follow_link: bool) -> int:
            self.opened += 1
            return open_regular(path, follow_link=follow_link)

        def counted_lines(chunks: Iterator[bytes]) -> Iterator[SourceLine]:
            for line in lines(chunks):
                self.lines += 1
                yield line

        monkeypatch.setattr(wakelog.exchange.files, "_open_regular", counted_open)
        monkeypatch.setattr(wakelog.exchange.files, "_lines", counted_lines)

    def take(self) -> tuple[int, int]:
        """Return the files and lines since the last time."""
        found, self.opened, self.lines = (self.opened, self.lines), 0, 0
        return found


def _stored(folder) -> dict[str, tuple[int, int]]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_second_import_parses_nothing(tool, tmp_path, monkeypatch):
    paths = write_logs(str(tmp_path / "logs"), Words(), TOOLS[tool], files=5, megabytes=1)
    counts = _Counts(monkeypatch)
    store = open_store(str(tmp_path / "store"))
    with SyncIndex(str(tmp_path / "cache"), "store") as index:
        first = list(import_files(store, paths, index))
        records = sum(each.account.read for file in first for each in file.sessions)
        opened, lines = counts.take()
        assert opened >= len(paths)
        assert lines >= records > 100
        before = _stored(tmp_path / "store")
        second = list(import_files(store, paths, index))
        assert {file.status for file in second} == {"unchanged"}
        assert counts.take() == (0, 0)
        assert _stored(tmp_path / "store") == before
        # A file that has grown is read again, and no other.
        with open(paths[0], "ab") as file:
            file.write(b"\n")
        third = list(import_files(store, paths, index))
        assert [file.status for file in third] == ["imported", *["unchanged"] * (len(paths) - 1)]
        assert sum(each.added for file in third for each in file.sessions) == 0
        assert counts.take()[0] > 0
    store.close()


@pytest.mark.parametrize("tool", TOOLS)
def test_stores_that_create_a_session_with_its_entries_hold_the_same_lines(tool, tmp_path):
    """Law 12. Compactions, titles and more entries than one group are among them."""
    paths = write_logs(str(tmp_path / "logs"), Words(), TOOLS[tool], files=2, megabytes=2)
    files, memory = open_store(str(tmp_path / "store")), MemoryStore()
    assert isinstance(files, CreatesWhole)
    assert not isinstance(memory, CreatesWhole)
    for store in (files, memory):
        sessions = [each.session for file in import_files(store, paths) for each in file.sessions]
    for session in sessions:
        lines = [line.raw for line in files.load(session)]
        assert len(lines) > 256
        assert lines == [line.raw for line in memory.load(session)]
    files.close()


class _LateStore(JsonlStore):
    """A store in which another program takes the first number after the content for it was made."""

    def create_whole(self, session: str, agent: str, sender: str, content: Callable[[int], bytes]) -> str:
        def late(number: int) -> bytes:
            made = content(number)
            if number == 1:
                with open(os.path.join(self.folder.path, f"{agent}_{sender}_1.jsonl"), "wb") as file:
                    file.write(b"{}\n")
            return made

        return super().create_whole(session, agent, sender, late)


def test_a_number_that_was_taken_meanwhile(tmp_path):
    """The header names the number that the session has, and the next group is sealed behind that header."""
    paths = write_logs(str(tmp_path / "logs"), Words(), TOOLS["Codex"], files=1, megabytes=1)
    store = _LateStore(str(tmp_path / "store"))
    (done,) = import_files(store, paths)
    (each,) = done.sessions
    assert each.error is None
    assert each.name == "codex_user_2"
    session = Session(store, each.session)
    assert session.verify().ok
    header = next(iter(session.entries())).value
    assert isinstance(header, SessionHeader)
    assert header.number == 2
    store.close()


@pytest.mark.parametrize("tool", TOOLS)
def test_the_first_import_decodes_no_more_than_the_reader_needs(tool, tmp_path, monkeypatch):
    """A plan and the entries: two passes for Claude Code. Codex looks for a title, and then makes the entries."""
    paths = write_logs(str(tmp_path / "logs"), Words(), TOOLS[tool], files=1, megabytes=1)
    with open(paths[0], "rb") as file:
        records = len(file.readlines())
    # Readers are loaded on first use, and name the class in their types.
    for module in READERS.values():
        importlib.import_module(f"wakelog.exchange.{module}")
    decoded = 0
    checked = wakelog.exchange.records.Record

    def counted(*given: object) -> object:
        nonlocal decoded
        decoded += 1
        return checked(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(wakelog.exchange.records, "Record", counted)
    store = open_store(str(tmp_path / "store"))
    (done,) = import_files(store, paths)
    store.close()
    assert [each.account.read for each in done.sessions] == [records]
    passes, heads = (2 if tool == "Claude Code" else 1), 200
    assert decoded <= passes * records + heads
