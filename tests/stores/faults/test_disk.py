"""Law 4, ST-6: on a failing disk an append to a SQLite store raises a clear error, and no acknowledged entry is lost.

The faults are injected by strace into the calls on the write-ahead log and counted. What they do to files is in
`tests/faults/test_disk.py`.
"""

import json

import pytest

from tests.faults.figures import Figure
from tests.faults.tracing import Traced, traced
from tests.stores.faults.children import MODULE
from tests.stores.faults.logs import made, numbered, standing

APPENDS = 30

pytestmark = pytest.mark.strace


def appended(url: str, report: str, inject: str = "") -> Traced:
    """A writer with retries under strace, which sees what happens to the write-ahead log."""
    wal = f"{url.partition(':')[2]}-wal"
    words = ("write_stubbornly", url, "s", str(APPENDS))
    calls = "pwrite64,fdatasync,fsync"
    return traced(report, *words, paths=[wal], trace=calls, inject=inject, module=MODULE)


def check(url: str, seen: Traced, reason: str) -> list[str]:
    """Assert that every entry exists once at its position and every failure is clear.

    Return whether failed ones existed.
    """
    assert standing(url, "s") == [(numbered(at), at + 1) for at in range(APPENDS)]
    assert [int(seq) for _, seq in seen.said("kept")] == list(range(1, APPENDS + 1))
    failed = [text.split(" ", 1) for _, text in seen.said("failed")]
    for _, text in failed:
        error = json.loads(text)
        assert error["error"] == "StoreError"
        assert reason in error["message"] + error["hint"]
        assert "\n" not in error["message"] + error["hint"]
        assert error["hint"]
    return [found for found, _ in failed]


def figure(seen: Traced, failed: list[str]) -> Figure:
    """The figures of a log that was checked: each planned fault is one failed append."""
    checked, lost = (APPENDS, "acknowledged entries"), (0, "lost or there twice")
    return Figure("EIO or ENOSPC at a write or sync", "SQLite", len(failed), seen.applied, checked, lost)


def test_every_durable_append_is_synced(sqlite_url, tmp_path):
    """Law 4: at least one sync of the write-ahead log for each acknowledged append."""
    made(sqlite_url, "s")
    seen = appended(sqlite_url, str(tmp_path / "report"))
    assert sum(call.name in ("fdatasync", "fsync") for call in seen.calls) >= APPENDS


def test_failed_syncs_lose_and_repeat_no_entry(sqlite_url, tmp_path, record):
    """Law 4: EIO at every third sync; each failed append is retried by its id, and exists once."""
    made(sqlite_url, "s")
    seen = appended(sqlite_url, str(tmp_path / "report"), "fdatasync:error=EIO:when=1+3")
    failed = check(sqlite_url, seen, "disk")
    assert len(failed) > 5
    record(figure(seen, failed))


def test_a_full_disk_loses_and_repeats_no_entry(sqlite_url, tmp_path, record):
    """Law 4: ENOSPC at every 20th write; each failed append is retried by its id, and exists once."""
    made(sqlite_url, "s")
    seen = appended(sqlite_url, str(tmp_path / "report"), "pwrite64:error=ENOSPC:when=7+20")
    failed = check(sqlite_url, seen, "space")
    record(figure(seen, failed))
    assert set(failed) == {"absent"}


def test_an_entry_of_an_earlier_try_is_synced_before_it_is_acknowledged(sqlite_url, tmp_path):
    """Law 4: an earlier try may have left the entry in the log without a sync."""
    made(sqlite_url, "s")
    wal = f"{sqlite_url.partition(':')[2]}-wal"
    report = str(tmp_path / "report")
    seen = traced(report, "write_again", sqlite_url, "s", paths=[wal], trace="fdatasync,pwrite64", module=MODULE)
    assert seen.said("kept") == [[numbered(0), "1"]] * 2
    assert [call.name for call in seen.calls][-1:] == ["fdatasync"], [call.name for call in seen.calls]
