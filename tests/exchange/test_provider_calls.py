"""ST-9: a search that the provider ran is a tool call in transcripts and search, and in formats of other agents."""

import json

import pytest

from tests.exchange.codex_records import answer, item, meta, output, read, turn_context, user
from tests.exchange.codex_records import call as function_call
from tests.exchange.samples import MemoryFile
from wakelog.exchange.claude_code.reader import read_sessions as read_claude_code
from wakelog.exchange.codex.reader import read_sessions as read_codex
from wakelog.exchange.exporting import WRITERS, session_to_write, write_session
from wakelog.exchange.importing import import_session
from wakelog.exchange.provider_calls import keeps_none, with_tool_calls
from wakelog.log.content import Prompt, Reply, Text, ToolCall, ToolResult, Usage
from wakelog.log.entry import Message
from wakelog.projections.transcript import transcript
from wakelog.reading import read_log
from wakelog.session import Session
from wakelog.stores.catalog.searchable import searchable_text
from wakelog.stores.memory import MemoryStore

ACTION = {"type": "search", "query": "tides in Oslo"}
SEARCH = item("web_search_call", id="ws_1", status="completed", action=ACTION)
USE = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "tides"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srv_1",
    "content": [{"type": "web_search_result", "title": "Tide", "url": "https://tides.example"}],
}


def codex_session():
    """A session of Codex: two searches, texts around them, and a tool call behind them."""
    store = MemoryStore()
    second = item(
        "web_search_call", id="ws_2", status="failed", action={"type": "open_page", "url": "https://a.example"}
    )
    reply = (answer("I look."), SEARCH, second, answer("High at nine."), function_call("c1"))
    done = import_session(
        store, read(meta(), turn_context(), user("When?"), *reply, output("c1", "files"), answer("Done."))
    )
    return store, done.name


def own_session():
    """A session recorded under a program's own loop with Anthropic's server tool."""
    store = MemoryStore()
    session = Session.create(store, agent="bot", provider="anthropic", model="claude-sonnet-5")
    session.append(Message(message=Prompt(content="When?")))
    parts = (Text(text="", bound=USE), Text(text="", bound=FOUND), Text(text="At nine."))
    session.append(
        Message(
            message=Reply(content=parts, provider="anthropic", model="claude-sonnet-5", usage=Usage(output_tokens=5))
        )
    )
    return store, session.name


def rows_of(store, name):
    rows = transcript(read_log(store, name).tree.branch())
    return [(row.kind, row.name, row.status, row.text) for row in rows if row.kind in ("prompt", "reply", "call")]


def test_a_transcript_shows_the_searches_of_codex_as_calls():
    assert rows_of(*codex_session()) == [
        ("prompt", "", "", "When?"),
        ("reply", "gpt-5", "", "I look."),
        ("call", "web_search", "ok", ""),
        ("call", "web_search", "error", ""),
        ("reply", "gpt-5", "", "High at nine."),
        ("call", "shell", "ok", "files"),
        ("reply", "gpt-5", "", "Done."),
    ]


def test_a_transcript_shows_what_a_search_of_anthropic_found():
    assert rows_of(*own_session()) == [
        ("prompt", "", "", "When?"),
        ("call", "web_search", "ok", "Tide https://tides.example"),
        ("reply", "claude-sonnet-5", "", "At nine."),
    ]


def test_searches_can_be_found():
    """ST-5: by their query and by the name of the tool."""
    store, name = codex_session()
    texts = [searchable_text(node.value) for node in read_log(store, name).tree.branch().nodes]
    found = [text for text in texts if text is not None and "tides in Oslo" in text.text]
    assert len(found) == 1
    assert "web_search" in found[0].tools


@pytest.mark.parametrize("make", [codex_session, own_session])
@pytest.mark.parametrize("target", WRITERS)
def test_every_format_has_the_searches(make, target):
    store, name = make()
    written = write_session(session_to_write(store, name), target)
    text = b"".join(file.content for file in written.files).decode()
    assert "web_search" in text
    assert "tides" in text
    assert not [loss for loss in written.losses if "web search" in loss.reason or "takes it back" in loss.reason]


def test_another_agent_gets_a_call_with_a_result_before_the_text():
    """Law 7: each call has one result, next to it."""
    session = with_tool_calls(session_to_write(*codex_session()), keeps_none)
    shown: list[object] = []
    for node in session.branch:
        match node:
            case Message(message=Reply() as reply):
                shown.append([part.name if isinstance(part, ToolCall) else part.text for part in reply.parts])
                last = reply.tool_calls
            case Message(message=ToolResult() as result):
                shown.append((result.tool_call_id, result.effective_status))
                assert [call.id for call in last] == [result.tool_call_id]
    assert shown == [
        ["I look.", "web_search"],
        ("ws_1", "ok"),
        ["web_search"],
        ("ws_2", "error"),
        ["High at nine.", "shell"],
        ("c1", "ok"),
        ["Done."],
    ]


def test_usage_and_id_stay_with_the_last_part():
    """A reply is counted once, and what follows it has the same parent."""
    session = session_to_write(*own_session())
    divided = with_tool_calls(session, keeps_none)
    replies = [node for node in divided.branch if isinstance(node, Message) and isinstance(node.message, Reply)]
    assert [node.message.usage for node in replies] == [None, Usage(output_tokens=5)]
    assert (replies[-1].id, divided.head) == (session.head, session.head)


def test_the_provider_gets_its_own_items_back():
    store, name = codex_session()
    written = write_session(session_to_write(store, name), "codex")
    lines = [json.loads(line) for line in written.files[0].content.splitlines()]
    items = [line["payload"] for line in lines if line["type"] == "response_item"]
    assert SEARCH["payload"] in items
    store, name = own_session()
    written = write_session(session_to_write(store, name), "claude-code")
    records = [json.loads(line) for line in written.files[0].content.splitlines()]
    blocks = [block for record in records if record["type"] == "assistant" for block in record["message"]["content"]]
    assert blocks[:2] == [USE, FOUND]


def test_a_search_handed_over_is_read_as_a_tool_call():
    """From Codex to Claude Code, and the other way round."""
    store, name = codex_session()
    file = write_session(session_to_write(store, name), "claude-code").files[0]
    [foreign] = read_claude_code(MemoryFile(file.content, "session.jsonl"))
    done = import_session(MemoryStore(), foreign)
    assert done.name is not None
    store, name = own_session()
    file = write_session(session_to_write(store, name), "codex").files[0]
    [foreign] = read_codex(MemoryFile(file.content, file.path.rpartition("/")[2]))
    other = MemoryStore()
    done = import_session(other, foreign)
    assert [row[:3] for row in rows_of(other, done.name)] == [
        ("prompt", "", ""),
        ("call", "web_search", "ok"),
        ("reply", "", ""),
    ]
