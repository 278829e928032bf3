"""ST-9: the real OpenCode resumes what wakelog writes, and wakelog continues what a killed OpenCode leaves."""

import pytest

from tests.loopback import Row, Say, Shell
from tests.real_tools.pinned import MODEL
from wakelog import Agent, Session
from wakelog.exchange.detection import detect
from wakelog.exchange.exporting import session_to_write, write_session
from wakelog.exchange.importing import import_session
from wakelog.log.content import Image, Note, Prompt, Reply, Text, Thinking, ToolCall, ToolResult
from wakelog.log.entry import Cancelled, Compaction, Failed, FaultReport, Message
from wakelog.stores.memory import MemoryStore

pytestmark = pytest.mark.real_tools("opencode")

PROVIDER = "scripted"
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
# OpenCode puts a prompt with blanks from its command line into quotes.
_NEXT = Row("user", '"And now?"')


class _Conversation:
    """A session of wakelog in a store of its own."""

    def __init__(self, title: str | None = None) -> None:
        self.store = MemoryStore()
        self.session = Session.create(
            self.store, agent="crab", cwd="/project", title=title, model=MODEL, provider=PROVIDER
        )

    def add(self, message):
        return self.session.append(Message(message=message))

    def reply(self, *parts, stop="stop"):
        return self.add(Reply(content=parts, model=MODEL, provider=PROVIDER, stop_reason=stop))

    def result(self, reply, call_id, *parts, status="ok"):
        result = ToolResult(
            tool_call_id=call_id,
            tool_name="shell",
            reply_id=reply.id,
            status=status,
            is_error=status != "ok",
            content=parts,
        )
        return self.add(result)

    def written(self):
        return write_session(session_to_write(self.store, self.session.name), "opencode")


def _resumed(tool, server, written):
    """Load a session, resume it, and return the conversation that OpenCode sent."""
    tool.place(written)
    server.play([Say("It goes on.")])
    assert "It goes on." in tool.run("And now?", written.id).stdout
    (request,) = server.turns
    assert request.problems == []
    return request.conversation


def test_it_resumes_a_session_with_a_call_and_a_compaction(tool, server):
    """The request has the summary, the kept messages and the later ones, in order, with the call and its result."""
    made = _Conversation("A title")
    made.add(Prompt(content="forgotten prompt"))
    made.reply(Text(text="forgotten answer"))
    kept = made.add(Prompt(content="kept prompt"))
    asking = made.reply(
        Text(text="I look."), ToolCall(id="call_1", name="shell", input={"command": "ls"}), stop="tools"
    )
    made.result(asking, "call_1", Text(text="a.txt"))
    made.reply(Text(text="One file."))
    made.session.append(Compaction(summary="What was before.", first_kept_entry_id=kept.id, trigger="manual"))
    made.add(Prompt(content="later prompt"))
    made.reply(Text(text="later answer"))
    written = made.written()
    assert written.losses == ()
    assert _resumed(tool, server, written) == [
        # The two rows in which OpenCode tells the model of a compaction.
        Row("user", "What did we do so far?"),
        Row("assistant", "What was before."),
        Row("user", "kept prompt"),
        Row("assistant", "I look."),
        Row("call", 'shell {"command": "ls"}', "call_1"),
        Row("result", "a.txt", "call_1"),
        Row("assistant", "One file."),
        Row("user", "later prompt"),
        Row("assistant", "later answer"),
        _NEXT,
    ]
    # A session with a title gets no other one.
    assert all(not request.is_side for request in server.requests)


def test_it_resumes_a_session_with_everything_else(tool, server):
    """Reasoning, parallel calls, notes, failures, an open call, and messages below the head, which OpenCode hides."""
    made = _Conversation()
    made.add(Prompt(content=(Text(text="look at it"), Image(mime_type="image/png", data=_PIXEL))))
    calls = [ToolCall(id=f"call_{n}", name="shell", input={"n": n}) for n in (1, 2)]
    asking = made.reply(Thinking(thinking="Two at once."), *calls, stop="tools")
    made.result(asking, "call_2", Text(text="it failed"), status="error")
    made.add(Prompt(content="while it runs"))
    made.result(asking, "call_1", Text(text="it worked"))
    made.add(Note(content="a note", custom_type="memory"))
    made.session.append(Failed(reason="retries", error=FaultReport(kind="overloaded", message="busy", retryable=True)))
    made.session.append(Cancelled(reason="user", content="half a sent"))
    made.add(Prompt(content="third prompt"))
    head = made.reply(Text(text="I wait."), ToolCall(id="call_3", name="shell", input={}), stop="tools")
    made.add(Prompt(content="hidden prompt"))
    made.reply(Text(text="hidden answer"))
    made.session.move_head(head)
    rows = _resumed(tool, server, made.written())
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


def _import_all(tool, store):
    with detect(str(tool.data / "opencode.db")) as source:
        return [import_session(store, foreign) for foreign in source.sessions()]


def test_a_session_killed_in_a_tool_is_continued_here_and_handed_back(tool, server, held_command):
    """Law 6: the call may have run, so the model is told that its outcome is unknown, here and back in OpenCode."""
    server.play([Say("I begin."), Shell(held_command.text)])
    run = tool.start("Begin")
    held_command.wait_until_begun()
    run.kill()
    store = MemoryStore()
    (found,) = _import_all(tool, store)
    session = Session.get(store, found.session)
    assert [(row.kind, row.status) for row in session.transcript() if row.kind == "call"] == [("call", "open")]
    ran = []

    def bash(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return ""

    done = Agent("demo", tools=[bash]).run_sync(store, "Go on.", session=session)
    (call,) = [row for row in done.session.transcript() if row.kind == "call"]
    assert (call.status, ran) == ("unknown", [])
    assert held_command.effects == ["begun"]
    # The session as it was is still in OpenCode; the continued one gets ids of its own.
    rows = _resumed_again(tool, server, write_session(session_to_write(store, done.session.name), "opencode"))
    kinds = [row.kind for row in rows]
    # The turn that was interrupted is ended before the new prompt is answered.
    assert kinds == ["user", "assistant", "call", "result", "assistant", "user", "assistant", "user"]
    assert (rows[0].text, rows[1].text, rows[5].text) == ("Begin", "I begin.", "Go on.")
    assert rows[3].text.startswith("Outcome unknown")
    assert rows[-1] == _NEXT
    assert len(_import_all(tool, store)) == 2


def _resumed_again(tool, server, written):
    tool.place(written)
    server.play([Say("It goes on.")])
    assert "It goes on." in tool.run_with("run", "-m", f"{PROVIDER}/{MODEL}", "-s", written.id, "And now?").stdout
    request = server.turns[-1]
    assert request.problems == []
    return request.conversation
