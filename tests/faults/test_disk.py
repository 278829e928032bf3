"""A disk that fails (law 4): the append fails with a clear error, and nothing acknowledged is lost.

Failed syncs and full disks are injected by strace and counted; a truly full disk is made with a tiny file
system, or with a limit on the size of files where mounting is not allowed.
"""

import json
import os
import shutil

import pytest

from tests.faults.figures import Figure
from tests.faults.processes import run
from tests.faults.samples import NAME, bytes_of, log_path, proof_of, read, small_log
from tests.faults.tracing import Traced, traced
from wakelog.log.entry import DamageNote

APPENDS = 30
WRITES = "write,fdatasync,fsync,close,openat"

pytestmark = pytest.mark.strace


def check_kept_once(folder: str, before: bytes, *ids: str) -> None:
    """Law 4 and LOG-10: every acknowledged entry exists exactly once, older bytes are unchanged, seqs have no gap."""
    log = read(folder)
    assert [entry.id for entry in log.entries if entry.id in ids] == list(ids)
    assert bytes_of(folder).startswith(before)
    assert [entry.seq for entry in log.entries] == list(range(len(log.entries)))
    proof = proof_of(folder)
    assert (log.damage, proof.broken, proof.unsealed) == ((), (), 0)


def figure(folder: str, planned: int, applied: int, *ids: str, control: str = "") -> Figure:
    """The figures of a run with these acknowledged entries."""
    found = [entry.id for entry in read(folder).entries]
    lost = sum(found.count(entry_id) != 1 for entry_id in ids)
    acknowledged, missing = (len(ids), "acknowledged entries"), (lost, "lost or there twice")
    return Figure("EIO or ENOSPC at a write or sync", "files", planned, applied, acknowledged, missing, control)


def check_clear(traced_run: Traced, reason: str) -> None:
    """Assert that every failure has one line that says what happened, and a hint."""
    for _, text in traced_run.said("failed"):
        error = json.loads(text)
        assert error["error"] == "StoreError"
        assert reason in error["message"]
        assert error["message"].startswith("cannot ")
        assert "\n" not in error["message"]
        assert error["hint"]


def check_never_synced_again(traced_run: Traced) -> None:
    """After a failed sync, the next operation on the descriptor is its close."""
    failed = [at for at, call in enumerate(traced_run.calls) if call.injected]
    assert failed
    for at in failed:
        descriptor = traced_run.calls[at].descriptor
        later = [call for call in traced_run.calls[at + 1 :] if call.descriptor == descriptor]
        assert later, "the descriptor of a failed sync was left open"
        assert later[0].name == "close", f"{later[0].name} on a descriptor whose sync has failed"


def test_a_failed_sync_is_never_repeated_on_its_descriptor(tmp_path, record):
    """Law 4: EIO at the first fdatasync of every append; the retry by id uses a new descriptor."""
    folder = str(tmp_path / "store")
    small_log(folder, entries=3)
    before = bytes_of(folder)
    seen = traced(
        str(tmp_path / "report"),
        *("append_stubbornly", folder, str(APPENDS)),
        paths=[log_path(folder)],
        trace=WRITES,
        inject="fdatasync:error=EIO:when=1+2",
    )
    assert (seen.applied, len(seen.said("failed"))) == (APPENDS, APPENDS)
    check_clear(seen, "Input/output error")
    check_never_synced_again(seen)
    ids = [f"m{number}" for number in range(APPENDS)]
    check_kept_once(folder, before, *ids)
    record(figure(folder, APPENDS, seen.applied, *ids))
    assert sum(call.name == "write" for call in seen.calls) == APPENDS, "a retried entry was written again"


def test_one_failed_sync_loses_nothing_that_was_acknowledged(tmp_path, record):
    """Law 4: a single EIO in the middle of a run; all entries before and after it are there."""
    folder = str(tmp_path / "store")
    small_log(folder, entries=3)
    before = bytes_of(folder)
    seen = traced(
        str(tmp_path / "report"),
        *("append_stubbornly", folder, "10"),
        paths=[log_path(folder)],
        trace=WRITES,
        inject="fdatasync:error=EIO:when=5",
    )
    assert (seen.applied, len(seen.said("failed"))) == (1, 1)
    assert [entry_id for entry_id, _ in seen.said("kept")] == [f"m{number}" for number in range(10)]
    check_never_synced_again(seen)
    ids = [f"m{number}" for number in range(10)]
    check_kept_once(folder, before, *ids)
    record(figure(folder, 1, seen.applied, *ids))


def test_a_full_disk_at_every_append(tmp_path, record):
    """Law 4: ENOSPC at the first write of each of 30 appends; each is retried by its id and exists once."""
    folder = str(tmp_path / "store")
    small_log(folder, entries=3)
    before = bytes_of(folder)
    seen = traced(
        str(tmp_path / "report"),
        *("append_stubbornly", folder, str(APPENDS)),
        paths=[log_path(folder)],
        trace=WRITES,
        inject="write:error=ENOSPC:when=1+2",
    )
    assert (seen.applied, len(seen.said("failed"))) == (APPENDS, APPENDS)
    check_clear(seen, "No space left on device")
    ids = [f"m{number}" for number in range(APPENDS)]
    check_kept_once(folder, before, *ids)
    record(figure(folder, APPENDS, seen.applied, *ids))


def test_control_a_failed_append_that_is_reported_as_acknowledged(tmp_path, record):
    """The tests above can fail: without the error and the retry, every entry whose write was refused is missing."""
    folder = str(tmp_path / "store")
    small_log(folder, entries=3)
    seen = traced(
        str(tmp_path / "report"),
        *("append_carelessly", folder, str(APPENDS)),
        paths=[log_path(folder)],
        trace=WRITES,
        inject="write:error=ENOSPC:when=1+2",
    )
    ids = [entry_id for entry_id, _ in seen.said("kept")]
    assert len(ids) == APPENDS
    record(figure(folder, APPENDS // 2, seen.applied, *ids, control="a failed append is told as kept"))


@pytest.mark.parametrize("failing", range(1, 6))
def test_a_failed_sync_during_create(tmp_path, failing, record):
    """Law 4, ST-7: no session is acknowledged before file and folders are synced; the retry repairs it.

    The syncs are those of the two new folders' names, of the draft, of the store's folder and of `by-id`.
    """
    folder = str(tmp_path / "store")
    seen = traced(
        str(tmp_path / "report"),
        *("create", folder, "new-session", "2"),
        paths=[],
        trace="fsync,fdatasync",
        inject=f"fsync:error=EIO:when={failing}",
    )
    assert (seen.applied, len(seen.said("failed")), len(seen.said("kept"))) == (1, 1, 1)
    check_clear(seen, "Input/output error")
    failed_at = [call.injected for call in seen.calls].index(True)
    again = [call.path for call in seen.calls[failed_at + 1 :] if call.result == 0]
    assert seen.calls[failed_at].path in again, "what failed to be synced was never synced again"
    assert {folder, os.path.join(folder, "by-id")} <= set(again)
    assert sorted(os.listdir(folder)) == [f"{NAME}.jsonl", "by-id"], "a draft was left behind"
    assert os.listdir(os.path.join(folder, "by-id")) == ["new-session"]
    check_kept_once(folder, b"", "new-session")
    record(figure(folder, 1, seen.applied, "new-session"))


def test_a_session_is_synced_before_it_is_acknowledged(tmp_path):
    """Law 4: the names of new folders, the file, and both folders' contents, each after what it makes durable."""
    folder = str(tmp_path / "store")
    calls = "fsync,mkdir,link,linkat,symlink,symlinkat,rename,renameat"
    seen = traced(str(tmp_path / "report"), *("create", folder, "a", "1"), paths=[], trace=calls)
    synced = [os.path.relpath(call.path, tmp_path) for call in seen.calls if call.name == "fsync"]
    assert synced == [".", "store", "store/.new-a", "store", "store/by-id"]
    order = [call.name for call in seen.calls if folder in call.path + call.arguments]
    assert order[-2:] == ["fsync", "fsync"], "something was made after the last sync"


def test_every_append_of_a_message_is_one_write_and_one_sync(tmp_path):
    """Law 4 and ST-2: one write to the log, then one fdatasync, for each append, and nothing else."""
    folder = str(tmp_path / "store")
    small_log(folder, entries=2)
    report = str(tmp_path / "report")
    words = ("append_stubbornly", folder, "5")
    seen = traced(report, *words, paths=[log_path(folder)], trace="write,fdatasync,fsync,ftruncate,pwrite64")
    assert [call.name for call in seen.calls] == ["write", "fdatasync"] * 5


# ── a disk that is really full ───────────────────────────────────────────────────────────────────


def tiny_disk(folder: str) -> list[str]:
    """The command that starts a child on a 64 KiB file system of its own; empty where that is not allowed."""
    unshare, mount = shutil.which("unshare"), shutil.which("mount")
    if unshare is None or mount is None:
        return []
    os.makedirs(folder, exist_ok=True)
    # The mount lives in the child's own namespace and goes away with it.
    script = f'{mount} -t tmpfs -o size=64k none "$0" && exec "$@"'
    before = [unshare, "--mount", "sh", "-c", script, folder]
    return before if run("create", os.path.join(folder, "probe"), "x", "1", before=before).returncode == 0 else []


@pytest.mark.parametrize("kind", ["disk", "limit"])
def test_a_disk_that_is_really_full(tmp_path, kind, record):
    """Law 4, LOG-9: a write that only half fits is noted as damage once there is space; all other entries are there."""
    folder, kept = str(tmp_path / "tiny"), str(tmp_path / "kept.jsonl")
    before = tiny_disk(folder) if kind == "disk" else []
    done = run("fill", folder, kept, "disk" if before else "limit", before=before)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-2_000:]
    seen = Traced(done, [])
    acknowledged = [entry_id for entry_id, _ in seen.said("kept")]
    failed = [json.loads(text) for _, text in seen.said("failed")]
    assert len(failed) == 1
    assert len(acknowledged) > 20
    assert failed[0]["hint"]
    os.makedirs(tmp_path / "store")
    shutil.copyfile(kept, log_path(str(tmp_path / "store")))
    log = read(str(tmp_path / "store"))
    assert [entry.id for entry in log.entries if entry.id in acknowledged] == acknowledged
    assert (log.damage, proof_of(str(tmp_path / "store")).broken) == ((), ())
    assert [entry.seq for entry in log.entries] == list(range(len(log.entries)))
    torn = [entry.value for entry in log.entries if isinstance(entry.value, DamageNote)]
    assert len(torn) == len(log.noted) == 1
    record(figure(str(tmp_path / "store"), 1, len(failed), *acknowledged))
