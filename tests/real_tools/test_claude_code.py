"""ST-9 with the real Claude Code: it continues sessions that wakelog wrote, and wakelog continues one that it left."""

import base64
from typing import Any

import pytest

from tests.loopback import Row, Say, Shell
from tests.loopback.rows import call_text
from tests.real_tools.sessions import (
    SUMMARY,
    continue_with_wakelog,
    example_rows,
    example_session,
    import_sessions,
    spoken_rows,
)
from wakelog.exchange.claude_code.writer import write_session
from wakelog.exchange.exporting import session_to_write
from wakelog.log.content import Image, Prompt, Reply, Text, Thinking, ToolCall, ToolResult
from wakelog.log.entry import Cancelled, Compaction, Failed, FaultReport, Message
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore

pytestmark = pytest.mark.real_tools("claude-code")

SHELL = "Bash"
MODEL: dict[str, Any] = {"provider": "anthropic", "model": "claude-sonnet-4-5"}
PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010806000000 1f15c4890000000d49444154789c6364f8cf500f0003860180"
        "5a347d6b0000000049454e44ae426082"
    )
).decode()


def continued_rows(server, tool, written, prompt="And now?"):
    """Place a session, continue it, and return the rows of what the tool sends."""
    tool.place(written)
    server.play([Say("Next answer.")])
    assert "Next answer." in tool.run(prompt, written.id).stdout
    [request] = server.turns
    assert request.problems == []
    return [Row(row.kind, row.text.rstrip("\n"), row.id) for row in spoken_rows(request)]


def test_claude_code_continues_a_written_session(server, tool):
    """Only the summary, what the compaction keeps, and what follows it are sent."""
    written = write_session(example_session(tool.project, SHELL))
    rows = continued_rows(server, tool, written)
    assert written.losses == ()
    assert rows == [Row("user", SUMMARY), *example_rows(SHELL), Row("user", "And now?")]


def test_a_written_session_grows_in_claude_code_and_comes_back(server, tool):
    """What the tool appends goes below the head of the written session, and is imported with it."""
    written = write_session(example_session(tool.project, SHELL))
    tool.place(written)
    server.play([Say("I look."), Shell("printf 'se%s' en-42")], [Say("Seen.")])
    tool.run("Look", written.id)
    store = MemoryStore()
    [imported] = import_sessions(store, tool)
    continued = continue_with_wakelog(server, store, imported, SHELL)
    _, *rows = spoken_rows(continued.request)
    assert [row.text for row in rows[:7]] == [row.text for row in example_rows(SHELL)]
    assert [row.kind for row in rows[7:]] == ["user", "assistant", "call", "result", "assistant", "user"]
    assert (rows[7].text, rows[10].text, rows[-1].text) == ("Look", "seen-42", "What happened?")


def test_a_session_of_a_killed_claude_code_is_continued_by_wakelog(server, tool, held_command):
    """Law 6: the call was started there, so wakelog does not run it and tells the model that its outcome is unknown."""
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
    assert (rows[0].text, rows[1].text, rows[5].text) == ("Do it", "I begin.", "What happened?")
    assert "unknown" in rows[3].text
    assert continued.request.problems == []
    assert held_command.effects == ["begun"]


# ── trees ────────────────────────────────────────────────────────────────────────────────────────


class Tree:
    """A session that is built message by message, with several branches."""

    def __init__(self, cwd):
        self.session = Session.create(MemoryStore(), agent="crab", cwd=str(cwd), **MODEL)

    def ask(self, text, *parts):
        return self._say(Prompt(content=(Text(text=text), *parts)))

    def reply(self, *parts):
        return self._say(Reply(content=tuple(parts), stop_reason="stop", **MODEL))

    def result(self, reply, call_id, text, *parts):
        content = (Text(text=text), *parts)
        return self._say(
            ToolResult(content=content, tool_call_id=call_id, tool_name=SHELL, reply_id=reply, status="ok")
        )

    def turn(self, text):
        self.ask(text)
        return self.reply(Text(text=f"{text} answered"))

    def compact(self, summary, kept):
        self.session.append(Compaction(summary=summary, first_kept_entry_id=kept.id))

    def _say(self, message):
        return self.session.append(Message(message=message))

    @property
    def written(self):
        return write_session(session_to_write(self.session.store, self.session.name))


def rows_of_turn(text):
    return [Row("user", text), Row("assistant", f"{text} answered")]


def test_the_active_branch_of_a_tree_is_sent(server, tool):
    """Rewinds, a tool that ran again, and a head with entries after it: other branches are in the file, and not sent.

    Reasoning, images, errors and interruptions are as the tool has them.
    """
    tree = Tree(tool.project)
    tree.turn("zero")
    tree.ask("look", image := Image(mime_type="image/png", data=PIXEL))
    calls = [ToolCall(id=f"toolu_{number}", name=SHELL, input={"command": f"echo {number}"}) for number in (1, 2)]
    reply = tree.reply(Thinking(thinking="hm", signature="c2ln"), Text(text="I look."), *calls)
    first = tree.result(reply.id, "toolu_1", "one", image)
    tree.result(reply.id, "toolu_2", "two at first")
    tree.turn("left")
    tree.session.move_head(first)
    again = tree.result(reply.id, "toolu_2", "two again")
    tree.session.append(Failed(reason="call", error=FaultReport(kind="overloaded", message="try again")))
    tree.session.append(Cancelled(reason="asked by a person", content="Half a"))
    head = tree.turn("right")
    tree.turn("later")
    tree.session.move_head(again)
    tree.turn("aside")
    tree.session.move_head(head)
    rows = continued_rows(server, tool, tree.written)
    assert rows == [
        *rows_of_turn("zero"),
        Row("user", "look"),
        Row("image", ""),
        Row("thinking", "hm"),
        Row("assistant", "I look."),
        *(Row("call", call_text(SHELL, call.input), call.id) for call in calls),
        Row("result", "one", "toolu_1"),
        Row("image", ""),
        Row("result", "two again", "toolu_2"),
        Row("assistant", "Half a"),
        Row("user", "[Request interrupted by user]"),
        *rows_of_turn("right"),
        Row("user", "And now?"),
    ]


def test_a_compaction_keeps_entries_from_before_an_earlier_one(server, tool):
    tree = Tree(tool.project)
    tree.turn("old")
    kept = tree.ask("kept")
    tree.reply(Text(text="kept answered"))
    tree.compact("First summary", kept)
    tree.turn("between")
    tree.compact("Second summary", kept)
    tree.turn("new")
    rows = continued_rows(server, tool, tree.written)
    spoken = [row for text in ("kept", "between", "new") for row in rows_of_turn(text)]
    assert rows == [Row("user", "Second summary"), *spoken, Row("user", "And now?")]


def test_a_compaction_on_another_branch_of_a_large_file_hides_nothing(server, tool):
    """Of a file of some megabytes the tool reads only what follows the last boundary, whatever branch it is on."""
    tree = Tree(tool.project)
    fork = tree.turn("zero")
    kept = tree.ask("aside")
    for number in range(24):
        tree.reply(Text(text=f"{number:03}" * 150_000))
        tree.ask("more")
    tree.compact("Summary of another branch", kept)
    tree.turn("aside again")
    tree.session.move_head(fork)
    tree.turn("one")
    written = tree.written
    assert len(written.files[0].content) > 10_000_000
    rows = continued_rows(server, tool, written)
    assert rows == [*rows_of_turn("zero"), *rows_of_turn("one"), Row("user", "And now?")]
