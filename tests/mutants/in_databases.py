"""Mutants in what stores share and in the databases: fences and sizes in the statement, group commit, adopting."""

from tests.mutants.mutant import Mutant

SQLITE = "tests/stores/test_sqlite.py"
SUITE = f"{SQLITE}::TestSqliteStore"
FILES = "tests/stores/test_jsonl.py::TestJsonlStore"
MEMORY = "tests/stores/test_memory.py::TestMemoryStore"
POSTGRES = "tests/stores/test_postgres.py::TestPostgresStore"
GROUPS = "tests/test_grouping.py"

IN_DATABASES = (
    Mutant(
        "SQLite lets a stale fence in",
        "law 6",
        "stores/sqlite_tables.py",
        "AND size = :size AND (:fence IS NULL OR fence = :fence)\n",
        "AND size = :size\n",
        (f"{SUITE}::test_an_expired_holder_is_overtaken", f"{SUITE}::test_an_answer_is_an_entrys_own"),
    ),
    Mutant(
        "SQLite appends anywhere",
        "law 3, LOG-10",
        "stores/sqlite_tables.py",
        "WHERE id = :session AND size = :size AND",
        "WHERE id = :session AND",
        (f"{SUITE}::test_writers_at_once",),
    ),
    Mutant(
        "SQLite lets the overtaken speak in a journal",
        "law 5, law 6",
        "stores/sqlite_tables.py",
        "FROM logs WHERE id = :session AND (:fence IS NULL OR fence = :fence)\nRETURNING 1",
        "FROM logs WHERE id = :session\nRETURNING 1",
        (f"{SUITE}::test_one_worker_speaks_in_a_journal",),
    ),
    Mutant(
        "SQLite commits without a sync",
        "law 4",
        "stores/sqlite_file.py",
        '"sync": "FULL"',
        '"sync": "NORMAL"',
        (f"{SQLITE}::test_commits_are_synced",),
    ),
    Mutant(
        "SQLite takes a lease that stands",
        "law 6",
        "stores/row_store.py",
        "    if not lease.process.is_gone:\n        raise",
        "    if False:\n        raise",
        (f"{SUITE}::test_one_holder_at_a_time",),
    ),
    Mutant(
        "SQLite takes in another program's database",
        "law 13",
        "stores/sqlite_file.py",
        "if tables and ours != _APPLICATION_ID:",
        "if False:",
        (f"{SQLITE}::test_another_programs_database_is_left_alone",),
    ),
    Mutant(
        "SQLite writes into a newer schema",
        "law 10",
        "stores/sqlite_file.py",
        'if _version(connection) > newest("sqlite"):',
        "if False:",
        (f"{SQLITE}::test_a_newer_schema_is_left_alone",),
    ),
    Mutant(
        "reading makes a database",
        "law 9",
        "stores/sqlite_file.py",
        "            if self._is_begun():\n",
        "            self._make()\n            if self._is_begun():\n",
        (f"{SQLITE}::test_reading_makes_nothing",),
    ),
    Mutant(
        "the database is told the wrong bytes of a row",
        "law 12, ST-4",
        "stores/rows.py",
        "yield Row(line.bytes)",
        "yield Row(line.raw)",
        (f"{SUITE}::test_a_log_is_adopted_as_it_is",),
    ),
    Mutant(
        "an id stands for two contents",
        "LOG-10",
        "stores/row_store.py",
        "        if unsealed(raw) != append.body:\n",
        "        if False:\n",
        (f"{SQLITE}::test_an_id_that_stands_in_the_log_already",),
    ),
    Mutant(
        "adopting looks at no size",
        "LOG-10",
        "stores/jsonl.py",
        "            if log.size != size:\n",
        "            if False:\n",
        (f"{FILES}::test_adopting_knows_its_place",),
    ),
    Mutant(
        "an adopted session takes another's name",
        "ST-2",
        "stores/memory.py",
        "        while name in self._logs:\n",
        "        while False:\n",
        (f"{MEMORY}::test_a_name_that_is_taken",),
    ),
    Mutant(
        "appends that come together are not synced",
        "law 4",
        "stores/jsonl.py",
        "            if any(append.durable and isinstance(answers[at], Sealed) for at, append in appends.items()):\n",
        "            if False:\n",
        ("tests/stores/test_jsonl.py::test_syncs_of_many_logs_fail_one_by_one",),
    ),
    Mutant(
        "a failed sync of many is nobody's business",
        "law 4",
        "stores/syncing.py",
        "        return error\n",
        "        return None\n",
        ("tests/stores/test_jsonl.py::test_syncs_of_many_logs_fail_one_by_one",),
    ),
    Mutant(
        "a torn tail that grew is read in two",
        "LOG-9",
        "stores/jsonl.py",
        " and not log.end.ragged",
        "",
        (f"{FILES}::test_a_torn_tail_that_grows",),
    ),
    Mutant(
        "a group turns the order round",
        "law 3",
        "grouping.py",
        "            group.append(self._waiting.get_nowait())",
        "            group.insert(0, self._waiting.get_nowait())",
        (f"{GROUPS}::test_one_session_keeps_its_order",),
    ),
    Mutant(
        "an error of a group is taken for an answer",
        "LOG-10",
        "grouping.py",
        "            waiting.set_exception(answer)",
        "            waiting.set_result(answer)",
        (f"{GROUPS}::test_errors_go_to_who_asked",),
    ),
    Mutant(
        "any number may wait",
        "law 4",
        "grouping.py",
        "asyncio.Queue(waiting_max)",
        "asyncio.Queue(0 * waiting_max)",
        (f"{GROUPS}::test_only_so_many_may_wait",),
    ),
    Mutant(
        "PostgreSQL lets a stale fence in",
        "law 6",
        "stores/postgres_adding.py",
        "WHERE session = %(session)s AND size = %(size)s AND (%(fence)s::bigint IS NULL OR fence = %(fence)s)\n"
        "    AND NOT EXISTS",
        "WHERE session = %(session)s AND size = %(size)s\n    AND NOT EXISTS",
        (f"{POSTGRES}::test_an_expired_holder_is_overtaken",),
    ),
    Mutant(
        "PostgreSQL appends anywhere",
        "law 3, LOG-10",
        "stores/postgres_adding.py",
        "WHERE session = %(session)s AND size = %(size)s AND (%(fence)s::bigint IS NULL OR fence = %(fence)s)\n"
        "    AND NOT EXISTS",
        "WHERE session = %(session)s AND (%(fence)s::bigint IS NULL OR fence = %(fence)s)\n    AND NOT EXISTS",
        (f"{POSTGRES}::test_writers_at_once",),
    ),
)
