"""Planted bugs of the reader and the writer for OpenCode."""

from tests.mutants.mutant import Mutant

READER = "tests/exchange/test_opencode.py"
FIELDS = "tests/exchange/test_opencode_fields.py"
SOURCES = "tests/exchange/test_opencode_sources.py"
WRITER = "tests/exchange/test_opencode_writer.py"
WRITTEN_PARTS = "tests/exchange/test_opencode_written_parts.py"
ROUND_TRIP = "tests/exchange/test_opencode_round_trip.py"
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
        "exchange/opencode/entries.py::_has_no_end",
        "is_begun and not any(is_timeless(part.value) for part in message.parts)",
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
        "exchange/opencode/usage.py::usage_of",
        "whole if rules.output_has_reasoning else whole + reasoning",
        "whole",
        (f"{FIELDS}::test_tokens_are_counted_as_the_version_did",),
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
    Mutant(
        "ids of one millisecond do not ascend",
        "ST-9",
        "exchange/opencode/ids.py::IdSequence._next",
        "max((time_ms << _COUNTER_BITS) + 1, self._last + 1)",
        "(time_ms << _COUNTER_BITS) + 1",
        (f"{ROUND_TRIP}::test_a_written_session_is_read_as_it_was", f"{WRITER}::test_a_turn_with_a_tool"),
    ),
    Mutant(
        "a session that has gone on is written with the same ids",
        "ST-9",
        "exchange/opencode/ids.py::IdSequence.__init__",
        "(session, head)",
        "(session,)",
        (f"{ROUND_TRIP}::test_ids_are_those_of_the_session_and_its_head",),
    ),
    Mutant(
        "a written message may be earlier than the one before it",
        "ST-9",
        "exchange/opencode/writer.py::_SessionWriter._message",
        "max(self._time, parse_ms(node.timestamp) or 0)",
        "parse_ms(node.timestamp) or 0",
        (f"{WRITER}::test_a_message_is_never_earlier_than_the_one_before_it",),
    ),
    Mutant(
        "written results lose the order in which they came",
        "ST-9",
        "exchange/opencode/writer.py::_SessionWriter._result",
        "end < call.reply.last_end",
        "False",
        (f"{WRITTEN_PARTS}::test_results_keep_the_order_in_which_they_came",),
    ),
    Mutant(
        "a written compaction keeps no messages",
        "ST-9",
        "exchange/opencode/writer.py::_SessionWriter._tail",
        "first is None",
        "True",
        (
            f"{ROUND_TRIP}::test_a_written_session_is_read_as_it_was",
            f"{WRITER}::test_a_compaction_is_a_marker_and_a_summary",
        ),
    ),
    Mutant(
        "what a compaction keeps is added to a message before it",
        "ST-9",
        "exchange/opencode/writer.py::_SessionWriter._write",
        "node.id in self._kept_first",
        "False",
        (f"{ROUND_TRIP}::test_what_a_compaction_keeps_is_not_added_to_a_message_before_it",),
    ),
    Mutant(
        "a compaction that a later one undoes is written",
        "ST-9",
        "exchange/opencode/writer.py::_SessionWriter._compaction",
        "node.id in self._undone",
        "False",
        (f"{WRITER}::test_a_compaction_that_a_later_one_undoes_is_left_out",),
    ),
    Mutant(
        "a result below the head is written into a call above it",
        "ST-9",
        "exchange/opencode/writer.py::_SessionWriter._forget_last",
        "self._waiting, self._calls, self._stopped = [], {}, None",
        "self._waiting, self._stopped = [], None",
        (f"{WRITER}::test_what_is_below_the_head_is_hidden_and_changes_no_message_above",),
    ),
    Mutant(
        "a file that OpenCode would fetch is written",
        "ST-9",
        "exchange/opencode/written_parts.py::kept_part",
        'isinstance(part, _File) and not part.url.startswith("data:") and part.mime not in _READ_BEFORE',
        "False",
        (f"{WRITTEN_PARTS}::test_what_opencode_would_act_on_or_refuse_is_counted",),
    ),
)
