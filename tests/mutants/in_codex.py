"""Planted bugs in the reader of Codex sessions, `exchange/codex*.py`, and in what sends its reasoning back."""

from tests.mutants.mutant import Mutant

SESSION = "tests/exchange/test_codex.py"
TREES = "tests/exchange/test_codex_trees.py"
GROWTH = "tests/exchange/test_codex_properties.py"
ENTRIES = "exchange/codex_entries.py::EntryBuilder"
TRANSCRIPT = "exchange/codex_session.py::Transcript"

IN_CODEX = (
    Mutant(
        "codex: each item is a reply of its own",
        "ST-9",
        f"{ENTRIES}.extend_reply",
        "draft.items += 1",
        "draft.items += 1; self.end_reply()",
        (f"{SESSION}::test_one_reply_for_one_response",),
    ),
    Mutant(
        "codex: a reply that has grown keeps its id",
        "ST-9",
        f"{ENTRIES}.end_reply",
        'f"+{draft.items}"',
        '"+"',
        (f"{GROWTH}::test_a_reply_that_was_still_growing_stays_beside_the_whole_one[records1-7-9]",),
    ),
    Mutant(
        "codex: usage includes what was cached",
        "ST-9",
        "exchange/codex_items.py::usage_of",
        '_count(value["input_tokens"]) - read - written',
        '_count(value["input_tokens"])',
        (f"{SESSION}::test_usage_excludes_what_was_cached",),
    ),
    Mutant(
        "codex: usage that is sent again counts again",
        "ST-9",
        f"{ENTRIES}.take_token_count",
        "self._has_usage_records or not is_new",
        "self._has_usage_records",
        (f"{SESSION}::test_usage_is_counted_once",),
    ),
    Mutant(
        "codex: usage behind the results is not used",
        "ST-9",
        f"{ENTRIES}._give_usage",
        "self._awaiting is None or self._is_usage_first",
        "True",
        (f"{SESSION}::test_usage_after_the_results",),
    ),
    Mutant(
        "codex: usage before the items is not used",
        "ST-9",
        f"{ENTRIES}._take_early_usage",
        'self._is_usage_first and self._held and self._held[-1].line.name == "event_msg/token_count"',
        "False",
        (f"{SESSION}::test_usage_before_the_items",),
    ),
    Mutant(
        "codex: a result without a call is dropped",
        "ST-9",
        f"{ENTRIES}.take_result",
        "self.add_verbatim(line)",
        "pass",
        (f"{SESSION}::test_a_result_without_an_open_call_is_kept_verbatim",),
    ),
    Mutant(
        "codex: a display event that holds more is skipped",
        "ST-9",
        f"{TRANSCRIPT}._take_display",
        "any(value for key, value in event.items() if key not in _DISPLAY_KEYS)",
        "False",
        (f"{SESSION}::test_what_holds_more_is_kept_verbatim",),
    ),
    Mutant(
        "codex: injected context is a prompt",
        "ST-9",
        "exchange/codex_items.py::_kind_of_text",
        "tag in _CONTEXT_TAGS",
        "False",
        (f"{SESSION}::test_messages_in_order",),
    ),
    Mutant(
        "codex: a rollback drops nothing",
        "ST-9",
        f"{TRANSCRIPT}._take_rollback",
        "entries.tip = target",
        "pass",
        (f"{TREES}::test_a_rollback_branches_before_the_dropped_turns",),
    ),
    Mutant(
        "codex: a message during a turn begins one",
        "ST-9",
        f"{TRANSCRIPT}._take_message",
        "not (self._in_turn and self._turn_has_prompt)",
        "True",
        (f"{TREES}::test_a_message_during_a_turn_does_not_begin_one[2-left1]",),
    ),
    Mutant(
        "codex: ids of copied lines depend on their time",
        "ST-9",
        f"{ENTRIES}.new_id",
        "entry_id(TOOL, identity + suffix, self.origin)",
        "entry_id(TOOL, identity + suffix, self.timestamp)",
        (f"{TREES}::test_a_fork_by_copy_has_the_ids_of_its_ancestor",),
    ),
    Mutant(
        "codex: a fork has all of its base",
        "ST-9",
        "exchange/codex_lines.py::_is_behind",
        "line.ordinal >= end",
        "False",
        (f"{TREES}::test_a_fork_by_reference_begins_with_the_entries_of_its_base",),
    ),
    Mutant(
        "codex: a base that is missing is not reported",
        "ST-9",
        "exchange/codex_lines.py::_base_lines",
        'yield SkippedRecords("history_base", 0, reason)',
        "pass",
        (f"{TREES}::test_a_base_that_is_not_found_is_reported",),
    ),
    Mutant(
        "codex: the session of a sub-agent is not named",
        "ST-9",
        f"{ENTRIES}._open_call",
        "self._children.pop(written_id, None)",
        "None",
        (f"{TREES}::test_the_parent_names_the_session_of_a_sub_agent",),
    ),
    Mutant(
        "codex: the history behind a compaction is dropped",
        "ST-9",
        f"{TRANSCRIPT}._take_compaction",
        "number not in seen",
        "False",
        (f"{TREES}::test_a_compaction_with_a_history",),
    ),
    Mutant(
        "codex: reasoning without ids is not sent back",
        "ST-9, RUN-8",
        "providers/openai/responses_request.py::can_be_sent_back",
        "not _is_without_ids(content)",
        "True",
        (f"{SESSION}::test_encrypted_reasoning_goes_back_to_the_responses_api[ids1]",),
    ),
)
