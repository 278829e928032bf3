"""Planted bugs of the reader for OpenCode."""

from tests.mutants.mutant import Mutant

READER = "tests/exchange/test_opencode.py"
SOURCES = "tests/exchange/test_opencode_sources.py"
SYNC = f"{SOURCES}::test_syncing_while_a_reply_is_written_gives_a_sound_log"

IN_OPENCODE = (
    Mutant(
        "a reply has the same key with other parts",
        "ST-9",
        "exchange/opencode/entries.py::_key",
        '":".join([message, *parts])',
        "message",
        (SYNC, f"{SOURCES}::test_a_reply_that_got_more_calls_is_another_reply"),
    ),
    Mutant(
        "a result has the same key behind another reply",
        "ST-9",
        "exchange/opencode/entries.py::_SessionWriter._place",
        'f"{self._scope}:{key}" if self._scope else key',
        "key",
        (SYNC,),
    ),
    Mutant(
        "results stand in the order of their calls",
        "ST-9",
        "exchange/opencode/entries.py::_SessionWriter._step",
        "sorted(results, key=lambda each: each[0])",
        "results",
        (SYNC, f"{SOURCES}::test_results_come_in_the_order_in_which_the_tools_ended"),
    ),
    Mutant(
        "a text that still grows is taken",
        "ST-9",
        "exchange/opencode/parts.py::_is_growing",
        '"start" in time and not time.get("end")',
        "False",
        (SYNC,),
    ),
    Mutant(
        "a reply in progress is taken without a call",
        "ST-9",
        "exchange/opencode/entries.py::_is_open",
        'bool(time.get("created")) and not is_ended',
        "False",
        (SYNC, f"{SOURCES}::test_a_reply_in_progress_is_not_taken"),
    ),
    Mutant(
        "reverted messages stay in the branch of the head",
        "ST-9",
        "exchange/opencode/entries.py::_SessionWriter._end_of_hidden",
        "self._tip = hidden.target_id or None",
        "pass",
        (
            f"{READER}::test_reverted_messages_are_a_branch_and_the_head_is_before_them",
            f"{SOURCES}::test_a_message_removed_after_a_revert_is_a_branch",
        ),
    ),
    Mutant(
        "a text that OpenCode added counts as a person's",
        "ST-9",
        "exchange/opencode/entries.py::_said",
        'not value.get("synthetic")',
        "True",
        (f"{READER}::test_added_texts_are_notes_and_unseen_parts_are_verbatim",),
    ),
    Mutant(
        "reasoning is not counted as output",
        "ST-9",
        "exchange/opencode/parts.py::usage_of",
        'number_of(tokens.get("output")) + number_of(tokens.get("reasoning"))',
        'number_of(tokens.get("output"))',
        (f"{READER}::test_a_turn_with_a_tool",),
    ),
    Mutant(
        "parts of a message that cannot be read are dropped",
        "ST-9",
        "exchange/opencode/sources.py::DatabaseReader._messages",
        "yield from self._homeless_parts(name, seen)",
        "",
        (f"{SOURCES}::test_damaged_rows_are_reported_and_their_parts_kept",),
    ),
    Mutant(
        "the database of the other opencode has no name",
        "ST-9",
        "exchange/opencode/reader.py::refusal",
        "_GO_DATABASE if is_go and not is_opencode_database(source) else None",
        "None",
        (f"{READER}::test_the_other_opencode_is_refused_by_name",),
    ),
)
