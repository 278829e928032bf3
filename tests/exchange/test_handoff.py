"""ST-9: every sample session can be handed to every tool: it is written, read back, and has the same turns."""

import os

import msgspec
import pytest

from tests.exchange.samples import SAMPLES
from wakelog.errors import StoreError, UsageError
from wakelog.exchange import handoff as handing
from wakelog.exchange.detection import detect
from wakelog.exchange.exporting import session_to_write, write_session
from wakelog.exchange.places import session_files
from wakelog.exchange.sync import import_files
from wakelog.exchange.writing import Loss, SessionToWrite
from wakelog.log.content import Prompt, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import Compaction, Message
from wakelog.stores.memory import MemoryStore

TOOLS = ("claude-code", "codex", "pi", "opencode", "gemini", "goose", "aider")
# A reply that is text and an image, written for a tool that has only text.
KNOWN = {("aider", "Done[media attached: screenshot-1]")}


@pytest.fixture(scope="module")
def sessions():
    """All sample sessions that have a message."""
    store = MemoryStore()
    assert SAMPLES is not None
    for _ in import_files(store, session_files([str(SAMPLES)])):
        pass
    found = [session_to_write(store, stat.name) for stat in store.sessions()]
    return [session for session in found if any(isinstance(node, Message) for node in session.branch)]


@pytest.mark.skipif(SAMPLES is None, reason="the folder with the samples is not here")
@pytest.mark.parametrize("tool", TOOLS)
def test_every_sample_can_be_handed_on(sessions, tool, tmp_path):
    assert len(sessions) > 80
    for session in sessions:
        written = write_session(session, tool)
        path = tmp_path / written.files[0].path.rpartition("/")[2]
        path.write_bytes(written.files[0].content)
        with detect(str(path)) as source:
            turns = handing._turns_of(next(source.sessions()))
        path.unlink()
        problem = handing.difference(session, turns, written.losses)
        assert not problem or any(tool == known and words in problem for known, words in KNOWN), session.session


def session(*nodes):
    placed, parent = [], "s"
    for number, body in enumerate(nodes):
        node = body if isinstance(body, Compaction) else Message(message=body)
        placed.append(
            type(node)(**{field: getattr(node, field) for field in node.__struct_fields__} | _place(number, parent))
        )
        parent = f"n{number}"
    return SessionToWrite(session="s", agent="a", started_ms=0, nodes=tuple(placed), head=parent)


def _place(number, parent):
    return {"id": f"n{number}", "parent_id": parent, "timestamp": "2026-01-01T00:00:00.000Z"}


def test_a_missing_or_misplaced_turn_is_a_difference():
    """What a tool reads must have every turn, in order."""
    said = session(Prompt(content="one"), Reply(content=(ToolCall(id="c", name="sh"),)), Reply(content="two"))
    turns = [("prompt", "one"), ("tool call", "sh"), ("reply", "two")]
    assert handing.difference(said, turns, ()) == ""
    assert handing.difference(said, turns[:2], ()) == "the reply 'two' is missing"
    assert handing.difference(said, turns[::-1], ()) != ""
    assert handing.difference(said, [turns[0], turns[2]], ()) == "the tool call 'sh' is missing"
    assert handing.difference(said, [turns[0], turns[2]], (Loss("toolresult", 1, "no tools"),)) == ""


def test_results_may_be_in_another_order():
    """A format may need a result directly behind its call, before a prompt that came while the tool ran."""
    result = ToolResult(tool_call_id="c", tool_name="sh", reply_id="n1", content=(Text(text="done"),))
    said = session(Reply(content=(ToolCall(id="c", name="sh"),)), Prompt(content="and"), result)
    turns = [("tool call", "sh"), ("tool result", "done"), ("prompt", "and")]
    assert handing.difference(said, turns, ()) == ""
    assert handing.difference(said, [turns[0], turns[2]], ()) == "the tool result 'done' is missing"


def test_no_folder_is_made_for_a_session(tmp_path):
    said = session(Prompt(content="one"), Reply(content="two"))
    said = msgspec.structs.replace(said, cwd=str(tmp_path / "gone"))
    with pytest.raises(UsageError, match="does not exist"):
        handing.plan_handoff(said, write_session(said, "aider"), {})
    assert not (tmp_path / "gone").exists()


def test_a_tool_that_does_not_end_is_an_error(tmp_path, monkeypatch):
    """The command that takes a session in gets a limited time."""
    program = tmp_path / "goose"
    program.write_text("#!/bin/sh\nread line < $0.fifo\n")
    program.chmod(0o700)
    os.mkfifo(f"{program}.fifo")
    monkeypatch.setattr(handing, "_LOAD_S", 0.1)
    environ = {"PATH": f"{tmp_path}:/bin:/usr/bin", "HOME": str(tmp_path)}
    said = session(Prompt(content="one"), Reply(content="two"))
    plan = handing.plan_handoff(said, write_session(said, "goose"), environ)
    with pytest.raises(StoreError, match="did not end within"):
        handing.carry_out(plan, said, environ)


def test_a_format_without_compactions_has_what_follows_the_last_one():
    said = session(Prompt(content="one"), Compaction(summary="one was said"), Prompt(content="two"))
    assert handing.difference(said, [("prompt", "two")], ()) == ""
    assert handing.difference(said, [("prompt", "one")], ()) == "the prompt 'two' is missing"
