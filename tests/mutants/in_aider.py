"""Planted bugs in the reader and the writer of Aider."""

from tests.mutants.mutant import Mutant

READER = "tests/exchange/test_aider.py"
WRITER = "tests/exchange/test_aider_writer.py"

IN_AIDER = (
    Mutant(
        "headings in a code block of Aider are prompts",
        "ST-9",
        "exchange/aider/records.py::_Records._is_input",
        "len(self._empty) > 1",
        "True",
        (f"{READER}::test_marks_in_an_answer_are_text",),
    ),
    Mutant(
        "a code block that Aider left open swallows the rest of the chat",
        "ST-9",
        "exchange/aider/records.py::_Records._is_input",
        "len(self._empty) > 1",
        "False",
        (f"{READER}::test_a_code_block_that_is_left_open_ends_with_its_answer",),
    ),
    Mutant(
        "headings in an answer of Aider are prompts",
        "ST-9",
        "exchange/aider/records.py::_Records._is_input",
        "self._has_breaks and not line.has_break",
        "False",
        (f"{READER}::test_marks_in_an_answer_are_text",),
    ),
    Mutant(
        "sessions of Aider that began in one second are one",
        "ST-9",
        "exchange/aider/reader.py::_Chats._id",
        "f\"{run.time.replace(' ', 'T') or 'unknown'}-{digest}\"",
        "run.time",
        (f"{READER}::test_ids_of_sessions_do_not_depend_on_the_file_and_differ_for_equal_runs",),
    ),
    Mutant(
        "runs of Aider without a prompt are dropped silently",
        "ST-9",
        "exchange/aider/reader.py::_Chats._find_next",
        "self._skipped += len(run.head)",
        "pass",
        (f"{READER}::test_runs_without_a_prompt_are_counted_with_a_neighbour",),
    ),
    Mutant(
        "commands of Aider are prompts",
        "ST-9",
        "exchange/aider/entries.py::input_kind",
        "_COMMAND.match(text) and not _ASKING.match(text)",
        "False",
        (f"{READER}::test_only_what_is_sent_to_the_model_is_a_prompt",),
    ),
    Mutant(
        "Aider drops lines of a written answer that begin with a mark",
        "ST-9",
        "exchange/aider/writer.py::_Writer._reply",
        "escaped(text)",
        "text",
        (f"{WRITER}::test_a_history_of_aider_keeps_everything",),
    ),
    Mutant(
        "Aider gets what a compaction replaced",
        "ST-9",
        "exchange/aider/writer.py::_Writer._active",
        "branch[first:]",
        "branch",
        (f"{WRITER}::test_what_a_compaction_replaced_is_left_out",),
    ),
)
