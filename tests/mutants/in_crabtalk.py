"""Planted bugs in the reader of crabtalk."""

from tests.mutants.mutant import Mutant

TESTS = "tests/exchange/test_crabtalk.py"

IN_CRABTALK = (
    Mutant(
        "records of a store are scanned through its snapshot",
        "ST-9",
        "exchange/crabtalk/store.py::CrabStore._load_snapshot",
        "return int(index_at + index_size)",
        "return _STORE_HEADER",
        (f"{TESTS}::test_a_snapshot_among_the_records_changes_nothing",),
    ),
    Mutant(
        "deleted records of a store come back",
        "ST-9",
        "exchange/crabtalk/store.py::CrabStore._replay",
        "self._places[column].pop(key, None)",
        "pass",
        (f"{TESTS}::test_the_newest_record_of_a_key_counts",),
    ),
    Mutant(
        "a torn record of a store is not reported",
        "ST-9",
        "exchange/crabtalk/store.py::CrabStore._replay",
        "self.bad.append(...)",
        "None",
        (f"{TESTS}::test_a_torn_record_is_reported_with_its_session",),
    ),
    Mutant(
        "the memory of crabtalk is taken for its store",
        "ST-9",
        "exchange/crabtalk/store.py::is_store",
        "(index_at, index_size) == (0, 0) or (index_at >= _STORE_HEADER and index_at + index_size <= size)",
        "True",
        (f"{TESTS}::test_databases_and_stores_are_recognised",),
    ),
    Mutant(
        "a file of crabtalk is another session once it has a title",
        "ST-9",
        "exchange/crabtalk/reader.py::_first_part_of_name",
        "re.match('[0-9]+', name.removeprefix(start)) if name.startswith(start) else None",
        "re.match('.*', name)",
        (f"{TESTS}::test_a_file_that_gets_a_title_is_the_same_session",),
    ),
    Mutant(
        "events stay with deleted messages, so that they are imported twice",
        "ST-9",
        "exchange/crabtalk/entries.py::LineReader._event",
        "self._chain.content_key(record)",
        "self._chain.content_key(record, self._scope)",
        (f"{TESTS}::test_a_store_keeps_the_events_of_deleted_messages",),
    ),
    Mutant(
        "events are matched without looking at their calls",
        "ST-9",
        "exchange/crabtalk/runs.py::_without_counterpart",
        "run.calls.isdisjoint(calls)",
        "False",
        (f"{TESTS}::test_events_belong_to_the_run_with_their_calls",),
    ),
    Mutant(
        "the usage of a run goes to its first reply",
        "ST-9",
        "exchange/crabtalk/entries.py::LineReader._run",
        "replies[-1]",
        "replies[0]",
        (f"{TESTS}::test_a_session_is_the_same_in_every_form",),
    ),
)
