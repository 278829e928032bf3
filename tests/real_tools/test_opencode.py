"""ST-9 with the real OpenCode: it resumes a session that wakelog wrote, and wakelog continues one that it left."""

import pytest

from tests.loopback import Row, Say, Shell
from tests.real_tools.pinned import MODEL
from tests.real_tools.sessions import (
    SUMMARY,
    continue_with_wakelog,
    example_rows,
    example_session,
    import_sessions,
    spoken_rows,
)
from wakelog.exchange.exporting import session_to_write
from wakelog.exchange.handoff import plan_handoff
from wakelog.exchange.opencode.writer import write_session
from wakelog.log.content import AnyMessage, Image, Note, Prompt, Reply, Text, Thinking, ToolCall, ToolResult
from wakelog.log.entry import Cancelled, Failed, FaultReport, Message
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore

pytestmark = pytest.mark.real_tools("opencode")

PROVIDER = "scripted"
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
# OpenCode puts a prompt with blanks from its command line into quotes.
_NEXT = Row("user", '"And now?"')


def resumed(tool, server, written):
    """Load a session, resume it with the model of the test, and return the conversation that OpenCode sent."""
    tool.place(written)
    server.play([Say("It goes on.")])
    ended = tool.run_with("run", "--model", f"{PROVIDER}/{MODEL}", "--session", written.id, "And now?")
    assert "It goes on." in ended.stdout
    request = server.turns[-1]
    assert request.problems == []
    return spoken_rows(request)


def test_opencode_resumes_a_written_session(server, tool):
    """The summary, the kept messages and the later ones are in the request, in order, with the call and its result."""
    written = write_session(example_session(tool.project))
    assert [loss.kind for loss in written.losses] == ["compaction"]
    asked, summary, *rows = resumed(tool, server, written)
    # OpenCode tells the model of a compaction as of a question and its answer.
    assert (asked.kind, summary) == ("user", Row("assistant", SUMMARY))
    assert rows == [*example_rows(), _NEXT]
    # A session with a title gets no other one.
    assert all(not request.is_side for request in server.requests)


def test_the_printed_command_continues_a_session_whose_model_opencode_does_not_have(server, tool):
    """Without another model OpenCode ends with an error that names no reason."""
    session = example_session(tool.project)
    environ = {**tool.environment, "PATH": f"{tool.program_folder}:{tool.environment['PATH']}"}
    asked = plan_handoff(session, write_session(session), environ)
    assert asked.warnings == (f"opencode has no model anthropic/claude-x: it has {PROVIDER}/{MODEL}",)
    assert asked.resume[-2:] == ("--model", "PROVIDER/MODEL")
    plan = plan_handoff(session, write_session(session), environ, model=f"{PROVIDER}/{MODEL}")
    tool.place(plan.written)
    server.play([Say("It goes on.")])
    assert tool.start_with(("run", *plan.written.resume[1:], "And now?")).wait().code != 0
    assert "It goes on." in tool.run_with("run", *plan.resume[1:], "And now?").stdout


def test_the_printed_command_continues_a_session_whose_model_opencode_has(server, tool):
    session = Session.create(MemoryStore(), agent="crab", cwd=str(tool.project), model=MODEL, provider=PROVIDER)
    session.append(Message(message=Prompt(content="one")))
    session.append(Message(message=Reply(content="two", model=MODEL, provider=PROVIDER, stop_reason="stop")))
    source = session_to_write(session.store, session.name)
    environ = {**tool.environment, "PATH": f"{tool.program_folder}:{tool.environment['PATH']}"}
    plan = plan_handoff(source, write_session(source), environ)
    assert (plan.warnings, plan.model) == ((), "")
    tool.place(plan.written)
    server.play([Say("It goes on.")])
    assert "It goes on." in tool.run_with("run", *plan.resume[1:], "And now?").stdout


def test_a_written_session_grows_in_opencode_and_comes_back(server, tool):
    """What OpenCode appends is imported behind the messages that wakelog wrote."""
    resumed(tool, server, write_session(example_session(tool.project)))
    store = MemoryStore()
    [imported] = import_sessions(store, tool)
    continued = continue_with_wakelog(server, store, imported, "bash")
    summary, *rows = spoken_rows(continued.request)
    assert summary == Row("user", SUMMARY)
    assert rows[:7] == example_rows()
    assert rows[7:] == [_NEXT, Row("assistant", "It goes on."), Row("user", "What happened?")]


def test_opencode_resumes_everything_else(server, tool):
    """Reasoning, parallel calls, notes, failures, an open call, and messages below the head, which OpenCode hides."""
    session = Session.create(MemoryStore(), agent="crab", cwd=str(tool.project), model=MODEL, provider=PROVIDER)

    def add(message: AnyMessage) -> str:
        return session.append(Message(message=message)).id

    def reply(*parts, stop):
        return add(Reply(content=parts, model=MODEL, provider=PROVIDER, stop_reason=stop))

    add(Prompt(content=(Text(text="look at it"), Image(mime_type="image/png", data=_PIXEL))))
    calls = [ToolCall(id=f"call_{n}", name="shell", input={"n": n}) for n in (1, 2)]
    asking = reply(Thinking(thinking="Two at once."), *calls, stop="tools")
    add(ToolResult(tool_call_id="call_2", reply_id=asking, status="error", is_error=True, content="it failed"))
    add(Prompt(content="while it runs"))
    add(ToolResult(tool_call_id="call_1", reply_id=asking, status="ok", content="it worked"))
    add(Note(content="a note", custom_type="memory"))
    session.append(Failed(reason="retries", error=FaultReport(kind="overloaded", message="busy", retryable=True)))
    session.append(Cancelled(reason="user", content="half a sent"))
    add(Prompt(content="third prompt"))
    head = reply(Text(text="I wait."), ToolCall(id="call_3", name="shell", input={}), stop="tools")
    add(Prompt(content="hidden prompt"))
    reply(Text(text="hidden answer"), stop="stop")
    session.move_head(head)
    rows = resumed(tool, server, write_session(session_to_write(session.store, session.name)))
    # OpenCode tells a model that is not known to read images that it cannot.
    assert rows.pop(1).text.startswith("ERROR: Cannot read image")
    assert rows == [
        Row("user", "look at it"),
        Row("thinking", "Two at once."),
        Row("call", 'shell {"n": 1}', "call_1"),
        Row("call", 'shell {"n": 2}', "call_2"),
        Row("result", "it worked", "call_1"),
        Row("result", "it failed", "call_2"),
        Row("user", "while it runs"),
        Row("user", "a note"),
        Row("assistant", "half a sent"),
        Row("user", "third prompt"),
        Row("assistant", "I wait."),
        Row("call", "shell {}", "call_3"),
        Row("result", "[Tool execution was interrupted]", "call_3"),
        _NEXT,
    ]


def test_a_session_of_a_killed_opencode_is_continued_by_wakelog_and_handed_back(server, tool, held_command):
    """Law 6: the call was started in OpenCode, so wakelog does not run it; the model is told that it is unknown."""
    server.play([Say("I begin."), Shell(held_command.text)])
    run = tool.start("Begin")
    held_command.wait_until_begun()
    run.kill()
    store = MemoryStore()
    [imported] = import_sessions(store, tool)
    continued = continue_with_wakelog(server, store, imported, "bash")
    assert (continued.ran, continued.statuses) == ([], ["unknown"])
    rows = spoken_rows(continued.request)
    assert [row.kind for row in rows] == ["user", "assistant", "call", "result", "assistant", "user"]
    assert (rows[0].text, rows[1].text, rows[5].text) == ("Begin", "I begin.", "What happened?")
    assert "unknown" in rows[3].text
    assert continued.request.problems == []
    assert held_command.effects == ["begun"]
    # OpenCode still has the session as it left it; the continued one is another one there.
    again = resumed(tool, server, write_session(session_to_write(store, continued.session.name)))
    assert [(row.kind, row.text) for row in again[:6]] == [(row.kind, row.text) for row in rows]
    assert [row.kind for row in again[6:]] == ["assistant", "user"]
    assert len(import_sessions(store, tool)) == 2
