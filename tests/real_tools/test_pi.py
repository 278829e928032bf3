"""ST-9 with the real pi: it continues a session that wakelog wrote, and wakelog continues one that pi left."""

import pytest

from tests.loopback import Row, Say, Shell
from tests.real_tools.sessions import (
    SUMMARY,
    continue_with_wakelog,
    example_rows,
    example_session,
    import_sessions,
    spoken_rows,
)
from wakelog.exchange.exporting import session_to_write
from wakelog.exchange.pi.writer import write_session
from wakelog.log.content import Prompt, Reply, Text, ToolCall
from wakelog.log.entry import Message
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore

pytestmark = pytest.mark.real_tools("pi")


@pytest.mark.parametrize("by", ["id", "path"])
def test_pi_continues_a_written_session(by, server, tool):
    written = write_session(example_session(tool.project))
    [path] = tool.place(written)
    server.play([Say("Next answer.")])
    ended = tool.run("And now?", written.id if by == "id" else written.resume[-1].replace("{file}", str(path)))
    assert "Next answer." in ended.stdout
    [request] = server.turns
    summary, *rows = spoken_rows(request)
    assert (summary.kind, SUMMARY in summary.text) == ("user", True)
    assert rows == [*example_rows(), Row("user", "And now?")]
    assert request.problems == []


def test_pi_continues_at_the_head_of_a_tree(server, tool):
    """The head is on an older branch and has an open call; pi tells the model that there is no result."""
    session = Session.create(MemoryStore(), agent="crab", cwd=str(tool.project))
    first = session.append(Message(message=Prompt(content="Begin")))
    call = ToolCall(id="toolu_01", name="bash", input={"command": "ls"})
    head = session.append(Message(message=Reply(content=(Text(text="Older."), call), stop_reason="tools")))
    session.move_head(first)
    session.append(Message(message=Reply(content="Newer.")))
    session.move_head(head)
    written = write_session(session_to_write(session.store, session.name))
    tool.place(written)
    tool.run("And now?", written.id)
    rows = spoken_rows(server.turns[-1])
    assert [row.text for row in rows] == [
        *("Begin", "Older.", 'bash {"command": "ls"}', "No result provided", "And now?")
    ]
    assert server.turns[-1].problems == []


def test_a_written_session_grows_in_pi_and_comes_back(server, tool):
    """What pi appends goes below the head of the written session, and is imported with it."""
    written = write_session(example_session(tool.project))
    tool.place(written)
    server.play([Say("I look."), Shell("printf 'se%s' en-42")], [Say("Seen.")])
    tool.run("Look", written.id)
    store = MemoryStore()
    [imported] = import_sessions(store, tool)
    continued = continue_with_wakelog(server, store, imported, "bash")
    _, *rows = spoken_rows(continued.request)
    assert [row.text for row in rows[:7]] == [row.text for row in example_rows()]
    assert [row.kind for row in rows[7:]] == ["user", "assistant", "call", "result", "assistant", "user"]
    assert (rows[7].text, rows[10].text, rows[-1].text) == ("Look", "seen-42", "What happened?")


def test_a_session_of_a_killed_pi_is_continued_by_wakelog(server, tool, held_command):
    """Law 6: the call was started in pi, so wakelog does not run it and tells the model that its outcome is unknown."""
    server.play([Say("I begin."), Shell(held_command.text)])
    run = tool.start("Do it")
    held_command.wait_until_begun()
    run.kill()
    store = MemoryStore()
    [imported] = import_sessions(store, tool)
    continued = continue_with_wakelog(server, store, imported, "bash")
    assert (continued.ran, continued.statuses) == ([], ["unknown"])
    rows = spoken_rows(continued.request)
    assert [row.kind for row in rows] == ["user", "assistant", "call", "result", "assistant", "user"]
    assert (rows[0].text, rows[1].text, rows[5].text) == ("Do it", "I begin.", "What happened?")
    assert "unknown" in rows[3].text
    assert continued.request.problems == []
    assert held_command.effects == ["begun"]
