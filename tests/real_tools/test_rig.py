"""The rig of the tests with real tools, without a tool: commands that are held, killed processes, the document."""

import datetime as dt
import os
import sys

import pytest

from tests.loopback import ModelRequest, Row
from tests.real_tools.crash_comparison import Crash, stored, write
from tests.real_tools.options import chosen_tools
from tests.real_tools.pinned import PINNED, PinnedTool
from tests.real_tools.running import RealTool, Run
from tests.real_tools.sessions import spoken_rows

DAY = dt.date(2026, 11, 17)


class Program(PinnedTool):
    """A module of Python that stands for a tool."""

    name, title, version, module = "program", "Program", "1", "timeit"

    def arguments(self, prompt, session):
        return ["-n", "1", f"print('asked {prompt}')"]


def test_a_held_command_ends_when_it_is_let_go(held_command, tmp_path):
    run = Run(["sh", "-c", held_command.text], tmp_path, {"PATH": os.environ["PATH"]}, tmp_path / "run")
    held_command.wait_until_begun()
    assert (held_command.effects, held_command.is_running) == (["begun"], True)
    held_command.finish()
    assert run.wait().code == 0
    assert (held_command.effects, held_command.is_running) == (["begun", "finished"], False)


def test_a_killed_run_takes_its_group_with_it(held_command, tmp_path):
    code = f"import subprocess; subprocess.run(['sh', '-c', {held_command.text!r}])"
    run = Run([sys.executable, "-c", code], tmp_path, {"PATH": os.environ["PATH"]}, tmp_path / "run")
    held_command.wait_until_begun()
    run.kill()
    assert run.wait().code == -9
    assert held_command.effects == ["begun"]


def test_a_tool_has_a_home_and_an_environment_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a real key")
    tool = RealTool(Program(), tmp_path / "t", "http://127.0.0.1:1")
    assert "asked Hi" in tool.run("Hi").stdout
    assert set(tool.environment) == {"HOME", "PATH", "LANG", "TERM", "TZ"}
    (tool.home / "session.jsonl").write_text("kept-1")
    (tool.home / "x.log").write_text("kept-2")
    assert stored(tool, {"one": "kept-1", "two": "kept-2"}) == ("one",)
    with pytest.raises(AssertionError, match="ended with 2"):
        tool.run_with("--no-such-option")


def test_tools_are_chosen_by_name():
    assert chosen_tools("all") == list(PINNED)
    assert chosen_tools("pi gemini") == ["pi", "gemini"]
    with pytest.raises(pytest.UsageError, match="no tool is called 'nano'"):
        chosen_tools("pi,nano")


def test_context_that_tools_add_is_not_spoken():
    rows = (Row("system", "Be"), Row("user", "<system-reminder>x"), Row("user", "Hi"))
    request = ModelRequest("anthropic", "m", is_streamed=True, is_side=False, rows=rows, tools=(), body={})
    assert spoken_rows(request) == [Row("user", "Hi")]


def crash(tool, place, **fields):
    return Crash(tool=tool, place=place, **{"on_disk": ("prompt",), "has_session": True, **fields})


def test_the_document_keeps_agents_that_were_not_run(tmp_path):
    path = tmp_path / "c.md"
    told = (("user", "Do the thing 7301"), ("call", "bash | x"), ("result", "gone"))
    write([crash("pi", "tool", told=told, child="goes on to its end"), crash("pi", "stream")], DAY, path)
    first = path.read_text()
    assert (
        "| pi | 0.87.1 | the call, with the result “gone” | no | goes on to its end | no | no | no | 2026-11-17 |"
        in first
    )
    write([crash("wakelog", "stream", on_disk=("prompt", "text"), told=told)], DAY, path)
    both = path.read_text()
    assert both.index("| wakelog |") < both.index("| pi |") < both.index("## wakelog") < both.index("## pi 0.87.1")
    assert first[first.index("## pi") :] == both[both.index("## pi") :]
    write([crash("pi", "tool", has_session=False)], dt.date(2026, 12, 1), path)
    third = path.read_text()
    assert third.count("## pi") == 1
    assert "| pi | 0.87.1 | nothing: there is no session | no |  | – | – | – | 2026-12-01 |" in third
    assert "## wakelog" in third
