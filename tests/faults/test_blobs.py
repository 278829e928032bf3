"""Blobs under faults (law 4, LOG-12): failing disks, killed writers, and garbage collection beside writers.

Failed syncs and kills are injected by strace and counted; writers and collectors are real processes.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.figures import Figure
from tests.faults.processes import run, together
from tests.faults.test_disk import check_clear
from tests.faults.tracing import Traced, traced
from wakelog.log.content import BlobRef
from wakelog.log.ids import digest_of
from wakelog.stores.jsonl import JsonlStore
from wakelog.transfer.garbage import DAY_S, collect

CONTENT = "some content"
DIGEST = digest_of(CONTENT.encode())
NAME = DIGEST.removeprefix("sha256:")
REF = BlobRef(digest=DIGEST, bytes=len(CONTENT))


def shelf_of(folder: str) -> str:
    return os.path.join(folder, ".blobs", NAME[:2])


def check_whole(folder: str) -> None:
    """Assert that the blob is stored completely, and no other file is beside it."""
    assert JsonlStore(folder).blobs.get(REF) == CONTENT.encode()
    assert os.listdir(shelf_of(folder)) == [NAME], "a draft was left behind"


def figure(planned: int, applied: int, wrong: int = 0, control: str = "") -> Figure:
    """The figures of a number of disturbed puts."""
    looked_at, found = (applied, "blobs read back"), (wrong, "missing or half written")
    return Figure("EIO or kill -9 while a blob is put", "files", planned, applied, looked_at, found, control)


# ── a disk that fails ────────────────────────────────────────────────────────────────────────────


@pytest.mark.strace
@pytest.mark.parametrize("failing", range(1, 8))
def test_a_failed_sync_during_put(tmp_path, failing, record):
    """Law 4: no blob is acknowledged before its content and names are synced; the retry repairs it.

    The syncs are those of three new folders' names, of the draft, of the blob's name, and of both folders above.
    """
    folder = str(tmp_path / "store")
    seen = traced(
        str(tmp_path / "report"),
        *("put", folder, CONTENT, "2"),
        paths=[],
        trace="fsync,fdatasync",
        inject=f"fsync:error=EIO:when={failing}",
    )
    assert (seen.applied, len(seen.said("failed")), len(seen.said("kept"))) == (1, 1, 1)
    check_clear(seen, "Input/output error")
    failed_at = [call.injected for call in seen.calls].index(True)
    was_named = "stored " + DIGEST in seen.done.stdout.splitlines()[:2]
    assert was_named == (failing > 4), "content that may not be on the disk has its name"
    failed, again = seen.calls[failed_at].path, [call.path for call in seen.calls[failed_at + 1 :] if call.result == 0]
    drafts = [path for path in again if os.path.basename(path).startswith(".new-")]
    assert failed in again or drafts, "what failed to be synced was never synced again"
    assert {folder, os.path.join(folder, ".blobs"), shelf_of(folder)} <= set(again)
    check_whole(folder)
    record(figure(1, seen.applied))


@pytest.mark.strace
def test_a_blob_is_synced_before_it_is_acknowledged(tmp_path):
    """Law 4: content, then its name, then the names above; a second put syncs the name once more."""
    folder = str(tmp_path / "store")
    report = str(tmp_path / "report")
    seen = traced(report, *("put", folder, CONTENT, "2"), paths=[], trace="fsync,rename,renameat,renameat2")
    done = [(call.name[:6], os.path.relpath(call.path, tmp_path) if call.path else "") for call in seen.calls]
    shelf = f"store/.blobs/{NAME[:2]}"
    assert [place for _, place in done[:3]] == [".", "store", "store/.blobs"]
    assert done[3][1].startswith(f"{shelf}/.new-")
    assert [what for what, _ in done[3:5]] == ["fsync", "rename"]
    assert done[5:] == [("fsync", place) for place in (shelf, "store/.blobs", "store", shelf)]


def test_a_blob_that_does_not_fit_leaves_nothing(tmp_path):
    """Law 4: half a blob gets no name and leaves nothing; once there is space it is stored."""
    folder = str(tmp_path / "store")
    done = run("put_too_much", folder, "5000")
    assert (done.returncode, done.stderr) == (0, "")
    seen = Traced(done, [])
    check_clear(seen, "File too large")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["failed", "stored", "kept", "stored"]
    assert done.stdout.splitlines()[1] == "stored"
    kept, size = seen.said("kept")[0]
    assert JsonlStore(folder).blobs.get(BlobRef(digest=kept, bytes=int(size))) == b"x" * 10_000
    assert len(os.listdir(os.path.join(folder, ".blobs", kept[7:9]))) == 1


# ── killed writers ───────────────────────────────────────────────────────────────────────────────

# How often a first put and a second one together take each step.
STEPS = {"mkdir": 3, "flock": 4, "fsync": 8, "rename": 1, "utimensat": 1}


def put_killed(
    folder: str, report: str, step: str, number: int, what: str = "put"
) -> "subprocess.CompletedProcess[str]":
    """Two puts by a process that is killed before the n-th step of a kind."""
    strace = shutil.which("strace")
    assert strace is not None
    inject = f"inject={step}:error=EIO:signal=SIGKILL:when={number}"
    return run(what, folder, CONTENT, "2", before=[strace, "-f", "-qq", "-o", report, "-e", inject])


@pytest.mark.strace
@pytest.mark.parametrize("step", STEPS)
def test_a_writer_killed_at_every_step(tmp_path, step, record):
    """Law 4, LOG-12: wherever it dies, a name stands for the whole content.

    Another put and a clean-up repair the rest.
    """
    killed = 0
    while True:
        folder = str(tmp_path / f"store-{killed}")
        done = put_killed(folder, str(tmp_path / "report"), step, killed + 1)
        blobs = JsonlStore(folder).blobs
        names = [blob.digest for blob in blobs.stored()]
        assert names == [DIGEST] or (names == [] and "kept" not in done.stdout)
        assert all(blobs.get(REF) == CONTENT.encode() for _ in names)
        blobs.put(CONTENT.encode())
        blobs.tidy(older_than_s=0)
        check_whole(folder)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        killed += 1
    record(figure(STEPS[step], killed))


@pytest.mark.strace
def test_control_content_that_is_written_in_place(tmp_path, record):
    """The test above can fail: without a draft, a writer killed between two writes leaves half a blob."""
    # The first three syncs are those of the names of new folders.
    done = put_killed(str(tmp_path / "store"), str(tmp_path / "report"), "fsync", 4, "put_in_place")
    assert done.returncode == -signal.SIGKILL
    with open(os.path.join(shelf_of(str(tmp_path / "store")), NAME), "rb") as file:
        half = file.read()
    assert half == CONTENT.encode()[: len(CONTENT) // 2]
    record(figure(1, 1, 1, control="content is written in place"))


# ── many at once ─────────────────────────────────────────────────────────────────────────────────


def test_writers_of_the_same_bytes(quick_folder):
    """LOG-12: four processes put the same 50 blobs at the same time: each is stored once and complete."""
    with together(*[("put_the_same", quick_folder, "50")] * 4) as children, ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda child: child.rest(), children))
    expected = [digest_of(b"%d" % number * 10_000) for number in range(50)]
    assert told == [expected] * 4
    blobs = JsonlStore(quick_folder).blobs
    assert sorted(blob.digest for blob in blobs.stored()) == sorted(expected)
    for number, digest in enumerate(expected):
        content = b"%d" % number * 10_000
        assert blobs.get(BlobRef(digest=digest, bytes=len(content))) == content
    assert blobs.tidy(older_than_s=0) == 0


def test_garbage_collection_beside_writers(quick_folder):
    """LOG-12: an old blob that a writer puts again and then names is not removed."""
    store = JsonlStore(quick_folder)
    rubbish = [store.blobs.put(b"rubbish %d" % number).digest for number in range(20)]
    for digest in rubbish:
        os.utime(os.path.join(quick_folder, ".blobs", digest[7:9], digest[7:]), (1, 1))
    writers = [("put_and_name", quick_folder, label, "150") for label in ("one", "two")]
    with together(*writers, *[("collect_on", quick_folder)] * 2) as children, ThreadPoolExecutor(2) as pool:
        told = [line for lines in pool.map(lambda child: child.rest(), children[:2]) for line in lines]
        assert [child.process.returncode for child in children[:2]] == [0, 0]
        for child in children[2:]:
            child.tell("stop")
        counts = [child.hear().split() for child in children[2:]]
    assert len(told) == 300
    refs = [BlobRef(digest=digest, bytes=int(size)) for digest, size in map(str.split, told)]
    assert all(store.blobs.get(ref) for ref in refs)
    assert all(int(runs) > 1 for _, runs, _ in counts)
    assert sum(int(removed) for *_, removed in counts) >= len(rubbish)
    assert not set(rubbish) & {blob.digest for blob in store.blobs.stored()}


# ── the lock between those who put and those who remove ──────────────────────────────────────────


@pytest.fixture
def old(tmp_path):
    """A store with one old blob that no log names."""
    store = JsonlStore(str(tmp_path / "store"))
    store.blobs.put(CONTENT.encode())
    os.utime(os.path.join(shelf_of(store.folder.path), NAME), (1, 1))
    return store


def before_lock(monkeypatch, how, act):
    """Run a function just before the lock is granted, as the previous holder would."""
    real = fcntl.flock

    def lock(descriptor, kind):
        if kind == how | fcntl.LOCK_NB:
            with monkeypatch.context() as patch:
                patch.setattr(fcntl, "flock", real)
                act()
        real(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", lock)


def is_free(folder, how):
    """Whether another descriptor could take the lock now."""
    with open(os.path.join(folder, ".blobs", ".lock"), "rb") as file, contextlib.suppress(BlockingIOError):
        fcntl.flock(file, how | fcntl.LOCK_NB)
        return True
    return False


def test_the_age_is_checked_again_under_the_lock(monkeypatch, old):
    """LOG-12: a blob that is put again while garbage collection waits for the lock stays."""
    before_lock(monkeypatch, fcntl.LOCK_EX, lambda: JsonlStore(old.folder.path).blobs.put(CONTENT.encode()))
    assert not old.blobs.remove(DIGEST, older_than_s=DAY_S)
    assert old.blobs.get(REF) == CONTENT.encode()


def test_a_writer_checks_for_the_blob_under_the_lock(monkeypatch, old):
    """LOG-12: a blob that is removed while a writer waits for the lock is written anew."""
    before_lock(
        monkeypatch, fcntl.LOCK_SH, lambda: JsonlStore(old.folder.path).blobs.remove(DIGEST, older_than_s=DAY_S)
    )
    old.blobs.put(CONTENT.encode())
    assert old.blobs.get(REF) == CONTENT.encode()


@pytest.mark.parametrize("step", ["utime", "rename"])
def test_garbage_collection_waits_while_a_writer_puts(monkeypatch, old, step):
    """LOG-12: while a blob is renewed or named, other writers can take the lock and garbage collection cannot."""
    real, seen = getattr(os, step), []

    def stepped(*args):
        seen.append((is_free(old.folder.path, fcntl.LOCK_SH), is_free(old.folder.path, fcntl.LOCK_EX)))
        return real(*args)

    monkeypatch.setattr(os, step, stepped)
    old.blobs.put(CONTENT.encode() if step == "utime" else b"new content")
    assert seen == [(True, False)]


def test_no_writer_puts_while_a_blob_is_removed(monkeypatch, old):
    """LOG-12: the lock is exclusive while a blob is unlinked."""
    real, seen = os.unlink, []

    def stepped(path):
        seen.append(is_free(old.folder.path, fcntl.LOCK_SH))
        return real(path)

    monkeypatch.setattr(os, "unlink", stepped)
    assert [blob.digest for blob in collect(old).blobs] == [DIGEST]
    assert seen == [False]
