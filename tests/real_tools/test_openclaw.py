"""ST-9 with the real OpenClaw: sessions that it wrote are imported, and one that it left in mid-tool is continued."""

import pytest

from tests.loopback import Say, Shell
from tests.real_tools.sessions import continue_with_wakelog, import_sessions, spoken_rows
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore

pytestmark = pytest.mark.real_tools("openclaw")
SHELL = "exec"


def kinds_and_texts(store, imported):
    """Return the rows of an imported session: its kinds, and the last line of each text."""
    return [(row.kind, row.text.split("\n")[-1]) for row in Session(store, imported.session).transcript() if row.text]


def test_a_session_of_openclaw_is_imported_and_grows(server, tool):
    """LOG-8: the second import adds the second turn, below the first."""
    server.play([Say("I look."), Shell("printf 'se%s' en-42")], [Say("Seen.")])
    tool.run("Look")
    store = MemoryStore()
    [first] = import_sessions(store, tool)
    before = kinds_and_texts(store, first)
    server.play([Say("Yes.")])
    tool.run("Still there?", tool.session)
    [second] = import_sessions(store, tool)
    after = kinds_and_texts(store, second)
    assert (second.session, second.is_new) == (first.session, False)
    assert [text for _, text in before if "seen-42" in text]
    assert after[: len(before)] == before
    assert [text for kind, text in after[len(before) :] if kind == "reply"] == ["Yes."]
    assert second.account.fidelity > 0.9


def test_a_session_of_a_killed_openclaw_is_continued_by_wakelog(server, tool, held_command):
    """Law 6: the call was started in OpenClaw, so wakelog does not run it and says that its outcome is unknown."""
    server.play([Say("I begin."), Shell(held_command.text)])
    run = tool.start("Do it")
    held_command.wait_until_begun()
    run.kill()
    store = MemoryStore()
    [imported] = import_sessions(store, tool)
    continued = continue_with_wakelog(server, store, imported, SHELL)
    assert (continued.ran, continued.statuses) == ([], ["unknown"])
    rows = spoken_rows(continued.request)
    assert [row.kind for row in rows] == ["user", "assistant", "call", "result", "assistant", "user"]
    assert "Do it" in rows[0].text
    assert "unknown" in rows[3].text
    assert continued.request.problems == []
