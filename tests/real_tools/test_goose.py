"""ST-9 with the real Goose: it continues a session that wakelog wrote, and wakelog continues one that Goose left."""

import pytest

from tests.loopback import Call, Row, Say, Shell
from tests.real_tools.sessions import SUMMARY, continue_with_wakelog, example_rows, example_session, spoken_rows
from wakelog.exchange.files import DiskDatabase
from wakelog.exchange.goose.reader import is_goose_database, read_sessions
from wakelog.exchange.goose.writer import GO_ON, write_session
from wakelog.exchange.importing import import_session
from wakelog.exchange.sessions import ImportedEntry, session_id
from wakelog.log.content import Prompt, Reply, ToolResult
from wakelog.log.entry import Compaction, Message, Spawned
from wakelog.projections.context import build_context
from wakelog.reading import read_log
from wakelog.stores.memory import MemoryStore

pytestmark = pytest.mark.real_tools("goose")
SHELL = "shell"
LATEST = ("run", "--resume", "-t")
"""Goose gives an imported session an id of its own, and without an id it continues the latest one."""


def stored_sessions(tool):
    """Return the sessions in Goose's database, each with its entries."""
    with DiskDatabase(str(tool.data / "sessions" / "sessions.db")) as source:
        assert is_goose_database(source)
        return [
            (session, [item.body for item in session.items if isinstance(item, ImportedEntry)])
            for session in read_sessions(source)
        ]


def import_all(store, tool):
    with DiskDatabase(str(tool.data / "sessions" / "sessions.db")) as source:
        return [import_session(store, session) for session in read_sessions(source)]


def rows_of(request):
    """Return the rows of a request. Goose puts its own context before or behind the text of a prompt."""
    return [Row(row.kind, row.text.strip(), row.id) for row in spoken_rows(request)]


def texts(entries, kind):
    return [entry.message.text for entry in entries if isinstance(entry, Message) and isinstance(entry.message, kind)]


def test_goose_continues_a_written_session(server, tool):
    written = write_session(example_session(tool.project, SHELL))
    tool.place(written)
    server.play([Say("Next answer.")])
    assert "Next answer." in tool.run_with(*LATEST, "And now?").stdout
    [request] = server.turns
    expected = [Row("user", SUMMARY), Row("assistant", GO_ON), *example_rows(SHELL), Row("user", "And now?")]
    assert rows_of(request) == expected
    assert request.problems == []
    assert {loss.kind for loss in written.losses} == {"compaction", "sizes of a compaction", "stop reason of a reply"}


def test_the_command_to_resume_finds_the_written_session(server, tool):
    written = write_session(example_session(tool.project, SHELL))
    tool.place(written)
    shown = tool.run_with(*written.resume[1:]).stdout
    [(session, _)] = stored_sessions(tool)
    assert session.origin.id.partition("@")[0] in shown
    assert session.title == "An example"


def test_a_written_session_grows_in_goose_and_comes_back(server, tool):
    session = example_session(tool.project, SHELL)
    tool.place(write_session(session))
    server.play([Say("I look."), Shell("printf 'se%s' en-42")], [Say("Seen.")])
    tool.run_with(*LATEST, "Look")
    store = MemoryStore()
    [imported] = import_all(store, tool)
    nodes = [entry.value for entry in read_log(store, imported.session).tree.branch().nodes]
    assert texts(nodes, Prompt) == [*texts(session.branch, Prompt), "Look"]
    assert texts(nodes, Reply) == [*texts(session.branch, Reply), "I look.", "", "Seen."]
    assert texts(nodes, ToolResult) == [*texts(session.branch, ToolResult), "seen-42"]
    continued = continue_with_wakelog(server, store, imported, SHELL)
    rows = rows_of(continued.request)
    assert rows[0].text == SUMMARY
    assert [row.text for row in rows[1:8]] == [row.text for row in example_rows(SHELL)]
    assert [row.kind for row in rows[8:]] == ["user", "assistant", "call", "result", "assistant", "user"]
    assert continued.ran == []
    assert continued.request.problems == []


def test_a_session_of_a_killed_goose_is_continued_by_wakelog(server, tool, held_command):
    """Goose stores a call together with its result, so nothing of a call that was running is on disk."""
    server.play([Say("I begin."), Shell(held_command.text)])
    run = tool.start("Do it")
    held_command.wait_until_begun()
    run.kill()
    store = MemoryStore()
    [imported] = import_all(store, tool)
    continued = continue_with_wakelog(server, store, imported, SHELL)
    assert (continued.ran, continued.statuses) == ([], [])
    rows = rows_of(continued.request)
    assert rows == [Row("user", "Do it"), Row("user", "What happened?")]
    assert held_command.effects == ["begun"]


def test_a_session_that_goose_compacts_keeps_its_entries(server, tool):
    """LOG-8: Goose rewrites the session; importing it again adds the compaction and nothing twice."""
    server.play([Say("I look."), Shell("printf 'se%s' en-42")], [Say("Seen.")])
    tool.run("Look")
    [(_, before)] = stored_sessions(tool)
    tool.run_with(*LATEST, "/compact")
    server.play([Say("Yes.")])
    tool.run_with(*LATEST, "Still there?")
    tool.run_with(*LATEST, "/compact")
    [(_, after)] = stored_sessions(tool)
    assert [entry.id for entry in after[: len(before)]] == [entry.id for entry in before]
    assert [type(entry) for entry in after].count(Compaction) == 2
    assert texts(after, Prompt) == ["Look", "Still there?"]
    server.play([Say("Yes.")])
    tool.run_with(*LATEST, "And now?")
    store = MemoryStore()
    [imported] = import_all(store, tool)
    context = build_context(read_log(store, imported.session).tree.branch())
    goose_rows = rows_of(server.turns[-1])
    assert [message.text for message in context.messages] == [goose_rows[0].text, "And now?", "Yes."]


def test_a_sub_agent_of_goose_is_a_session_below_its_call(server, tool):
    server.play([Call("delegate", {"instructions": "Look into it"})], [Say("Found.")], [Say("It is found.")])
    tool.run("Delegate it")
    found = {session.origin.is_subagent: (session, entries) for session, entries in stored_sessions(tool)}
    child, said = found[True]
    parent, entries = found[False]
    [spawned] = [entry for entry in entries if isinstance(entry, Spawned)]
    assert spawned.child_session == session_id("goose", child.origin.id)
    assert (child.origin.parent, child.origin.parent_call) == (parent.origin.id, spawned.tool_call_id)
    assert texts(said, Reply) == ["Found."]
    assert texts(entries, ToolResult) == ["Found."]
