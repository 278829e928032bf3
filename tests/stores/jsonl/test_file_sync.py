"""Ways to make many files durable (law 4): a sync each, by the kernel or by threads, or one for the file system."""

import ctypes
import errno
import os
import re

import pytest

from tests.faults.tracing import traced
from tests.stores.faults.children import MODULE
from tests.stores.faults.logs import body
from tests.stores.groups import append_in_one_group
from wakelog.errors import StoreError, UsageError
from wakelog.ports.stores import SealedLine
from wakelog.stores.database.tables import AppendRequest
from wakelog.stores.jsonl import JsonlStore, file_sync
from wakelog.stores.jsonl.file_sync import FilesystemSync
from wakelog.testing.store_rig import make


def three(folder, **how):
    """A store with three sessions, and an append for each."""
    store = JsonlStore(str(folder), **how)
    for name in "abc":
        make(store, name, sender=name)
    return store, [AppendRequest(name, body(f"m-{name}"), 0) for name in "abc"]


@pytest.mark.strace
@pytest.mark.parametrize(("sync", "call", "times"), [("threads", "fdatasync", 3), ("filesystem", "syncfs", 1)])
def test_each_file_is_synced_or_the_file_system_once(tmp_path, sync, call, times):
    """Law 4: every file is synced by itself; or, if configured, one call covers all of them."""
    folder = str(tmp_path / "store")
    three(folder)
    logs = [os.path.join(folder, f"crab_{name}_1.jsonl") for name in "abc"]
    seen = traced(
        str(tmp_path / "report"),
        *("append_together", folder, sync, "a", "b", "c"),
        paths=logs,
        trace="write,fdatasync,syncfs",
        module=MODULE,
    )
    assert [name for name, *_ in seen.said("kept")] == ["a", "b", "c"]
    # Calls of several threads cut each other's lines in two: what counts is how often each was begun.
    begun = [re.findall(r"(write|fdatasync|syncfs)\(", line) for line in (tmp_path / "report").read_text().splitlines()]
    assert [name for names in begun for name in names] == ["write"] * 3 + [call] * times


@pytest.mark.strace
def test_the_kernel_syncs_every_file(tmp_path):
    """Law 4: one call for all of them, a sync of each; and nothing is synced before all are written."""
    folder, report = str(tmp_path / "store"), tmp_path / "report"
    three(folder)
    words = ("append_together", folder, "file", "a", "b", "c")
    seen = traced(str(report), *words, paths=[], trace="write,io_submit,fdatasync,syncfs", module=MODULE, shown=9)
    assert [name for name, *_ in seen.said("kept")] == ["a", "b", "c"]
    calls = [line for line in report.read_text().splitlines() if "crab_" in line]
    assert [name for line in calls for name in re.findall(r" (write|io_submit|fdatasync|syncfs)\(", line)] == [
        *["write"] * 3,
        "io_submit",
    ]
    assert re.findall(r"IOCB_CMD_FDSYNC, aio_fildes=\d+<\S*/crab_(\w)_1.jsonl>", calls[-1]) == ["a", "b", "c"]


@pytest.mark.strace
def test_a_failed_file_system_sync_leaves_every_append_in_doubt(tmp_path):
    """Law 4: it is unknown which bytes were lost, so every append is in doubt, and none is synced again."""
    folder = str(tmp_path / "store")
    three(folder)
    seen = traced(
        str(tmp_path / "report"),
        *("append_together", folder, "filesystem", "a", "b", "c"),
        paths=[os.path.join(folder, f"crab_{name}_1.jsonl") for name in "abc"],
        trace="write,syncfs,close",
        inject="syncfs:error=EIO:when=1",
        module=MODULE,
    )
    assert seen.applied == 1
    assert [name for name, *_ in seen.said("failed")] == ["a", "b", "c"]
    # Calls of several threads cut each other's lines in two: what counts is what was begun after the failure.
    _, _, behind = (tmp_path / "report").read_text().partition("(INJECTED)")
    assert set(re.findall(r"\b(write|syncfs|close)\(", behind)) == {"close"}
    store = JsonlStore(folder)
    assert [store.append(name, body(f"m-{name}"), after=0).seq for name in "abc"] == [1, 1, 1]


def test_each_file_system_is_synced_once(monkeypatch):
    """Law 4: files of two file systems take two syncs, and only those of the one that failed are in doubt."""
    sync, asked = FilesystemSync(), []

    class Fails:
        def syncfs(self, descriptor):
            asked.append(descriptor)
            ctypes.set_errno(errno.EIO)
            return -1 if descriptor == 11 else 0

    sync._libc = Fails()  # type: ignore[assignment]
    monkeypatch.setattr(os, "fstat", lambda descriptor: os.stat_result([0, 0, descriptor % 2] + [0] * 7))
    found = sync.sync([10, 11, 12])
    assert sorted(asked) == [11, 12]
    assert [error and error.errno for error in found] == [None, errno.EIO, None]


@pytest.mark.parametrize(("system", "release"), [("Linux", "5.7.19-x"), ("Linux", "4.19.0"), ("Darwin", "24.1.0")])
def test_file_system_sync_is_refused_where_it_reports_no_errors(tmp_path, monkeypatch, system, release):
    """Law 4: on such a kernel the option is refused when it is chosen."""
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((system, "host", release, "", "")))
    with pytest.raises(UsageError, match="does not report errors of syncfs"):
        JsonlStore(str(tmp_path), sync="filesystem")


def test_a_forked_child_starts_its_own_threads(tmp_path):
    """LOG-11: the threads of its parent would never answer."""
    store, appends = three(tmp_path)
    append_in_one_group(store, appends)
    child = os.fork()
    if child == 0:
        got = append_in_one_group(store, [AppendRequest(name, body(f"n-{name}"), 1) for name in "abc"])
        os._exit(0 if all(isinstance(answer, SealedLine) for answer in got) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_failure_is_a_store_error(tmp_path, monkeypatch):
    """One line: what happened, and to which session."""
    store, appends = three(tmp_path, sync="filesystem")
    monkeypatch.setattr(
        file_sync.FilesystemSync, "_syncfs", lambda self, descriptor: OSError(errno.ENOSPC, "No space left on device")
    )
    for name, answer in zip("abc", append_in_one_group(store, appends), strict=True):
        assert isinstance(answer, StoreError)
        assert f"crab_{name}_1" in str(answer)


def test_a_log_of_a_failed_append_is_closed_once(tmp_path, monkeypatch):
    """Law 4: when the store closes, the descriptor number of such a log may belong to another file."""
    store, appends = three(tmp_path)

    def fail(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", fail)
        with pytest.raises(StoreError, match="crab_a_1"):
            store.append(appends[0].session, appends[0].body, after=0)
    # Opened files get the lowest free numbers, so these get the two that the failed append has closed.
    others = [os.open("/dev/null", os.O_RDONLY) for _ in range(4)]
    store.close()
    for descriptor in others:
        os.close(descriptor)


def test_threads_append_where_the_group_sync_cannot_be_loaded(tmp_path, monkeypatch):
    """ST-2: loading it on first use fails in a process without free descriptors; then logs are synced one by one."""
    store, appends = three(tmp_path)

    def out_of_descriptors(module):
        raise OSError(errno.EMFILE, "Too many open files", module)

    monkeypatch.setattr("wakelog.stores.jsonl.store.load", out_of_descriptors)
    assert [answer.seq for answer in append_in_one_group(store, appends) if isinstance(answer, SealedLine)] == [1, 1, 1]
