"""ST-9: a list of messages that grows stays one session, and what its messages have is in it once."""

import json
from typing import Any

import pytest

from tests.exchange.message_lists import ANTHROPIC, CHAT, RESPONSES, bodies, messages, sessions, sessions_of_bytes
from tests.exchange.samples import MemoryFile, account_of, jsonl
from wakelog.exchange import importing, sync
from wakelog.exchange.message_lists import reader
from wakelog.exchange.sync import import_files
from wakelog.log.content import Reply, Text, ToolCall, ToolResult, UnknownPart, Usage
from wakelog.log.entry import Custom, Message
from wakelog.projections.context import build_context
from wakelog.reading import read_log
from wakelog.stores.memory import MemoryStore

ASK = {"role": "user", "content": "x"}


def imported(into, path, *lines):
    path.write_bytes(jsonl(*lines))
    (file,) = import_files(into, [str(path)])
    return file.sessions


def shown(into, session):
    """Return the texts and the names of the calls of the active branch."""
    context = build_context(read_log(into, session).tree.branch())
    return [
        message.text or [part.name for part in message.content if isinstance(part, ToolCall)]
        for message in context.messages
    ]


def call(identity, name, **more):
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": "{}"}, **more}


# ── grown lists ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("first", range(2, len(RESPONSES)))
def test_a_reply_that_was_imported_before_it_was_complete_is_there_once(tmp_path, first):
    into, path = MemoryStore(), tmp_path / "list.jsonl"
    for end in (first, len(RESPONSES)):
        (done,) = imported(into, path, *RESPONSES[:end])
    values = [entry.value for entry in read_log(into, done.session).entries]
    parts = [part for each in values if isinstance(each, Message) for part in each.message.parts]
    assert [part.name for part in parts if isinstance(part, ToolCall)] == ["ls", "pwd"]
    texts = [text for text in shown(into, done.session) if isinstance(text, str)]
    assert sorted(texts) == sorted(["Look", "/home", "a.py", "One file.", "Thanks"])
    (again,) = imported(into, path, *RESPONSES)
    assert again.added == 0


def test_a_reply_grows_within_one_file():
    """A file of requests, of which the first ends within a reply."""
    lists = [{"input": RESPONSES[:4]}, {"input": RESPONSES}]
    ((_, items),) = sessions(lists, lines=True)
    names = [[part.name for part in reply.tool_calls] for reply in messages([item.body for item in items])
             if isinstance(reply, Reply)]  # fmt: skip
    assert names == [["ls"], ["ls"], ["pwd"], []]
    assert len({item.body.id for item in items}) == len(items) - 3


@pytest.mark.parametrize("ends", [(1, 2, 3), (1, 3), (2, 3)])
def test_a_list_whose_api_shows_later_is_the_same_session(tmp_path, ends):
    into, path = MemoryStore(), tmp_path / "list.jsonl"
    told: list[Any] = [ASK, {"role": "assistant", "content": [{"type": "text", "text": "y"}]}, ASK]
    found = {imported(into, path, *told[:end])[0].session for end in ends}
    assert len(found) == 1
    assert shown(into, found.pop()) == ["x", "y", "x"]


# ── results and fields ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("identity", ["", "c"])
def test_results_of_calls_with_one_id_are_taken_in_order(identity):
    asked = {"role": "assistant", "content": None, "tool_calls": [call(identity, "a"), call(identity, "b")]}
    answers = [{"role": "tool", "tool_call_id": identity, "content": text} for text in ("A", "B", "C")]
    entries = bodies([ASK, asked, *answers])
    results = [message for message in messages(entries) if isinstance(message, ToolResult)]
    assert [(result.tool_name, result.text) for result in results] == [("a", "A"), ("b", "B")]
    assert len({result.tool_call_id for result in results}) == 2
    assert entries[-1].custom_type == "openai-messages:tool"


@pytest.mark.parametrize(
    ("usage", "expected", "left"),
    [
        (
            {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 40}},
            Usage(input_tokens=60, output_tokens=7, cache_read_tokens=40),
            None,
        ),
        (
            {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4, "x": 1}},
            Usage(input_tokens=5, output_tokens=2, cache_read_tokens=4),
            {"input_tokens_details": {"x": 1}},
        ),
        ({"input_tokens": 1, "service_tier": "fast"}, Usage(input_tokens=1), {"service_tier": "fast"}),
        ({"credits": 3}, None, {"credits": 3}),
    ],
)
def test_the_usage_of_every_api_is_kept(usage, expected, left):
    entries = bodies([ASK, {"role": "assistant", "content": "y", "model": "m", "usage": usage}])
    assert entries[1].message.usage == expected
    assert [entry.data for entry in entries if isinstance(entry, Custom)] == ([{"usage": left}] if left else [])


def test_other_fields_of_messages_and_calls_are_kept():
    signed = call("c", "f", extra_content={"google": {"thought_signature": "SIG"}})
    entries = bodies([{**ASK, "id": "m", "status": "completed"}, {"role": "assistant", "tool_calls": [signed]}])
    assert [entry.data for entry in entries if isinstance(entry, Custom)] == [
        {"id": "m", "status": "completed"},
        {"tool_calls": {"0": {"extra_content": {"google": {"thought_signature": "SIG"}}}}},
    ]


def test_other_fields_of_items_and_parts_are_kept():
    output = {"type": "output_text", "text": "y", "annotations": [], "logprobs": [1]}
    asked = {
        "type": "function_call",
        "id": "f",
        "call_id": "c",
        "name": "ls",
        "arguments": "{}",
        "status": "incomplete",
    }
    told: list[Any] = [
        {"role": "user", "content": [{"type": "input_text", "text": "x", "extra": 1}]},
        {"type": "message", "role": "assistant", "id": "m", "status": "completed", "content": [output]},
        asked,
        {"type": "function_call_output", "call_id": "c", "output": "a", "id": "fo"},
        {"type": "function_call_output", "call_id": "gone", "output": "a"},
    ]
    entries = bodies(told)
    assert [entry.data for entry in entries if isinstance(entry, Custom)] == [
        {"parts": {"0": {"extra": 1}}},
        {"items": {"0": {"parts": {"0": {"logprobs": [1]}}}, "1": {"status": "incomplete"}}},
        {"id": "fo"},
        told[-1],
    ]


def test_incomplete_blocks_are_kept_as_they_are():
    blocks: list[Any] = [
        {"type": "tool_use", "name": "f"},
        {"type": "thinking"},
        {"type": "redacted_thinking"},
        {"type": "text", "text": 1},
        {"type": "text", "text": "t"},
    ]
    (_, reply) = messages(bodies([ASK, {"role": "assistant", "content": blocks}]))
    assert reply.content == (*(UnknownPart(part=block) for block in blocks[:4]), Text(text="t"))


def test_a_reply_of_blocks_behind_reasoning_is_another_one():
    entries = bodies([ASK, RESPONSES[2], ANTHROPIC[1]])
    assert len({entry.id for entry in entries}) == len(entries) == 3


# ── files of requests ────────────────────────────────────────────────────────────────────────────


def test_lines_without_a_list_are_counted():
    request = json.dumps({"messages": CHAT}).encode()
    ((_, items),) = sessions_of_bytes(request + b"\n" + request[:-5])
    assert account_of(items)["bad"] == 1
    ((_, items),) = sessions_of_bytes(b"\n".join((request, b"[]", b"nonsense", b"[7]", request, b'{"messages": []}')))
    assert account_of(items)["bad"] == 4


def requests(count, prompts=1):
    return [
        {
            "messages": [
                {"role": "user", "content": f"p{at % prompts}"},
                {"role": "assistant", "content": f"answer {at}"},
            ]
        }
        for at in range(count)
    ]


def test_lists_of_one_session_are_imported_together(tmp_path, monkeypatch):
    """The stored session is read once for a file, however many answers to one prompt the file has."""
    opened = 0
    import_session = importing.import_session

    def counted(*given, **options):
        nonlocal opened
        opened += 1
        return import_session(*given, **options)

    monkeypatch.setattr(sync, "import_session", counted)
    into = MemoryStore()
    done = imported(into, tmp_path / "requests.jsonl", *requests(60, prompts=3))
    assert (opened, len(done), sum(each.added for each in done)) == (3, 3, 63)


def test_a_few_lists_are_held_at_a_time(monkeypatch):
    lines = requests(9, prompts=3)
    monkeypatch.setattr(reader, "_HELD_BYTES_MAX", 3 * len(json.dumps(lines[0])) + 20)
    found = sessions(lines, lines=True)
    assert [len(items) for _, items in found] == [2] * 9
    whole = [session.origin.id for session in reader.read_sessions(MemoryFile(jsonl(*lines), "x"))]
    assert len(whole) == 9
    assert len(set(whole)) == 3
