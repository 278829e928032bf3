"""ST-9: what OpenCode has beside the content of messages: fields, token counts, the earliest tree; and growth."""

import json

import pytest

from tests.exchange.opencode_samples import (
    SESSION,
    assistant,
    export,
    messages_of,
    only,
    part,
    text,
    tool,
    tree,
    turn,
    types_of,
    user,
)
from tests.exchange.samples import MemoryFile, entries_of, needs_samples, sample
from wakelog.exchange.opencode import entries as opencode_entries
from wakelog.exchange.opencode import sources
from wakelog.exchange.opencode.events import EventFold
from wakelog.exchange.opencode.reader import is_opencode, read_sessions
from wakelog.exchange.opencode.records import StoredPart
from wakelog.exchange.sessions import entry_id
from wakelog.log.content import Reply, Text, Thinking

_PDF = {
    "id": "f1",
    "type": "file",
    "mime": "application/pdf",
    "filename": "a.pdf",
    "url": "data:application/pdf;base64,QQ==",
}
_PNG = {"id": "f2", "type": "file", "mime": "image/png", "filename": "b.png", "url": "data:image/png;base64,QQ=="}


def _exported(*messages, **info):
    return only(MemoryFile(export(*messages, **info), "export.json"))


def _fields(session):
    return [body.data for body in entries_of(session) if getattr(body, "custom_type", "") == "opencode:fields"]


# ── fields ───────────────────────────────────────────────────────────────────────────────────────


def test_fields_of_a_prompt_are_kept_behind_it():
    image = {**_PNG, "id": "p2"}
    asked = {
        "agent": "plan",
        "model": {"modelID": "m"},
        "system": "Be brief",
        "tools": {"bash": False},
        "variant": "high",
    }
    entries = entries_of(_exported(user("u1", text("p1", "Read"), image, summary={"title": "computed"}, **asked)))
    assert types_of(entries) == ["Custom", "Prompt", "Custom"]
    assert entries[-1].data == {**asked, "parts": {"p2": {"filename": "b.png"}}}


def test_fields_of_a_result_are_kept_behind_it():
    """What repeats the output or the input is named, not stored again."""
    output = "line\n" * 40
    metadata = {"exit": 77, "output": output[:-1], "command": "ls", "preview": "line", "truncated": False}
    call = tool("p1", "c1", output=output, title="List", metadata=metadata, attachments=[_PDF, _PNG])
    entries = entries_of(_exported(assistant("a1", call)))
    assert types_of(entries) == ["Custom", "Reply", "ToolResult", "Custom"]
    assert entries[-1].data == {
        "title": "List",
        "metadata": {"exit": 77, "preview": "line"},
        "repeated": ["output", "command"],
        "attachments": {"0": _PDF, "1": {"filename": "b.png"}},
    }


def test_what_every_reply_says_is_kept_where_it_changes():
    first = {"agent": "build", "path": {"cwd": "/repo", "root": "/"}}
    second = {**first, "path": {"cwd": "/other", "root": "/"}}
    replies = (
        assistant("a1", text("p1", "A"), **first),
        assistant("a2", text("p2", "B"), **first, structured={"answer": 1}),
        assistant("a3", text("p3", "C"), **second),
    )
    assert _fields(_exported(*replies)) == [first, {"structured": {"answer": 1}}, {"path": second["path"]}]


def test_details_of_a_fault_and_of_the_steps_are_kept():
    error = {"name": "APIError", "data": {"message": "no", "isRetryable": True, "statusCode": 529}}
    steps = part("s1", "step-start", snapshot="abc"), text("p1", "Half"), part("s2", "step-finish", reason="stop")
    [found] = _fields(_exported(assistant("a1", *steps, error=error, tokens={"input": 1, "output": 9, "reasoning": 5})))
    assert found == {"error": {"statusCode": 529}, "tokens": {"reasoning": 5}, "parts": {"s1": {"snapshot": "abc"}}}


def test_data_of_any_vendor_is_bound_to_its_part():
    """Signed and encrypted reasoning is kept so that the same API takes it back."""
    router = {"openrouter": {"reasoning_details": [{"data": "sealed"}]}}
    message = assistant(
        "a1",
        part("p1", "reasoning", text="Hm", metadata=router),
        part("p2", "reasoning", text="", metadata=router),
        text("p3", "So", metadata={"openrouter": {"sig": "s"}, "plain": 7}),
        part("p4", "text", text="!", metadata={"openai": {"itemId": "msg_1", "phase": "final"}}),
    )
    (reply,) = messages_of(_exported(message))
    assert reply.content == (
        Thinking(thinking="Hm", bound=router),
        Thinking(thinking="", bound=router),
        Text(text="So", bound={"openrouter": {"sig": "s"}}),
        Text(text="!", bound={"id": "msg_1"}),
    )
    rest = {"p3": {"metadata": {"plain": 7}}, "p4": {"metadata": {"openai": {"phase": "final"}}}}
    assert _fields(_exported(message)) == [{"parts": rest}]


# ── usage ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("version", "provider", "tokens", "expected"),
    [
        ("1.1.0", "openai", {"input": 10, "output": 500, "reasoning": 400}, (10, 500, 0)),
        ("1.3.15", "openai", {"input": 10, "output": 500, "reasoning": 400}, (10, 500, 0)),
        ("1.3.16", "openai", {"input": 10, "output": 100, "reasoning": 400}, (10, 500, 0)),
        ("1.1.0", "openai", {"input": 10, "output": 100, "reasoning": 400, "total": 510}, (10, 500, 0)),
        ("1.18.0", "openai", {"input": 10, "output": 500, "reasoning": 400, "total": 510}, (10, 500, 0)),
        ("1.18.0", "openai", {"input": 10, "output": 100, "reasoning": 400, "total": 7}, (10, 500, 0)),
        ("1.0.50", "openai", {"input": 1000, "output": 5, "cache": {"read": 900}}, (100, 5, 900)),
        ("1.0.50", "openai", {"input": 10, "output": 5, "cache": {"read": 900}}, (10, 5, 900)),
        ("1.0.50", "anthropic", {"input": 1000, "output": 5, "cache": {"read": 900}}, (1000, 5, 900)),
        ("1.0.62", "openai", {"input": 1000, "output": 5, "cache": {"read": 900}}, (1000, 5, 900)),
        ("1.3.5", "amazon-bedrock", {"input": 1000, "output": 5, "cache": {"read": 900}}, (100, 5, 900)),
        ("1.3.6", "amazon-bedrock", {"input": 1000, "output": 5, "cache": {"read": 900}}, (1000, 5, 900)),
        ("0.0.0-dev", "openai", {"input": 10, "output": 100, "reasoning": 400}, (10, 100, 0)),
        ("dev", "openai", {"input": 10, "output": 100, "reasoning": 400, "total": 510}, (10, 500, 0)),
    ],
)
def test_tokens_are_counted_as_the_version_did(version, provider, tokens, expected):
    reply = assistant("a1", text("p1", "Hi"), tokens=tokens, providerID=provider)
    (found,) = messages_of(_exported(reply, version=version))
    usage = found.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == expected


@needs_samples
def test_events_without_a_version_are_counted_by_their_time():
    [session] = read_sessions(sample("opencode/ocn-events-simple-session.json"))
    counts = {
        (message.usage.input_tokens, message.usage.cache_read_tokens)
        for message in messages_of(session)
        if isinstance(message, Reply) and message.usage is not None
    }
    assert counts == {(15_511 - 8_435, 8_435)}


# ── the earliest tree ────────────────────────────────────────────────────────────────────────────


def test_a_session_of_the_earliest_tree_has_no_folder():
    early = {key: SESSION[key] for key in ("id", "title", "version", "time")}
    prompt, reply, last = turn()
    reply["info"]["path"] = {"cwd": "/where", "root": "/"}
    assert is_opencode([early])
    session = only(tree(early, prompt, reply, last, is_early=True))
    assert session.cwd == "/where"
    assert len(messages_of(session)) == 4


def test_a_message_with_its_parts_inside_is_kept_whole():
    old = assistant("a1", parts=[{"type": "text", "text": "Hello"}])
    (_, body) = entries_of(_exported(old))
    assert (body.custom_type, body.data["info"]["parts"][0]["text"]) == ("opencode:message", "Hello")


# ── growth ───────────────────────────────────────────────────────────────────────────────────────


def test_ids_of_equal_messages_are_found_at_once(monkeypatch):
    made = 0

    def counted(*given):
        nonlocal made
        made += 1
        return real(*given)

    real = entry_id
    monkeypatch.setattr(opencode_entries, "entry_id", counted)
    entries = entries_of(_exported(*[user("u1", text("p1", "Hi")) for _ in range(50)]))
    assert len({body.id for body in entries}) == len(entries) == made == 51


def test_the_parts_of_a_parent_are_searched_once_for_all_its_sub_agents(monkeypatch):
    searched = 0

    def counted(parts):
        nonlocal searched
        searched += 1
        return real(parts)

    real = sources.calls_by_child
    monkeypatch.setattr(sources, "calls_by_child", counted)
    children = [{**SESSION, "id": f"ses_c{at}", "parentID": "ses_1"} for at in range(20)]
    events = [{"type": "session.created", "properties": {"info": info}} for info in (SESSION, *children)]
    assert len(list(read_sessions(MemoryFile(json.dumps(events).encode(), "events.json")))) == 21
    assert searched == 1


def test_deltas_are_joined_once():
    """A part keeps its value while deltas come in: no text is copied for each of them."""
    info = user("u1")["info"]
    place = {"sessionID": "ses_1", "messageID": "u1", "partID": "p1", "field": "text"}
    fold = EventFold()
    fold.add({"type": "session.created", "properties": {"info": SESSION}})
    fold.add({"type": "message.updated", "properties": {"info": info}})
    fold.add({"type": "message.part.updated", "properties": {"part": {**text("p1", "a"), **place, "id": "p1"}}})
    for _ in range(5):
        fold.add({"type": "message.part.delta", "properties": {**place, "delta": "b"}})
    folded = fold.session("ses_1")
    assert folded is not None
    assert folded.messages[0].parts == []
    fold.close()
    (found,) = folded.messages[0].parts
    assert isinstance(found, StoredPart)
    assert (found.value["text"], found.records) == ("abbbbb", 6)
