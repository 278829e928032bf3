"""ST-9: every sample session can be handed to every tool: it is written, read back, and has the same turns."""

import pytest

from tests.exchange.samples import SAMPLES
from wakelog.exchange import handoff as handing
from wakelog.exchange.detection import detect
from wakelog.exchange.exporting import session_to_write, write_session
from wakelog.exchange.places import session_files
from wakelog.exchange.sync import import_files
from wakelog.exchange.writing import Loss, SessionToWrite
from wakelog.log.content import Prompt, Reply, ToolCall
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


def test_a_format_without_compactions_has_what_follows_the_last_one():
    said = session(Prompt(content="one"), Compaction(summary="one was said"), Prompt(content="two"))
    assert handing.difference(said, [("prompt", "two")], ()) == ""
    assert handing.difference(said, [("prompt", "one")], ()) == "the prompt 'two' is missing"
