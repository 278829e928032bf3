"""Each real tool answers, runs its shell tool and continues its own session: what all other tests here rely on."""

import pytest

from tests.loopback import Say
from tests.real_tools.pinned import PINNED

TOOLS = [pytest.param(name, marks=pytest.mark.real_tools(name)) for name in PINNED]


@pytest.mark.parametrize("name", TOOLS)
def test_it_answers_and_runs_a_command(name, pinned, server, tool):
    if pinned.has_tools:
        server.play(*pinned.run_command("I look.", "printf 'se%s' en-42"))
    server.play([Say("The answer is here.")])
    assert "The answer is here." in tool.run("Where is it?").stdout
    rows = server.turns[-1].conversation
    [asked] = [number for number, row in enumerate(rows) if row.kind == "user" and "Where is it?" in row.text]
    if pinned.has_tools:
        kinds = [row for row in rows[asked + 1 :] if row.kind != "user"]
        assert [row.kind for row in kinds][:3] == ["assistant", "call", "result"]
        assert kinds[0].text == "I look."
        results = [row.text for turn in server.turns for row in turn.rows if row.kind == "result"]
        assert any("seen-42" in text for text in results)
        assert server.turns[-1].problems == []


@pytest.mark.parametrize("name", TOOLS)
def test_it_has_the_pinned_version(name, pinned, tool):
    """The versions in the documents are those that the tools report."""
    ended = tool.run_with("--version")
    assert pinned.version in f"{ended.stdout}{ended.stderr}"
