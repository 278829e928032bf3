"""Each real tool answers, runs its shell tool and continues its own session: what all other tests here rely on."""

import pytest

from tests.loopback import Say, Shell
from tests.real_tools.pinned import PINNED

TOOLS = [pytest.param(name, marks=pytest.mark.real_tools(name)) for name in PINNED]


@pytest.mark.parametrize("name", TOOLS)
def test_it_answers_and_runs_a_command(name, pinned, server, tool):
    if pinned.has_tools:
        server.play([Say("I look."), Shell("printf 'se%s' en-42")])
    server.play([Say("The answer is here.")])
    assert "The answer is here." in tool.run("Where is it?").stdout
    kinds = [row for row in server.turns[-1].conversation if "Where is it?" in row.text or row.kind != "user"]
    assert kinds[0].kind == "user"
    if pinned.has_tools:
        assert [row.kind for row in kinds[1:]] == ["assistant", "call", "result"]
        assert kinds[1].text == "I look."
        assert "seen-42" in kinds[3].text
        assert server.turns[-1].problems == []
