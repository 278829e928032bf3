"""Planted bugs in the reader of Claude Code's sessions."""

from tests.mutants.mutant import Mutant

MESSAGES = "tests/exchange/test_claude_code.py"
TREE = "tests/exchange/test_claude_code_tree.py"
GROWTH = "tests/exchange/test_claude_code_properties.py"

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
        "exchange/claude_code/entries.py::Conversation._result_entries",
        "self._tree.current if on_branch else opened.generation",
        "self._tree.current",
        (f"{TREE}::test_a_late_result_goes_to_the_branch_of_its_call",),
    ),
    Mutant(
        "different records with one uuid are dropped",
        "ST-9",
        "exchange/claude_code/entries.py::Conversation._key",
        "not self._tree.has_same(uuid, fingerprint_of(record.value))",
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
)
