"""Law 4: concurrent syncs by the kernel: each file has its own result, and an unknown result counts as a failure."""

import ctypes
import errno
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.tracing import traced
from tests.stores.faults.children import MODULE
from tests.stores.faults.logs import body
from tests.stores.groups import append_in_one_group
from tests.stores.jsonl.test_file_sync import three
from wakelog.errors import StoreError
from wakelog.ports.stores import SealedLine
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.jsonl.file_sync import SYNCS_MAX, KernelSync, ThreadSync, open_file_sync


@pytest.fixture
def syncs():
    made = KernelSync()
    yield made
    made.close()


@pytest.fixture
def files(tmp_path):
    """A number of open files with unwritten bytes."""
    opened = []

    def make(count):
        for number in range(count):
            opened.append(os.open(tmp_path / f"{number}", os.O_RDWR | os.O_CREAT))
            os.write(opened[-1], b"unwritten")
        return opened[-count:]

    yield make
    for descriptor in opened:
        os.close(descriptor)


@pytest.mark.parametrize("count", [0, 1, 2, 64, SYNCS_MAX, 2 * SYNCS_MAX + 7])
def test_any_number_of_files_is_synced(syncs, files, count):
    assert syncs.sync(files(count) if count else []) == [None] * count


@pytest.mark.parametrize("place", [0, 3, 7])
def test_a_file_that_cannot_be_synced_fails_alone(syncs, files, place):
    """A pipe and a closed descriptor: the kernel stops at them, and the others are synced all the same."""
    reading, writing = os.pipe()
    descriptors = files(6)
    descriptors[place:place] = [writing, 1 << 20]
    failures = syncs.sync(descriptors)
    expected: list[int | None] = [None] * 6
    expected[place:place] = [errno.EINVAL, errno.EBADF]
    assert [failure and failure.errno for failure in failures] == expected
    os.close(reading)
    os.close(writing)


class Kernel:
    """Intercepts the system calls and changes their results."""

    def __init__(self, syncs, answers):
        self._syscall, self._syncs, self._answers = syncs._libc.syscall, syncs, answers
        syncs._libc = self

    def syscall(self, number, *arguments):
        result = self._syscall(number, *arguments)
        if number.value == self._syncs._getevents:
            for event in self._syncs._events[:result]:
                event.result = -self._answers.get(event.data, 0)
        return result


def test_each_file_has_its_own_result(syncs, files):
    Kernel(syncs, {1: errno.EIO, 4: errno.ENOSPC})
    failures = syncs.sync(files(6))
    assert [failure and failure.errno for failure in failures] == [None, errno.EIO, None, None, errno.ENOSPC, None]


def test_only_appends_with_a_failed_sync_are_in_doubt(tmp_path):
    """Law 4: of appends that are made durable together; a retry succeeds."""
    store, appends = three(tmp_path)
    store._syncs = KernelSync()
    Kernel(store._syncs, {1: errno.EIO})
    assert [type(answer) for answer in append_in_one_group(store, appends)] == [SealedLine, StoreError, SealedLine]
    assert store.append("b", body("m-b"), after=0).seq == 1
    assert len(list(store.load("b"))) == 2


INJECTED = {
    # A kernel, or a sandbox, that has no such calls: threads do it.
    "io_setup:error=ENOSYS": ("kept", {"fdatasync": 3}),
    # No kernel context: synced one after the other.
    "io_submit:error=EAGAIN": ("kept", {"fdatasync": 3}),
    "io_getevents:error=EINTR:when=1": ("kept", {"io_submit": 1}),
    # Taken and never answered: in doubt, and not synced again.
    "io_getevents:error=EINVAL:when=1": ("failed", {"io_submit": 1, "io_destroy": 1}),
}


@pytest.mark.strace
@pytest.mark.parametrize("inject", INJECTED)
def test_files_that_the_kernel_refuses_are_synced_one_by_one(tmp_path, inject):
    """Law 4: files that the kernel accepted without a result are in doubt."""
    word, expected = INJECTED[inject]
    folder, report = str(tmp_path / "store"), tmp_path / "report"
    three(folder)
    trace = "io_setup,io_submit,io_getevents,io_destroy,fdatasync"
    words = ("append_together", folder, "file", "a", "b", "c")
    seen = traced(str(report), *words, paths=[], trace=trace, inject=inject, module=MODULE)
    assert [name for name, *_ in seen.said(word)] == ["a", "b", "c"]
    text = report.read_text()
    assert "(INJECTED)" in text
    # Calls of several threads cut each other's lines in two: what counts is how often each was begun.
    begun = {name: text.count(f" {name}(") for name in ("fdatasync", "io_submit", "io_destroy")}
    assert begun | expected == begun, text
    store = JsonlStore(folder)
    assert [store.append(name, body(f"m-{name}"), after=0).seq for name in "abc"] == [1, 1, 1]


def test_an_interrupted_sync_leaves_no_results(syncs, files, monkeypatch):
    """After Ctrl-C amid a sync, the next one gets the results of its own files only."""
    wait = syncs._wait
    monkeypatch.setattr(syncs, "_wait", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        syncs.sync(files(5))
    monkeypatch.setattr(syncs, "_wait", wait)
    assert syncs.sync(files(3)) == [None] * 3


def test_threads_get_their_own_results(syncs, files):
    reading, writing = os.pipe()
    shares = [[*files(9), writing] for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(syncs.sync, shares * 4))
    assert all([failure and failure.errno for failure in answer] == [None] * 9 + [errno.EINVAL] for answer in answers)
    os.close(reading)
    os.close(writing)


def test_a_forked_child_has_its_own_context(syncs, files):
    """LOG-11: a child that is forked while its parent syncs does not block, and its parent continues."""
    syncs._turn.acquire()
    descriptors = files(5)
    of_parent = syncs._end
    child = os.fork()
    if child == 0:
        is_synced = syncs.sync(descriptors) == [None] * 5
        os._exit(0 if is_synced and not of_parent.alive and syncs._end.alive else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    syncs._turn.release()
    assert syncs.sync(descriptors) == [None] * 5


def test_closed_and_used_again(syncs, files):
    syncs.close()
    syncs.close()
    assert syncs.sync(files(3)) == [None] * 3


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Linux", "riscv64")])
def test_an_unknown_system_uses_threads(monkeypatch, system, machine):
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((system, "host", "6.1", "", machine)))
    assert isinstance(open_file_sync(), ThreadSync)


def test_kernel_sync_is_used_where_it_is_available():
    """Otherwise the other tests here would test unused code."""
    assert isinstance(open_file_sync(), KernelSync)


def test_the_structures_have_the_layout_of_the_kernel(syncs):
    assert ctypes.sizeof(type(syncs._requests[0])) == 64
    assert ctypes.sizeof(type(syncs._events[0])) == 32
