"""Planted bugs in what makes imports of thousands of files fast."""

from tests.mutants.mutant import Mutant

AGAIN = "tests/exchange/test_import_again.py"
MANY = "tests/stores/jsonl/test_many_new_sessions.py"
NAMES = "stores/jsonl/session_names.py::SessionNames"

IN_IMPORTS = (
    Mutant(
        "an import reads files that have not changed",
        "ST-9",
        "exchange/sync_index.py::SyncIndex.unchanged",
        "return sessions",
        "return None",
        (f"{AGAIN}::test_a_second_import_parses_nothing",),
    ),
    Mutant(
        "an import goes on behind a session that another process created",
        "ST-9",
        "exchange/importing.py::_SessionImport._create_with_group",
        "self._end.seq != len(self._group) or ...",
        "False",
        (f"{AGAIN}::test_a_session_that_was_created_meanwhile_is_left_alone",),
    ),
    Mutant(
        "first entries are not sealed behind the header",
        "ST-7, law 3",
        "log/integrity.py::sealed_lines",
        "end.advance(lines[-1])",
        "pass",
        ("tests/stores/test_memory.py::TestMemoryStore::test_a_session_is_created_with_its_first_entries",),
    ),
    Mutant(
        "a database forgets the first entries",
        "ST-7",
        "stores/database/row_store.py::RowStore.create",
        "(first_line(number), *more)",
        "(first_line(number),)",
        ("tests/stores/sqlite/test_store.py::TestSqliteStore::test_a_session_is_created_with_its_first_entries",),
    ),
    Mutant(
        "a search reads logs again",
        "ST-7",
        f"{NAMES}._read_new_ids",
        "searched.add((entry.name, entry.inode()))",
        "pass",
        (f"{MANY}::test_a_search_reads_each_log_once",),
    ),
    Mutant(
        "a listing outlives the import that made it",
        "ST-7",
        f"{NAMES}.listed_once",
        "self._is_listed, self._titled = False, None",
        "pass",
        (f"{MANY}::test_a_log_that_was_added_by_hand_is_found_by_the_next_import",),
    ),
)
