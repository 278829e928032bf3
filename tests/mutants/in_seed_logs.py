"""Planted bugs in the readers of the source documents' logs, and in the import of wakelog's own."""

from tests.mutants.mutant import Mutant

SEEDS = "tests/exchange/test_seed_logs.py"
OWN = "tests/exchange/test_own_logs.py"

IN_SEED_LOGS = (
    Mutant(
        "the duration of a printed tool run is lost",
        "LOG-6",
        "exchange/seed_logs/session_structures.py::_RecordReader._result",
        "count_of(record.get('duration_ms'))",
        "None",
        (f"{SEEDS}::test_the_log_of_the_first_document",),
    ),
    Mutant(
        "reasoning is lost in front of a call",
        "LOG-6",
        "exchange/seed_logs/session_structures.py::_RecordReader._record",
        "(*self._thinking, call)",
        "(call,)",
        (f"{SEEDS}::test_every_record_of_the_first_form",),
    ),
    Mutant(
        "reasoning without a reply is dropped in silence",
        "LOG-6",
        "exchange/seed_logs/session_structures.py::_RecordReader.read",
        "self._reasoning",
        "False",
        (f"{SEEDS}::test_reasoning_without_its_reply_is_reported",),
        occurrence=1,
    ),
    Mutant(
        "the text of an interrupted generation is dropped",
        "LOG-6",
        "exchange/seed_logs/event_sourced.py::_EventReader._unfinished",
        "generation.pieces and generation.events",
        "False",
        (f"{SEEDS}::test_the_text_of_an_interrupted_generation_survives",),
    ),
    Mutant(
        "replaced chunks stay in the reply",
        "LOG-6",
        "exchange/seed_logs/event_sourced.py::_EventReader._resumed",
        "generation.pieces = []",
        "pass",
        (f"{SEEDS}::test_every_event_of_the_second_form",),
    ),
    Mutant(
        "an uncertain tool run looks like an error",
        "LOG-6",
        "exchange/seed_logs/event_sourced.py::_EventReader._result",
        "'unknown' if is_unknown else ...",
        "...",
        (f"{SEEDS}::test_every_event_of_the_second_form",),
    ),
    Mutant(
        "an older copy of a log is refused",
        "ST-9",
        "exchange/own_logs.py::_is_known",
        "bool(held) or next(there, None) is not None",
        "False",
        (f"{OWN}::test_an_older_copy_changes_nothing",),
    ),
    Mutant(
        "a log that differs is taken for a known one",
        "ST-9",
        "exchange/own_logs.py::_is_known",
        "not held.startswith(line.bytes)",
        "False",
        (f"{OWN}::test_a_log_that_differs_is_refused",),
    ),
    Mutant(
        "an imported log leaves its blobs behind",
        "ST-9",
        "exchange/own_logs.py::_source",
        "is_in_store and ...",
        "False",
        (f"{OWN}::test_blobs_come_from_the_folder_of_the_store",),
    ),
)
