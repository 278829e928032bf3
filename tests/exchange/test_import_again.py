"""ST-9: an import that finds nothing new opens no file of the other agent, decodes nothing and writes nothing."""

import importlib
from collections.abc import Callable, Iterator, Sequence

import pytest

import wakelog.exchange.files
import wakelog.exchange.records
from bench.foreign_logs import TOOLS, write_logs
from bench.made import Words
from wakelog.errors import Conflict
from wakelog.exchange.detection import READERS
from wakelog.exchange.records import SourceLine
from wakelog.exchange.sync import import_files
from wakelog.exchange.sync_index import SyncIndex
from wakelog.session import Session
from wakelog.stores import open_store
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
def test_stores_hold_the_same_lines(tool, tmp_path):
    """Law 12. Compactions, titles and more entries than one group are among them."""
    paths = write_logs(str(tmp_path / "logs"), Words(), TOOLS[tool], files=2, megabytes=2)
    files, memory = open_store(str(tmp_path / "store")), MemoryStore()
    for store in (files, memory):
        sessions = [each.session for file in import_files(store, paths) for each in file.sessions]
    for session in sessions:
        lines = [line.raw for line in files.load(session)]
        assert len(lines) > 256
        assert lines == [line.raw for line in memory.load(session)]
    files.close()


class _LateStore(MemoryStore):
    """A store in which another process creates each session just before it is created here."""

    def create(
        self, session: str, agent: str, sender: str, first_line: Callable[[int], bytes], more: Sequence[bytes] = ()
    ) -> str:
        super().create(session, agent, sender, first_line)
        return super().create(session, agent, sender, first_line, more)


def test_a_session_that_was_created_meanwhile_is_left_alone(tmp_path):
    """ST-9: the entries are not in it, so the import is refused and adds nothing behind it."""
    paths = write_logs(str(tmp_path / "logs"), Words(), TOOLS["Codex"], files=1, megabytes=1)
    store = _LateStore()
    (done,) = import_files(store, paths)
    (each,) = done.sessions
    assert isinstance(each.error, Conflict)
    assert len(list(store.load(each.session))) == 1
    (again,) = import_files(store, paths)
    assert again.sessions[0].error is None
    assert Session(store, each.session).verify().ok


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
