"""docs/tools.md is run: its programs print what they state, and its table lists the tools of the code."""

import re
from pathlib import Path

import pytest

from tests.programs import check_printed, programs
from wakelog.tools import builtin_tools

TEXT = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
PROGRAMS = programs("tools.md")


def test_there_are_programs():
    assert len(PROGRAMS) == 4


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_prints_its_last_comment(program, tmp_path):
    check_printed(program, tmp_path)


def test_the_table_of_tools_matches_the_code(tmp_path):
    """Names, arguments, which of them are optional, and the replay words."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (\w+) \|", TEXT, re.MULTILINE)
    documented = [(name, re.findall(r"`(\w+\??)`", arguments), replay) for name, arguments, replay in rows]
    assert documented == [(made.name, arguments_of(made), made.replay) for made in builtin_tools(str(tmp_path))]


def arguments_of(made):
    required = made.schema["required"]
    return [name if name in required else f"{name}?" for name in made.schema["properties"]]
