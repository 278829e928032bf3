"""ST-9: the real Codex resumes what wakelog writes, and wakelog continues what a killed Codex leaves."""

import pytest

from tests.loopback import Row, Say, Shell
from tests.loopback.models import SIDE_TEXT
from tests.real_tools.pinned import MODEL
from tests.real_tools.sessions import CONTINUED, continue_with_wakelog, import_sessions, spoken_rows
from wakelog import Session
from wakelog.exchange.exporting import session_to_write, write_session
from wakelog.log.content import Image, Note, Prompt, Reply, Text, Thinking, ToolCall, ToolResult, Usage
from wakelog.log.entry import Cancelled, Compaction, Message
from wakelog.stores.memory import MemoryStore

pytestmark = pytest.mark.real_tools("codex")

_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_NEXT = Row("user", "And now?")


class _Conversation:
    """A session of wakelog in a store of its own, with a model that Codex does not have."""

    def __init__(self, title: str | None = None) -> None:
        self.store = MemoryStore()
        self.session = Session.create(
            self.store, agent="crab", cwd="/project", title=title, model="claude-sonnet-4-5", provider="anthropic"
        )

    def add(self, message):
        return self.session.append(Message(message=message))

    def reply(self, *parts, stop="stop", **more):
        known = {"model": "claude-sonnet-4-5", "provider": "anthropic", "stop_reason": stop}
        return self.add(Reply(content=parts, **known, **more))

    def result(self, reply, call_id, *parts, status="ok"):
        told = {"status": status, "is_error": status != "ok", "tool_name": "shell"}
        return self.add(ToolResult(tool_call_id=call_id, reply_id=reply.id, content=parts, **told))

    def written(self):
        return write_session(session_to_write(self.store, self.session.name), "codex")


def _resumed(tool, server, written):
    """Place a session, resume it, and return the conversation that Codex sent, without what it adds itself."""
    tool.place(written)
    server.play([Say("It goes on.")])
    count = len(server.turns)
    assert "It goes on." in tool.run("And now?", written.id).stdout
    (request,) = server.turns[count:]
    assert request.problems == []
    assert request.model == MODEL
    return spoken_rows(request)


def test_it_resumes_a_session_with_a_call_and_a_compaction(tool, server):
    """The request has the summary, the kept messages and the later ones, in order, with the call and its result."""
    made = _Conversation("A title")
    made.add(Prompt(content="forgotten prompt"))
    # More than fits into the context: without the compaction Codex would begin with one of its own.
    made.reply(Text(text="forgotten answer"), usage=Usage(input_tokens=300_000, output_tokens=1))
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
    assert sorted(loss.kind for loss in written.losses) == ["model", "title"]
    assert _resumed(tool, server, written) == [
        Row("user", "What was before."),
        Row("user", "kept prompt"),
        Row("assistant", "I look."),
        Row("call", 'shell {"command": "ls"}', "call_1"),
        Row("result", "a.txt", "call_1"),
        Row("assistant", "One file."),
        Row("user", "later prompt"),
        Row("assistant", "later answer"),
        _NEXT,
    ]


def test_it_resumes_a_session_with_everything_else(tool, server):
    """Images, parallel calls, ids that repeat, a prompt while a tool runs, notes, a cancelled reply, an open call.

    What is compared with the losses: reasoning of another model is not sent.
    """
    made = _Conversation()
    made.add(Prompt(content=(Text(text="look at it"), Image(mime_type="image/png", data=_PIXEL))))
    calls = [ToolCall(id=f"call_{n}", name="shell", input={"n": n}) for n in (1, 2)]
    asking = made.reply(Thinking(thinking="Two at once.", signature="c2ln"), *calls, stop="tools")
    made.result(asking, "call_2", Text(text="it failed"), status="error")
    made.add(Prompt(content="while it runs"))
    made.result(asking, "call_1", Text(text="it worked"))
    made.add(Note(content="a note", custom_type="memory"))
    made.session.append(Cancelled(reason="user", content="half a sent"))
    made.add(Prompt(content="<skill> third prompt"))
    made.reply(Text(text="I wait."), ToolCall(id="call_1", name="shell", input={}), stop="tools")
    written = made.written()
    losses = {loss.kind: loss.count for loss in written.losses}
    assert losses == {
        "thinking": 1,
        "model": 2,
        "status of a tool result": 1,
        "cancelled": 1,
        "id of a tool call": 1,
        "place of a tool result": 1,
    }
    rows = _resumed(tool, server, written)
    assert rows.pop(1).kind == "image"
    assert rows == [
        Row("user", "look at it"),
        Row("call", 'shell {"n": 1}', "call_1"),
        Row("call", 'shell {"n": 2}', "call_2"),
        Row("result", "it failed", "call_2"),
        Row("result", "it worked", "call_1"),
        Row("user", "while it runs"),
        Row("user", "a note"),
        Row("assistant", "half a sent"),
        Row("user", "<skill> third prompt"),
        Row("assistant", "I wait."),
        Row("call", "shell {}", "call_1_2"),
        # What Codex tells the model of a call without a result.
        Row("result", "aborted", "call_1_2"),
        _NEXT,
    ]


def test_a_session_killed_in_a_tool_is_continued_here_and_handed_back(tool, server, held_command):
    """Law 6: the call may have run, so the model is told that its outcome is unknown, here and back in Codex."""
    server.play([Say("I begin."), Shell(held_command.text)])
    run = tool.start("Begin")
    held_command.wait_until_begun()
    run.kill()
    store = MemoryStore()
    (found,) = import_sessions(store, tool)
    assert [row.status for row in Session.get(store, found.session).transcript() if row.kind == "call"] == ["unknown"]
    continued = continue_with_wakelog(server, store, found, "exec_command")
    assert (continued.ran, continued.statuses) == ([], ["unknown"])
    assert held_command.effects == ["begun"]
    rows = _resumed(tool, server, write_session(session_to_write(store, continued.session.name), "codex"))
    kinds = [row.kind for row in rows]
    # The turn that was interrupted is ended before the new prompt is answered.
    assert kinds == ["user", "assistant", "call", "result", "assistant", "user", "assistant", "user"]
    assert (rows[0].text, rows[1].text, rows[6].text) == ("Begin", "I begin.", CONTINUED)
    assert rows[3].text.startswith("Outcome unknown")
    assert rows[-1] == _NEXT


def test_what_codex_adds_to_a_written_session_is_imported(tool, server):
    """The file that was written goes on as one of Codex: its messages and the new ones are one session."""
    made = _Conversation()
    made.add(Prompt(content="first prompt"))
    made.reply(Text(text="first answer"))
    _resumed(tool, server, made.written())
    store = MemoryStore()
    (found,) = import_sessions(store, tool)
    rows = [(row.kind, row.text) for row in Session.get(store, found.session).transcript()]
    spoken = [row for row in rows if row[0] in ("prompt", "reply")]
    assert spoken == [
        ("prompt", "first prompt"),
        ("reply", "first answer"),
        ("prompt", "And now?"),
        ("reply", "It goes on."),
    ]


def test_a_compaction_of_codex_is_handed_back(tool, server):
    """The model is sent the same, whether Codex goes on with its own file or with what wakelog wrote of it."""
    server.play([Say("first answer")])
    tool.run("first prompt")
    (path,) = tool.data.glob("sessions/**/rollout-*.jsonl")
    thread_id = path.stem[-36:]
    server.play([Say("second answer")])
    *options, _ = tool.pinned.arguments("", None)
    # So small a limit that Codex compacts before the turn; the summary is what the server says beside turns.
    tool.run_with(*options, "-c", "model_auto_compact_token_limit=1", "resume", thread_id, "second prompt")
    store = MemoryStore()
    (found,) = import_sessions(store, tool)
    written = write_session(session_to_write(store, found.session), "codex")
    server.play([Say("It goes on.")])
    tool.run("And now?", thread_id)
    own = spoken_rows(server.turns[-1])
    assert _resumed(tool, server, written) == own
    assert [row.text for row in own if SIDE_TEXT not in row.text] == [
        *("first prompt", "second prompt", "second answer", "And now?")
    ]
    assert len(own) == 5
