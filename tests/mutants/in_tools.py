"""Mutants in `tools/`: effects, receipts and what becomes of a command."""

from tests.mutants.mutant import Mutant

CHANGES = "tests/tools/test_changes.py"
FILES = "tests/tools/test_files.py"
FUNCTION = "tests/tools/test_function_tool.py"
CLIP = "tests/decide/test_clip.py"
SHELL = "tests/tools/test_shell.py"

IN_TOOLS = (
    Mutant(
        "a file is changed in place",
        "RUN-6",
        "tools/changes.py",
        "        os.replace(fresh, path)\n",
        "        with open(path, 'wb') as file:\n            file.write(content[:3])\n            file.flush()\n"
        "            file.write(content[3:])\n        os.unlink(fresh)\n",
        (f"{CHANGES}::test_killed_at_every_step_a_change_happens_once",),
    ),
    Mutant(
        "a receipt is never sure",
        "RUN-6",
        "tools/changes.py",
        '    return "not begun" if now == intent.before else "cannot say"\n',
        '    return "not begun"\n',
        (f"{CHANGES}::test_a_file_answers_for_the_call",),
    ),
    Mutant(
        "a refusal is forgotten",
        "RUN-6",
        "tools/function_tool.py",
        "        if _REFUSED in call.intent:\n"
        "            return Outcome(str(call.intent[_REFUSED]), is_error=True)\n"
        "        try:\n",
        "        try:\n",
        (f"{FUNCTION}::test_what_was_refused_stays_refused",),
    ),
    Mutant(
        "a receipt that fails says that nothing happened",
        "law 6, RUN-6",
        "tools/function_tool.py",
        'return "not begun" if isinstance(answer, str) and answer == "not begun" else "cannot say"',
        'return "cannot say" if answer == "cannot say" else "not begun"',
        (f"{FUNCTION}::test_the_three_answers",),
    ),
    Mutant(
        "a tool without a word may be replayed",
        "law 6",
        "tools/function_tool.py",
        "        return FunctionTool(function, name=name, replay=replay)\n",
        '        return FunctionTool(function, name=name, replay="safe")\n',
        (f"{FUNCTION}::test_a_plain_function_becomes_a_careful_tool",),
    ),
    Mutant(
        "a node leads out of the working directory",
        "law 13",
        "tools/places.py",
        "        found = os.path.realpath(os.path.join(self.cwd, os.path.expanduser(path)))\n",
        "        found = os.path.abspath(os.path.join(self.cwd, os.path.expanduser(path)))\n",
        (f"{FILES}::test_no_way_leads_out",),
    ),
    Mutant(
        "what is left out is not counted",
        "VIEW-6",
        "decide/clip.py",
        "mark(len(whole) - len(head) - len(tail))",
        "mark(len(whole) - len(head))",
        (f"{CLIP}::test_every_byte_is_kept_or_counted",),
    ),
    Mutant(
        "a stopped command runs on",
        "RUN-12",
        "processes/command.py",
        "        self._cut_lifeline()\n        await self._gone.wait()\n",
        "        return\n",
        (f"{SHELL}::test_cancelling_ends_the_group_before_it_returns",),
    ),
)
