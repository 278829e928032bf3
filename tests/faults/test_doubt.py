"""Law 4: bytes that a failed sync leaves in doubt are written again before anything else is acknowledged.

The short form of `test_power_cut.py`. A page cache that forgets what it failed to write is simulated around the real
store; other processes are real, with faults injected by strace and counted.
"""

import errno
import os

import pytest

from tests.faults.figures import Figure, Record
from tests.faults.page_cache import PageCache
from tests.faults.samples import log_path, small_log
from tests.faults.tracing import Called, Traced, traced
from tests.stores.faults.children import MODULE
from tests.stores.faults.logs import last_seq, made, make, standing
from tests.stores.groups import append_in_one_group
from wakelog.errors import StoreError
from wakelog.ports.stores import SealedLine
from wakelog.stores import files, open_store
from wakelog.stores.database.tables import AppendRequest
from wakelog.stores.jsonl import JsonlStore, log_locks
from wakelog.stores.jsonl.file_sync import ThreadSync

PAGES = 5000


def body(entry: str) -> bytes:
    """An entry longer than a page: a lost page is not rewritten by chance together with the next entry."""
    said = b'{"role":"user","content":[{"type":"text","text":"%s"}]}' % (b"x" * PAGES)
    return b'{"type":"message","id":"%s","parentId":"s","message":%s}' % (entry.encode(), said)


def figure(store: str, planned: int, applied: int, acknowledged: int, lost: int = 0, control: str = "") -> Figure:
    """The figures of failed syncs, and of the acknowledged entries after them."""
    checked, found = (acknowledged, "acknowledged appends"), (lost, "not on the device")
    return Figure("sync that fails once (simulated cache, strace)", store, planned, applied, checked, found, control)


class Place:
    """A file store over a simulated page cache, with one session."""

    def __init__(self, folder: str, monkeypatch: pytest.MonkeyPatch, record: Record) -> None:
        self.folder = folder
        self.record = record
        self.acknowledged: list[str] = []
        self.store = JsonlStore(folder)
        # The first line is shorter than a page, and is written again with the first entry.
        self.name = make(self.store, "s")
        self.log = log_path(folder, self.name)
        self.cache = PageCache(folder, monkeypatch)

    def append(self, entry: str, *, after: int, durable: bool = True, store: JsonlStore | None = None) -> SealedLine:
        sealed = (store or self.store).append("s", body(entry), after=after, durable=durable)
        self.acknowledged.append(entry)
        return sealed

    def fails(self, entry: str, *, after: int) -> StoreError:
        self.cache.fail(os.path.basename(self.log))
        with pytest.raises(StoreError) as failed:
            self.append(entry, after=after)
        return failed.value

    def mark(self) -> int:
        return os.path.getsize(os.path.join(self.folder, ".locks", f"{self.name}.lock"))

    def check_on_device(self, control: str = "") -> None:
        """Assert that every byte of the log is there after a power cut; in a control some acknowledged entry is not."""
        left = self.cache.cut(self.log)
        lost = [entry for entry in self.acknowledged if body(entry)[1:-1] not in left]
        faults = (self.cache.planned, self.cache.applied)
        self.record(figure("files", *faults, len(self.acknowledged), len(lost), control))
        with open(self.log, "rb") as file:
            assert (left == file.read()) == (not control)


@pytest.fixture
def place(tmp_path, monkeypatch, record):
    return Place(str(tmp_path / "store"), monkeypatch, record)


# ── in one process ───────────────────────────────────────────────────────────────────────────────


def test_a_retry_by_id_rewrites_the_bytes_in_doubt(place):
    """Law 4: the entry is in the log already, and its bytes are written again before the retry is acknowledged."""
    place.append("a", after=0)
    synced = os.path.getsize(place.log)
    place.fails("b", after=1)
    assert place.mark() == synced + 1, "the doubt begins at the last byte that is known to be synced"
    assert place.append("b", after=1).seq == 2
    place.check_on_device()
    page = synced - synced % 4096
    assert place.cache.rewritten == [(page, os.path.getsize(place.log))], "the same bytes at the same offsets"
    assert place.mark() == 0


def test_the_next_entry_makes_the_bytes_in_doubt_durable_first(place):
    """Law 4: whatever entry follows the bytes in doubt, they are durable first."""
    place.fails("a", after=0)
    assert place.append("b", after=1).seq == 2
    place.check_on_device()


def test_a_new_store_object_sees_the_doubt(place):
    """Law 4: the mark beside the lock is enough; no state of the old store object is needed."""
    place.fails("a", after=0)
    place.store.close()
    assert place.append("a", after=0, store=JsonlStore(place.folder)).seq == 1
    place.check_on_device()


def test_entries_without_a_sync_are_in_doubt_as_well(place):
    """Law 4: a failed sync may have lost entries that were written before without a sync."""
    place.append("a", after=0)
    synced = os.path.getsize(place.log)
    place.append("b", after=1, durable=False)
    place.append("c", after=2, durable=False)
    place.fails("d", after=3)
    assert place.mark() == synced + 1
    place.append("e", after=4)
    place.check_on_device()


def test_a_log_that_others_have_written_is_in_doubt_from_its_beginning(place):
    """Law 4: a process that has synced nothing yet does not know what is on the device."""
    place.append("a", after=0)
    place.store = JsonlStore(place.folder)
    place.fails("b", after=1)
    assert place.mark() == 1


def test_a_half_written_line_is_written_again(place, monkeypatch):
    """Law 4: half of a line may be in the page cache, and is written again before the next line."""
    write = os.write

    def half(descriptor: int, content: bytes) -> int:
        if os.path.samestat(os.fstat(descriptor), os.stat(place.log)) and len(content) > PAGES:
            write(descriptor, content[:100])
            place.cache.applied += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, content)

    place.cache.planned += 1
    monkeypatch.setattr(os, "write", half)
    with pytest.raises(StoreError):
        place.append("a", after=0)
    monkeypatch.setattr(os, "write", write)
    assert place.mark() == 1
    place.store.append("s", body("a"), after=0, behind=100)
    place.acknowledged.append("a")
    assert place.cache.rewritten
    place.check_on_device()


def test_a_rewrite_that_fails_refuses_the_append(place):
    """Law 4: nothing is acknowledged while the disk refuses the bytes; the error says so."""
    place.fails("a", after=0)
    before = os.path.getsize(place.log)
    for durable in (True, False):
        place.cache.fail(os.path.basename(place.log))
        with pytest.raises(StoreError) as refused:
            place.append("b", after=1, durable=durable)
        assert "in doubt" in refused.value.message
        assert "appends are refused until" in refused.value.hint
        assert place.mark() == 1
    assert os.path.getsize(place.log) == before
    place.append("b", after=1)
    place.check_on_device()


def test_a_device_that_returns_other_bytes_refuses_the_append(place, monkeypatch):
    """Law 4: a rewrite counts only if the device returns what was written."""
    place.fails("a", after=0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", lambda descriptor, buffers, place: len(buffers[0]))
        with open(place.log, "rb") as file:
            if not is_direct(file.fileno()):
                pytest.skip("the file system has no reads past the page cache")
        with pytest.raises(StoreError, match="in doubt"):
            place.append("a", after=0)
    assert place.mark() == 1
    place.append("a", after=0)


def test_a_device_that_cannot_be_read_past_the_cache(place, monkeypatch):
    """Law 4: the rewrite and its sync are enough where the device cannot be compared."""
    place.fails("a", after=0)
    monkeypatch.setattr(os, "preadv", lambda *_: (_ for _ in ()).throw(OSError(errno.EINVAL, "")))
    place.append("a", after=0)
    place.check_on_device()


def is_direct(descriptor: int) -> bool:
    try:
        os.close(os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_DIRECT))
    except OSError:
        return False
    return True


def test_doubt_is_remembered_where_the_mark_cannot_be_written(place, monkeypatch):
    """Law 4: this process remembers the doubt, also for a new store object."""
    refuse = lambda *_: (_ for _ in ()).throw(OSError(errno.EROFS, ""))  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", refuse)
        place.fails("a", after=0)
    assert place.mark() == 0
    place.append("b", after=1, store=JsonlStore(place.folder))
    place.check_on_device()
    assert files._UNMARKED_DOUBTS == {}


def test_only_the_log_that_failed_is_in_doubt(place):
    """Law 4, ST-8: of logs that are synced together, the others are acknowledged and not written again."""
    make(place.store, "t")
    place.store._syncs = ThreadSync()
    place.cache.fail(os.path.basename(place.log))
    answers = append_in_one_group(place.store, [AppendRequest("s", body("a"), 0), AppendRequest("t", body("b"), 0)])
    assert [type(answer) for answer in answers] == [StoreError, SealedLine]
    other = os.path.join(place.folder, ".locks", f"{place.store.name('t')}.lock")
    assert (place.mark(), os.path.getsize(other)) == (1, 0)
    again = append_in_one_group(place.store, [AppendRequest("s", body("a"), 0), AppendRequest("t", body("c"), 1)])
    assert [answer.seq for answer in again if isinstance(answer, SealedLine)] == [1, 2]
    place.acknowledged.append("a")
    place.check_on_device()


@pytest.mark.parametrize("way", ["acquire", "adopt"])
def test_every_kind_of_append_rewrites_the_bytes_in_doubt(place, way):
    """Law 4: also taking a lease, which appends an entry, and copying a log."""
    place.fails("a", after=0)
    if way == "acquire":
        place.store.acquire("s", body("b"), after=1, holder="me", ttl_s=60)
    else:
        place.store.adopt("s", place.name, body("b") + b"\n", size=os.path.getsize(place.log))
    place.acknowledged.append("b")
    assert place.cache.rewritten
    place.check_on_device()


def test_nothing_is_written_again_without_a_failure(place):
    """Law 1: without a failed sync no byte is rewritten."""
    for after in range(3):
        place.append(f"e{after}", after=after)
    assert (place.cache.rewritten, place.mark()) == ([], 0)


def test_without_the_mark_the_retry_is_lost(place, monkeypatch):
    """Control: the simulated page cache loses bytes that are not written again."""
    monkeypatch.setattr(log_locks, "mark_doubt", lambda *_: None)
    place.fails("a", after=0)
    place.append("a", after=0)
    place.check_on_device(control="the doubt is not marked")


# ── in real processes ────────────────────────────────────────────────────────────────────────────


CALLS = "write,pwrite64,fdatasync,fsync"


def rewrites(calls: list[Called]) -> list[int]:
    """The offsets of a rewrite, in order."""
    return [int(call.arguments.rsplit(", ", 1)[1]) for call in calls if call.name == "pwrite64"]


@pytest.mark.strace
def test_another_process_writes_the_bytes_again(tmp_path, record):
    """Law 4: after a process ended with a failed sync, the next one sees the mark and writes the bytes again first."""
    folder = str(tmp_path / "store")
    small_log(folder, entries=3)
    path, report = log_path(folder), str(tmp_path / "report")
    before = os.path.getsize(path)
    first = traced(report, "append_once", folder, "m0", paths=[path], trace=CALLS, inject="fdatasync:error=EIO:when=1")
    assert (first.applied, len(first.said("failed"))) == (1, 1)
    second = traced(report, "append_once", folder, "m0", paths=[path], trace=CALLS)
    record(figure("files", 1, first.applied, 1, int(second.calls[0].name != "pwrite64")))
    assert [entry for entry, _ in second.said("kept")] == ["m0"]
    assert [call.name for call in second.calls] == ["pwrite64", "fsync", "fdatasync"]
    assert rewrites(second.calls) == [0]
    assert second.calls[0].result == os.path.getsize(path) > before
    third = traced(report, "append_once", folder, "m1", paths=[path], trace=CALLS)
    assert [call.name for call in third.calls] == ["write", "fdatasync"], "the mark was not removed"


def of_sqlite(report: str, url: str, what: str, *words: str, inject: str = "") -> Traced:
    path = f"{url.partition(':')[2]}-wal"
    return traced(report, what, url, *words, paths=[path], trace=CALLS, inject=inject, module=MODULE)


@pytest.mark.strace
def test_a_write_ahead_log_is_written_again(tmp_path, record):
    """Law 4, ST-6: after a failed commit the whole WAL is written and synced before the next transaction."""
    url = made(f"sqlite:{tmp_path / 'db'}", "s")
    seen = of_sqlite(str(tmp_path / "report"), url, "write_stubbornly", "s", "3", inject="fdatasync:error=EIO:when=2")
    assert (seen.applied, len(seen.said("failed"))) == (1, 1)
    at = [call.injected for call in seen.calls].index(True)
    size = int(seen.calls[at - 1].arguments.rsplit(", ", 1)[1]) + seen.calls[at - 1].result
    rewrite, synced = seen.calls[at + 1 : at + 3]
    assert (rewrites([rewrite]), synced.name) == ([0], "fsync")
    assert rewrite.result >= size
    assert len(standing(url, "s")) == 3
    record(figure("SQLite", 1, seen.applied, 3))


@pytest.mark.strace
def test_another_process_writes_the_write_ahead_log_again(tmp_path, record):
    """Law 4, ST-6: it sees the mark; the process that failed leaves the WAL in place."""
    url = made(f"sqlite:{tmp_path / 'db'}", "s")
    report = str(tmp_path / "report")
    first = of_sqlite(report, url, "write_once", "s", "n0", inject="fdatasync:error=EIO:when=1")
    assert (first.applied, len(first.said("failed"))) == (1, 1)
    assert os.path.getsize(tmp_path / "db-lock") == 1
    assert os.path.getsize(tmp_path / "db-wal") > 0, "a checkpoint was run while the write-ahead log was in doubt"
    second = of_sqlite(report, url, "write_once", "s", "n0")
    assert [entry for entry, _ in second.said("kept")] == ["n0"]
    assert [call.name for call in second.calls][:2] == ["pwrite64", "fsync"]
    assert rewrites(second.calls)[0] == 0
    assert os.path.getsize(tmp_path / "db-lock") == 0
    store = open_store(url)
    assert last_seq(store, "s") == 1
    store.close()
    record(figure("SQLite", 1, first.applied, 1))


@pytest.mark.strace
def test_a_failed_sync_at_the_end_of_a_process(tmp_path, record):
    """Law 4, ST-6: closing SQLite syncs unsynced commits, and would not report that this failed.

    The first sync is that of the header of a new write-ahead log.
    """
    url = made(f"sqlite:{tmp_path / 'db'}", "s")
    report = str(tmp_path / "report")
    first = of_sqlite(report, url, "write_once", "s", "n0", "unsynced", inject="fdatasync:error=EIO:when=2")
    assert (first.applied, len(first.said("kept"))) == (1, 1)
    assert os.path.getsize(tmp_path / "db-lock") == 1
    second = of_sqlite(report, url, "write_once", "s", "n0")
    assert [call.name for call in second.calls][:2] == ["pwrite64", "fsync"]
    assert standing(url, "s") == [("n0", 1)]
    record(figure("SQLite", 1, first.applied, 1))


def test_commits_without_a_sync_do_not_fill_the_write_ahead_log(tmp_path):
    """ST-6: SQLite runs a checkpoint only after synced commits, so wakelog runs the others."""
    store = open_store(made(f"sqlite:{tmp_path / 'db'}", "s"))
    for after in range(3000):
        store.append("s", body(f"e{after}"), after=after, durable=False)
    assert os.path.getsize(tmp_path / "db-wal") < 8 * 1024 * 1024 < os.path.getsize(tmp_path / "db")
    store.close()


@pytest.mark.strace
def test_a_failed_sync_before_a_checkpoint(tmp_path, record):
    """Law 4, ST-6: the checkpoint is skipped, the doubt is marked, and the next transaction writes again."""
    url = made(f"sqlite:{tmp_path / 'db'}", "s")
    report = str(tmp_path / "report")
    seen = of_sqlite(report, url, "write_much", "s", "1500", inject="fdatasync:error=EIO:when=2")
    assert seen.applied == 1
    at = [call.injected for call in seen.calls].index(True)
    assert rewrites(seen.calls[at + 1 : at + 2]) == [0]
    assert len(standing(url, "s")) == 1500
    record(figure("SQLite", 1, seen.applied, 1500))
