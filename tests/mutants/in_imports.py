"""Planted bugs in imports: what makes those of thousands of files fast, and sessions that change between them."""

from tests.mutants.mutant import Mutant

GROWING = "tests/exchange/test_growing_imports.py"

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
    Mutant(
        "the head stays at what a tool has undone or replaced",
        "ST-9, LOG-8",
        "exchange/importing.py::_SessionImport._follows_head",
        "self._left_at",
        "None",
        (f"{GROWING}::test_an_entry_that_the_source_has_no_more_is_left",),
    ),
    Mutant(
        "usage that comes later is not counted",
        "ST-9",
        "exchange/importing.py::_SessionImport._late_usage",
        "body.id in self._without_usage",
        "False",
        (f"{GROWING}::test_usage_that_comes_later_is_counted_once",),
    ),
    Mutant(
        "a title of the tool replaces one given here",
        "ST-9",
        "exchange/imported_titles.py::ImportedTitles.given_here",
        "self._given_here.get(self._last_stored)",
        "None",
        (f"{GROWING}::test_a_title_of_the_tool_does_not_replace_one_given_here",),
    ),
    Mutant(
        "objects inside a torn record are taken for records",
        "ST-9",
        "exchange/records.py::_is_inside",
        "text[end:end + _BLANKS_MAX].lstrip()[:1] not in ('', '{')",
        "False",
        ("tests/exchange/test_records.py::test_objects_inside_a_torn_record_are_no_records",),
    ),
    Mutant(
        "a cell that is too large stops a database",
        "ST-9",
        "exchange/files.py::DiskDatabase._cell",
        "sqlite3.DataError",
        "ZeroDivisionError",
        ("tests/exchange/test_files.py::test_a_cell_that_cannot_be_read_does_not_stop_the_others",),
    ),
    Mutant(
        "an imported session keeps a model that cannot be called",
        "ST-9",
        "app/settings.py::_plan_unconfigured_session",
        "IMPORTED_SETTING not in state.settings",
        "True",
        ("tests/app/test_settings.py::test_a_fork_of_an_import_continues_like_it",),
    ),
)
