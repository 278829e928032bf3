"""ST-9 with the real efferent: a session that it left while a sub-agent ran a command is continued by wakelog."""

import pytest

from tests.loopback import Row, Say
from tests.real_tools.sessions import continue_with_wakelog, import_sessions, spoken_rows
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore

pytestmark = pytest.mark.real_tools("efferent")
SHELL = "Bash"


def main_session(found):
    """Return the session of the main agent."""
    [main] = [imported for imported in found if not imported.origin.is_subagent]
    return main


def test_a_session_of_efferent_is_imported_and_grows(server, tool):
    """LOG-8: the second import adds the second turn, below the first; the sub-agent is a session of its own."""
    server.play(*tool.pinned.run_command("I look.", "printf 'se%s' en-42"))
    tool.run("Look")
    store = MemoryStore()
    first = import_sessions(store, tool)
    [child] = [imported for imported in first if imported.origin.is_subagent]
    assert child.origin.parent == main_session(first).origin.id
    said = [row.text for row in Session(store, child.session).transcript()]
    assert any("seen-42" in text for text in said)
    server.play([Say("Yes.")])
    tool.run("Still there?", tool.session)
    again = main_session(import_sessions(store, tool))
    rows = [(row.kind, row.text) for row in Session(store, again.session).transcript() if row.text]
    assert again.session == main_session(first).session
    assert rows[0] == ("prompt", "Look")
    assert rows[-2:] == [("prompt", "Still there?"), ("reply", "Yes.")]


def test_a_session_of_a_killed_efferent_is_continued_by_wakelog(server, tool, held_command):
    """efferent stores a call together with its result, so the running command is not in its database."""
    server.play(*tool.pinned.run_command("I begin.", held_command.text))
    run = tool.start("Do it")
    held_command.wait_until_begun()
    run.kill()
    store = MemoryStore()
    imported = main_session(import_sessions(store, tool))
    continued = continue_with_wakelog(server, store, imported, SHELL)
    assert continued.ran == []
    rows = spoken_rows(continued.request)
    assert rows[0] == Row("user", "Do it")
    assert rows[-1].text == "What happened?"
    assert continued.request.problems == []
    assert held_command.effects == ["begun"]
