"""Planted bugs in `tools/`: effects, receipts and running commands."""

from tests.mutants.mutant import Mutant

CHANGES = "tests/tools/test_file_changes.py"
FILES = "tests/tools/test_files.py"
FUNCTION = "tests/tools/test_function_tool.py"
CLIP = "tests/decide/test_clipping.py"
SHELL = "tests/tools/test_commands_shell.py"

IN_TOOLS = (
    Mutant(
        "a file is changed in place",
        "RUN-6",
        "tools/file_changes.py::_replace_file",
        "os.replace(temporary, path)",
        (
            'with open(path, "wb") as file:\n'
            "    file.write(content[:3])\n"
            "    file.flush()\n"
            "    file.write(content[3:])\n"
            "os.unlink(temporary)"
        ),
        (f"{CHANGES}::test_killed_at_every_step_a_change_happens_once",),
    ),
    Mutant(
        "the receipt of a file that another program changed is `not begun`",
        "RUN-6",
        "tools/file_changes.py::_receipt",
        '"not begun" if now == intent.before else "cannot say"',
        '"not begun"',
        (f"{CHANGES}::test_the_receipt_compares_the_file_with_both_digests",),
    ),
    Mutant(
        "a refusal is forgotten",
        "RUN-6",
        "tools/function_tool.py::FunctionTool.run",
        "if _REFUSED in call.intent: ...",
        "",
        (f"{FUNCTION}::test_a_refusal_in_prepare_is_kept",),
    ),
    Mutant(
        "a failing receipt counts as not started",
        "law 6, RUN-6",
        "tools/function_tool.py::FunctionTool._answer",
        '"not begun" if isinstance(answer, str) and answer == "not begun" else "cannot say"',
        '"cannot say" if answer == "cannot say" else "not begun"',
        (f"{FUNCTION}::test_the_three_answers_of_a_receipt",),
    ),
    Mutant(
        "a tool without a replay word may run again",
        "law 6",
        "tools/function_tool.py::tool",
        "FunctionTool(function, name=name, replay=replay)",
        'FunctionTool(function, name=name, replay="safe")',
        (f"{FUNCTION}::test_the_default_replay_word_is_never",),
    ),
    Mutant(
        "a link leads out of the working directory",
        "law 13",
        "tools/files.py::WorkingDirectory.resolve",
        "real_path = os.path.realpath(...)",
        "real_path = os.path.abspath(...)",
        (f"{FILES}::test_paths_outside_of_the_working_folder_are_refused",),
    ),
    Mutant(
        "omitted output is not counted",
        "VIEW-6",
        "decide/wording.py::clip",
        "len(whole) - len(head) - len(tail)",
        "len(whole) - len(head)",
        (f"{CLIP}::test_every_byte_is_kept_or_counted",),
    ),
    Mutant(
        "a stopped command is not killed",
        "RUN-12",
        "processes/command.py::_RunningCommand.end",
        "self._close_lifeline()\nawait self._gone.wait()",
        "return",
        (f"{SHELL}::test_cancelling_ends_the_group_before_it_returns",),
    ),
)
