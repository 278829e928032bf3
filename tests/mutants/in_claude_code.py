"""Planted bugs in the reader and the writer of Claude Code's sessions."""

from tests.mutants.mutant import Mutant

MESSAGES = "tests/exchange/test_claude_code.py"
TREE = "tests/exchange/test_claude_code_tree.py"
GROWTH = "tests/exchange/test_claude_code_properties.py"
WRITER = "tests/exchange/test_claude_code_writer.py"
ROUND_TRIP = "tests/exchange/test_claude_code_round_trip.py"

IN_CLAUDE_CODE = (
    Mutant(
        "each line of a message is a reply",
        "ST-9",
        "exchange/claude_code/plan.py::MessageEnds.add",
        "self.ends[self._first] = record.offset",
        "pass",
        (f"{MESSAGES}::test_a_reply_precedes_results_that_stand_between_its_lines",),
    ),
    Mutant(
        "the usage of a message is counted for every reply",
        "ST-9",
        "exchange/claude_code/records.py::MessageUsage.new_usage",
        "hash(message_id) not in self._counted",
        "True",
        (
            f"{MESSAGES}::test_the_usage_of_a_message_that_occurs_again_is_counted_once",
            f"{GROWTH}::test_after_every_record",
        ),
    ),
    Mutant(
        "a reply that was imported before it was complete is imported again",
        "ST-9",
        "exchange/claude_code/entries.py::Conversation._is_known",
        "is_known is not None and is_known(self._draft_id(draft))",
        "False",
        (f"{GROWTH}::test_after_every_record",),
    ),
    Mutant(
        "a rewind is not a branch",
        "ST-9",
        "exchange/claude_code/entries.py::Conversation._target",
        "self._tree.current if found is None else found",
        "self._tree.current",
        (f"{TREE}::test_a_rewind_is_a_branch",),
    ),
    Mutant(
        "a rewind behind a hook is not a branch",
        "ST-9",
        "exchange/claude_code/entries.py::Conversation._verbatim",
        "self._tree.current if parent is None else parent",
        "self._tree.current",
        (f"{TREE}::test_a_rewind_behind_a_record_that_is_no_message",),
    ),
    Mutant(
        "a late result moves to another branch",
        "ST-9",
        "exchange/claude_code/entries.py::Conversation._result_place",
        "return opened.generation",
        "return self._tree.current",
        (f"{TREE}::test_a_late_result_goes_to_the_branch_of_its_call",),
    ),
    Mutant(
        "different records with one uuid are dropped",
        "ST-9",
        "exchange/claude_code/entries.py::Conversation._key",
        "not self._tree.has_same(uuid, self._fingerprint_of(record.value))",
        "False",
        (f"{MESSAGES}::test_records_with_equal_uuids_and_different_content_are_all_kept",),
    ),
    Mutant(
        "an injected text is a prompt",
        "ST-9",
        "exchange/claude_code/content.py::user_kind",
        '"meta" if is_meta else "prompt"',
        '"prompt"',
        (f"{MESSAGES}::test_a_prompt_is_always_the_turn_of_a_person",),
    ),
    Mutant(
        "the path of a spilled output may leave its folder",
        "law 13",
        "exchange/claude_code/content.py::spilled_name",
        "name if _FILE_NAME.fullmatch(name) else None",
        "path",
        (f"{MESSAGES}::test_a_spilled_output_is_never_read_from_elsewhere",),
    ),
    Mutant(
        "a compaction keeps nothing of what it names",
        "ST-9",
        "exchange/claude_code/entries.py::Conversation._put",
        "isinstance(uuid, str) and uuid in self._around.kept_heads",
        "False",
        (f"{TREE}::test_a_kept_result_is_kept_with_its_call",),
    ),
    Mutant(
        "the tool continues another branch than the active one",
        "ST-9",
        "exchange/claude_code/runs.py::_with_head_last",
        "sorted(runs, key=lambda run: run.leads_to_head)",
        "runs",
        (f"{WRITER}::test_a_rewind_is_a_second_child_and_the_active_branch_is_last",),
    ),
    Mutant(
        "the tool continues behind the head",
        "ST-9",
        "exchange/claude_code/runs.py::Runs._ends",
        "not children or at == self._head",
        "not children",
        (
            f"{WRITER}::test_the_end_of_the_session_is_a_leaf",
            f"{ROUND_TRIP}::test_branches_may_begin_anywhere",
        ),
    ),
    Mutant(
        "a written boundary does not name what is kept",
        "ST-9",
        "exchange/claude_code/writer.py::_SessionWriter._kept_nodes",
        "return found",
        "return set()",
        (
            f"{WRITER}::test_a_compaction_is_a_boundary_that_names_what_is_kept",
            f"{ROUND_TRIP}::test_a_session_is_read_as_it_was_written",
        ),
    ),
    Mutant(
        "a written boundary has a parent, so the tool sends what was summarised",
        "ST-9",
        "exchange/claude_code/writer.py::_SessionWriter._write_chained",
        "None if is_boundary else before",
        "before",
        (f"{WRITER}::test_a_compaction_is_a_boundary_that_names_what_is_kept",),
    ),
    Mutant(
        "a copy of a reply has its usage again",
        "ST-9",
        "exchange/claude_code/writer.py::_SessionWriter._reply_records",
        'name != "usage" or copy == 0',
        "True",
        (f"{WRITER}::test_a_tool_that_ran_again_has_its_reply_once_more",),
    ),
    Mutant(
        "two written calls have one id",
        "ST-9",
        "exchange/claude_code/writer.py::_SessionWriter._all_call_ids",
        "call.id not in taken and _CALL_ID.fullmatch(call.id) is not None",
        "True",
        (f"{WRITER}::test_ids_of_calls_are_unique_and_of_the_alphabet_of_the_api",),
    ),
    Mutant(
        "reasoning of another provider is written",
        "ST-9",
        "exchange/claude_code/blocks.py::_reasoning",
        "is_own and part.signature",
        "part.signature",
        (f"{WRITER}::test_a_blank_summary_and_foreign_reasoning_do_not_reach_the_tool",),
    ),
    Mutant(
        "what another provider needs is left out without a word",
        "ST-9",
        "exchange/claude_code/blocks.py::_reasoning",
        'losses.add("reply", f"reasoning that {reason} is left out: the API refuses it")',
        "pass",
        (f"{WRITER}::test_what_is_left_out_or_changed_is_counted",),
    ),
    Mutant(
        "the boundary of another branch hides the active one",
        "ST-9",
        "exchange/claude_code/writer.py::_SessionWriter._compaction_records",
        "not run.leads_to_head",
        "False",
        (f"{WRITER}::test_a_compaction_on_another_branch_has_no_boundary",),
    ),
)
