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
        "an import continues the seals of a header with another number",
        "ST-9",
        "exchange/importing.py::_SessionImport._create_whole.content",
        "self._end, lines = LogEnd(), []",
        "lines = []",
        (f"{AGAIN}::test_a_number_that_was_taken_meanwhile",),
    ),
    Mutant(
        "a session that exists counts as created with its entries",
        "ST-7",
        f"{NAMES}.create",
        "must_be_new",
        "False",
        (f"{MANY}::test_a_session_that_exists_is_not_created_again",),
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
