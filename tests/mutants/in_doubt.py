"""Planted bugs after a failed write or sync: the mark, the rewrite, and refused appends."""

from tests.mutants.mutant import Mutant

DOUBT = "tests/faults/test_doubt.py"
POWER = "tests/faults/test_power_cut.py::test_entries_acknowledged_after_a_refused_write_survive_a_power_cut"

IN_DOUBT = (
    Mutant(
        "a failed sync of a log leaves no mark",
        "law 4",
        "stores/jsonl/log_locks.py::OpenLog.fail",
        "mark_doubt(self.lock, self.synced)",
        "",
        (
            f"{DOUBT}::test_a_retry_by_id_rewrites_the_bytes_in_doubt",
            f"{DOUBT}::test_another_process_writes_the_bytes_again",
        ),
    ),
    Mutant(
        "an append does not check whether its log is in doubt",
        "law 4",
        "stores/jsonl/store.py::JsonlStore._append",
        "if log.doubt is not None: self._logs.resolve_doubt(name, log)",
        "",
        (
            f"{DOUBT}::test_a_retry_by_id_rewrites_the_bytes_in_doubt",
            f"{DOUBT}::test_the_next_entry_makes_the_bytes_in_doubt_durable_first",
        ),
    ),
    Mutant(
        "copying a log does not check whether it is in doubt",
        "law 4",
        "stores/jsonl/store.py::JsonlStore.adopt",
        "if log.doubt is not None: self._logs.resolve_doubt(name, log)",
        "",
        (f"{DOUBT}::test_every_kind_of_append_rewrites_the_bytes_in_doubt",),
    ),
    Mutant(
        "the bytes in doubt are written again and not synced",
        "law 4",
        "stores/files.py::rewrite_in_doubt",
        "os.fsync(descriptor)",
        "",
        (f"{DOUBT}::test_another_process_writes_the_bytes_again",),
    ),
    Mutant(
        "a rewrite is not compared with the device",
        "law 4",
        "stores/files.py::rewrite_in_doubt",
        "_check_device(descriptor, start, end)",
        "",
        (f"{DOUBT}::test_a_device_that_returns_other_bytes_refuses_the_append",),
    ),
    Mutant(
        "a rewrite leaves the old pages in the cache",
        "law 4",
        "stores/files.py::_rewrite_block",
        "os.posix_fadvise(descriptor, place, count, os.POSIX_FADV_DONTNEED)",
        "",
        (f"{POWER}[files-once-same]",),
    ),
    Mutant(
        "a mark that cannot be written is forgotten",
        "law 4",
        "stores/files.py::mark_doubt",
        "_UNMARKED_DOUBTS[_file_id(lock)] = start",
        "pass",
        (f"{DOUBT}::test_doubt_is_remembered_where_the_mark_cannot_be_written",),
    ),
    Mutant(
        "bytes written without a sync are taken for synced",
        "law 4",
        "stores/jsonl/store.py::JsonlStore._append",
        "if durable: log.synced = end.size",
        "log.synced = end.size",
        (f"{DOUBT}::test_entries_without_a_sync_are_in_doubt_as_well",),
    ),
    Mutant(
        "a failed commit of SQLite leaves no mark",
        "law 4, ST-6",
        "stores/sqlite/file.py::SqliteFile.give_turn",
        "wal.mark_if_in_doubt(self._lock, result_code(error))",
        "",
        (f"{DOUBT}::test_a_write_ahead_log_is_written_again",),
    ),
    Mutant(
        "SQLite does not check whether its file is in doubt",
        "law 4, ST-6",
        "stores/sqlite/file.py::SqliteFile.take_turn",
        "if doubt_of(self._lock) is not None: self._resolve_doubt()",
        "",
        (
            f"{DOUBT}::test_a_write_ahead_log_is_written_again",
            f"{DOUBT}::test_another_process_writes_the_write_ahead_log_again",
        ),
    ),
    Mutant(
        "SQLite runs a checkpoint at its end while its file is in doubt",
        "law 4, ST-6",
        "stores/sqlite/wal.py::close",
        "held is not None and _is_doubted(path, held)",
        "held is not None and not _is_doubted(path, held) and False",
        (f"{DOUBT}::test_another_process_writes_the_write_ahead_log_again",),
    ),
)
