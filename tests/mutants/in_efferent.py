"""Planted bugs in the reader of efferent."""

from tests.mutants.mutant import Mutant

TESTS = "tests/exchange/test_efferent.py"

IN_EFFERENT = (
    Mutant(
        "a checkpoint folds what was said after it",
        "ST-9",
        "exchange/efferent/entries.py::_SessionReader._keep_from",
        "self._keeping_nothing[-1].behind < position",
        "False",
        (f"{TESTS}::test_a_checkpoint_folds_rows_up_to_its_position",),
    ),
    Mutant(
        "a checkpoint stands before the rows it folds",
        "ST-9",
        "exchange/efferent/entries.py::_SessionReader.items",
        "self._waiting[0].behind < position",
        "True",
        (f"{TESTS}::test_a_checkpoint_with_an_early_time_stays_behind_its_position",),
    ),
    Mutant(
        "usage of efferent counts cached input twice",
        "ST-9",
        "exchange/efferent/entries.py::_usage",
        "max(0, (counts['inputTokens'] or 0) - cached)",
        "counts['inputTokens'] or 0",
        (f"{TESTS}::test_a_conversation",),
    ),
    Mutant(
        "any tool result that names a node has started it",
        "ST-9",
        "exchange/efferent/reader.py::_callers",
        "object_of(part).get('toolName') == 'run_agent'",
        "True",
        (f"{TESTS}::test_a_node_of_the_context_tree_is_a_sub_agent",),
    ),
    Mutant(
        "the outcome of a node moves behind a resumed run",
        "ST-9",
        "exchange/efferent/entries.py::_SessionReader.__init__",
        "count_of(rows.outcome.get('ended_at')) or 0",
        "1 << 52",
        (f"{TESTS}::test_the_outcome_of_a_node_stands_where_its_run_ended",),
    ),
    Mutant(
        "rows without a conversation are dropped",
        "ST-9",
        "exchange/efferent/reader.py::_orphans",
        "list(found)",
        "[]",
        (f"{TESTS}::test_rows_without_a_conversation_are_read",),
    ),
    Mutant(
        "a result belongs to the first call with its id",
        "ST-9",
        "exchange/chains.py::OpenCalls.open",
        "self._calls.update(found)",
        "self._calls = {**found, **self._calls}",
        (f"{TESTS}::test_ids_of_calls_repeat_in_each_run",),
    ),
)
