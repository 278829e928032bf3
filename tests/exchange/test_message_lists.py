"""ST-9: plain lists of messages of OpenAI and Anthropic become sessions; a grown list adds only what is new."""

import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.message_lists import (
    ANTHROPIC,
    CHAT,
    LISTS,
    RESPONSES,
    bodies,
    messages,
    sessions,
    sessions_of_bytes,
    told,
)
from tests.exchange.samples import EXPECTED, account_of, needs_samples, sample
from wakelog.exchange.importing import import_session
from wakelog.exchange.message_lists import reader
from wakelog.exchange.records import Record, json_records
from wakelog.exchange.sessions import ImportedEntry, session_id
from wakelog.log.codec import encode
from wakelog.log.content import Image, Prompt, Reply, Text, Thinking, ToolCall, ToolResult, Usage
from wakelog.log.entry import Custom, Message
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore

# ── detection ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        *((head, True) for head in LISTS.values()),
        *(([{"messages": head, "model": "m"}], True) for head in LISTS.values()),
        ([{"input": RESPONSES}], True),
        ([{"messages": CHAT}, {"messages": ANTHROPIC, "tools": []}], True),
        ([{"role": "user", "content": "Hi"}], True),
        ([{"role": "user", "content": "Hi", "created": 1}], False),
        ([{"role": "user", "content": "Hi"}, {"type": "other"}], False),
        ([{"role": "human", "content": "Hi"}], False),
        ([{"role": "user", "parts": [{"text": "Hi"}]}], False),
        ([{"role": "user", "content": ["Hi"]}], False),
        ([{"role": "assistant", "content": None}], False),
        ([{"role": "system", "content": "Only this"}], False),
        ([{"messages": []}], False),
        ([{"messages": [{"info": {}, "parts": []}]}], False),
        ([{"input": "Hi"}], False),
        ([{"type": "function_call", "name": "x"}], False),
        ([7], False),
        ([], False),
    ],
)
def test_only_messages_are_recognised(head, expected):
    assert reader.is_message_list(head) is expected


@needs_samples
@pytest.mark.parametrize("name", [name for name in EXPECTED if name.endswith((".jsonl", ".json"))])
def test_no_sample_of_a_tool_is_a_plain_list(name):
    """Detection is strict: messages with something more around them belong to other readers."""
    lines = itertools.islice(sample(name).lines(), 20)
    head = [record.value for record in json_records(lines) if isinstance(record, Record)]
    assert not reader.is_message_list(head)


# ── what a file is ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "tool"), [("chat", "openai"), ("responses", "openai"), ("anthropic", "anthropic")])
def test_the_same_list_in_every_kind_of_file_is_the_same_session(name, tool):
    found = LISTS[name]
    (plain, _), *_ = sessions(found)
    assert (plain.origin.tool, plain.agent, plain.started_ms) == ("messages", f"{tool}-messages", 0)
    expected = [entry.id for entry in bodies(found)]
    field = "input" if name == "responses" else "messages"
    for raw in (
        json.dumps(found, indent=2),
        json.dumps({field: found}),
        json.dumps({field: found}, indent=2),
        json.dumps([{field: found}], indent=2),
        "".join(json.dumps(message) + "\n" for message in found),
        json.dumps({field: found}) + "\n\n" + json.dumps({field: found}) + "\n",
        json.dumps(found) + "\n" + json.dumps(found) + "\n",
    ):
        for session, items in sessions_of_bytes(raw.encode()):
            assert session.origin == plain.origin
            times = 2 if raw.count("Thanks") == 2 else 1
            assert [item.body.id for item in items] == expected * times
            assert sum(account_of(items).values()) == len(found) * times


def test_the_other_fields_of_a_request_are_kept():
    request: dict[str, Any] = {
        "model": "claude-x",
        "max_tokens": 9,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hi"}],
    }
    ((session, items),) = sessions(request)
    assert (session.agent, session.model) == ("anthropic-messages", "claude-x")
    assert items[0].body.data == {"model": "claude-x", "max_tokens": 9, "system": "Be brief."}
    assert account_of(items) == {"mapped": 1, "verbatim": 1, "skipped": 0, "bad": 0}
    ((_, later),) = sessions(
        {**request, "max_tokens": 10, "messages": [*request["messages"], {"role": "assistant", "content": "Ho"}]}
    )
    assert later[1].body.id == items[1].body.id


def test_damaged_files_are_read_as_far_as_they_go():
    lines = [json.dumps(message) for message in CHAT]
    ((_, items),) = sessions_of_bytes("\n".join(['{"role": "us', *lines, "x"]).encode())
    assert account_of(items) == {"mapped": 6, "verbatim": 1, "skipped": 0, "bad": 2}
    request = json.dumps({"messages": CHAT}).encode()
    other = json.dumps({"messages": ANTHROPIC}).encode()
    (_, one), (_, two) = sessions_of_bytes(request + b'\n{"messages": 7}\n' + other)
    assert (account_of(one)["bad"], account_of(two)["bad"]) == (0, 1)
    assert sessions_of_bytes(b"") == sessions_of_bytes(b"[]") == sessions_of_bytes(b'"x"') == []


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", LISTS)
def test_every_api_tells_the_same(name):
    assert list(told(bodies(LISTS[name]))) == [
        ("prompt", "Look", ["QQ=="]),
        (
            "reply",
            "",
            [("ls", {"path": ".", "cache_control": 1} if name == "anthropic" else {"path": "."}), ("pwd", {})],
        ),
        ("result", "pwd 1", "/home"),
        ("result", "ls 0", "a.py"),
        ("reply", "One file.", []),
        ("prompt", "Thanks", []),
    ]


def test_a_chat_keeps_the_system_message_and_reasoning():
    entries = bodies(CHAT)
    assert (entries[0].custom_type, entries[0].data) == ("openai-messages:system", CHAT[0])
    reply = messages(entries)[1]
    assert reply.provider == "openai-chat"
    assert reply.content[0] == Thinking(thinking="Hm", bound={"field": "reasoning_content"})
    assert reply.content[1] == ToolCall(id="c1", name="ls", input={"path": "."}, bound={"spaced": True})


def test_items_of_responses_keep_what_the_api_takes_back():
    reply, *_, last = [message for message in messages(bodies(RESPONSES)) if isinstance(message, Reply)]
    assert reply.provider == "openai"
    assert reply.content == (
        Thinking(thinking="Hm", signature="enc", bound={"id": "rs1", "summary": [2]}),
        ToolCall(id="c1", name="ls", input={"path": "."}, bound={"id": "fc1", "after": "rs1"}),
        ToolCall(id="c2", name="pwd", input={}, bound={"id": "fc2", "after": "rs1"}),
    )
    assert last.content == (Text(text="One file.", bound={"id": "m1"}),)


def test_replies_of_anthropic_keep_signatures_usage_and_model():
    usage = {"input_tokens": 5, "output_tokens": 6, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 8}
    reply: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": usage,
        "content": [
            {"type": "redacted_thinking", "data": "x"},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "text", "text": "So", "citations": [{"type": "c"}]},
        ],
    }
    (_, found) = messages(bodies([ANTHROPIC[0], reply]))
    assert found == Reply(
        content=(
            Thinking(bound={"type": "redacted_thinking", "data": "x"}),
            Text(text="", bound=reply["content"][1]),
            Text(text="So", bound={"citations": [{"type": "c"}]}),
        ),
        model="claude-x",
        provider="anthropic",
        stop_reason="tools",
        usage=Usage(input_tokens=5, output_tokens=6, cache_read_tokens=7, cache_write_tokens=8),
        request_id="msg_1",
    )


def test_results_belong_to_the_last_open_call_with_their_id():
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "ls", "input": {}}]}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "x"}]}
    entries = bodies([ANTHROPIC[0], call, answer, call, answer, answer])
    results = [entry for entry in entries if isinstance(entry, Message) and isinstance(entry.message, ToolResult)]
    replies = [entry.id for entry in entries if isinstance(entry, Message) and isinstance(entry.message, Reply)]
    assert [entry.message.reply_id for entry in results] == replies
    assert (entries[-1].custom_type, entries[-1].data) == ("anthropic-messages:tool_result", answer["content"][0])
    assert bodies([*CHAT[:2], CHAT[3]])[-1].custom_type == "openai-messages:tool"


def test_an_error_is_an_error_and_a_call_without_a_result_stays_open():
    results = [message for message in messages(bodies(ANTHROPIC)) if isinstance(message, ToolResult)]
    assert [(result.status, result.is_error) for result in results] == [("error", True), (None, False)]
    assert not [message for message in messages(bodies(ANTHROPIC[:2])) if isinstance(message, ToolResult)]


def test_parts_without_a_counterpart_are_kept():
    parts = [
        {"type": "image_url", "image_url": {"url": "https://example.com/x.png"}},
        {"type": "file", "file": {"file_id": "f"}},
        {"type": "document", "source": {}},
    ]
    (prompt,) = messages(bodies([{"role": "user", "content": [*parts, {"type": "text", "text": "x"}], "name": "Ada"}]))
    assert [part.part for part in prompt.parts[:3]] == parts
    assert bodies([{"role": "user", "content": "x", "name": "Ada"}])[-1].data == {"name": "Ada"}


def test_the_old_function_calls_are_calls():
    old = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "not json"}},
        {"role": "function", "name": "f", "content": "1"},
    ]
    assert list(told(bodies(old)))[1:] == [("reply", "", [("f", "not json")]), ("result", "f 0", "1")]


def test_a_custom_call_and_items_of_the_model_are_kept():
    items = [
        {"role": "user", "content": "Go"},
        {"type": "web_search_call", "id": "ws", "status": "completed"},
        {"type": "custom_tool_call", "id": "ct", "call_id": "c", "name": "patch", "input": "***", "namespace": "n"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"},
        {"type": "item_reference", "id": "x"},
    ]
    entries = bodies(items)
    assert messages(entries)[1].content == (
        Text(text="", bound={"item": items[1]}),
        ToolCall(id="c", name="patch", input="***", bound={"id": "ct", "custom": {"namespace": "n"}}),
    )
    assert entries[-1].custom_type == "openai-messages:item_reference"


# ── identity ─────────────────────────────────────────────────────────────────────────────────────


def test_marks_for_caches_and_plain_texts_do_not_change_an_entry():
    """Programs that talk to Anthropic mark the last messages of each request, and make lists of texts for that."""
    plain = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    mark = {"cache_control": {"type": "ephemeral"}}
    marked = [{"role": "user", "content": [{"type": "text", "text": "Hi", **mark}]}, plain[1]]
    assert [entry.id for entry in bodies(plain)] == [entry.id for entry in bodies(marked)]
    call = messages(bodies(ANTHROPIC))[1].content[1]
    assert call.input == {"path": ".", "cache_control": 1}


def test_lists_that_begin_alike_are_branches_of_one_session():
    ((one, first),) = sessions(CHAT)
    ((two, second),) = sessions([*CHAT[:5], {"role": "assistant", "content": "Another answer."}])
    assert one.origin.id == two.origin.id
    assert [item.body.id for item in first[:5]] == [item.body.id for item in second[:5]]
    assert first[5].body.id != second[5].body.id
    assert first[5].body.parent_id == second[5].body.parent_id


def test_a_system_message_alone_does_not_make_two_sessions_one():
    other = [CHAT[0], {"role": "user", "content": "Something else"}]
    assert sessions(CHAT)[0][0].origin.id != sessions(other)[0][0].origin.id


@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_has_grown_gives_the_entries_it_gave_before(name):
    """At the end there may be one reply of Responses to which items are added: it is another entry then."""
    whole = bodies(LISTS[name])
    for count in range(2, len(LISTS[name])):
        begun = bodies(LISTS[name][:count])
        growing = name == "responses" and LISTS[name][count].get("type") == "function_call"
        certain = begun[:-1] if growing else begun
        assert certain == whole[: len(certain)]
        assert sessions(LISTS[name][:count])[0][0].origin == sessions(LISTS[name])[0][0].origin
        assert not growing or begun[-1].id not in {entry.id for entry in whole}


def test_importing_again_adds_only_what_is_new():
    """A grown list adds messages, the same one nothing, and another one with the same beginning a branch."""
    store = MemoryStore()
    added = []
    for found in (CHAT[:5], CHAT, CHAT, [*CHAT[:5], {"role": "assistant", "content": "Other."}]):
        ((session, items),) = sessions(found)
        added.append(import_session(store, msgspec.structs.replace(session, items=items)).added)
    assert added == [5, 2, 0, 1]
    tree = Session(store, store.name(session_id(session.origin.tool, session.origin.id))).read().tree
    texts = {entry.id: entry.value.message.text for entry in tree.nodes.values() if isinstance(entry.value, Message)}
    under = {text: texts.get(tree.parent(node) or "") for node, text in texts.items()}
    assert (under["Other."], under["One file."], texts[tree.head or ""]) == ("a.py", "a.py", "Other.")


# ── properties ───────────────────────────────────────────────────────────────────────────────────

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "id", "text", "call_id", "tool_calls"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
known = st.sampled_from([message for found in LISTS.values() for message in found])
mutated = st.builds(
    lambda message, key, value: {**message, key: value},
    known,
    st.sampled_from(["role", "content", "type", "tool_calls", "call_id", "tool_call_id", "output", "name", "summary"]),
    json_values | st.sampled_from(["user", "assistant", "tool", "reasoning", "function_call"]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(known | mutated | json_values, max_size=6), st.booleans())
def test_no_content_makes_the_reader_fail_and_every_record_is_counted(found, lines):
    assert reader.is_message_list(found) in (True, False)
    for session, items in sessions(found, lines=lines):
        ids = [item.body.id for item in items if isinstance(item, ImportedEntry)]
        assert len(set(ids)) == len(ids) or lines
        for item in items:
            if isinstance(item, ImportedEntry):
                encode(item.body)
        is_own = all(isinstance(value, dict) and "messages" not in value and "input" not in value for value in found)
        if is_own and found and not lines:
            assert sum(account_of(items).values()) == len(found)
        assert session.agent in (reader.OPENAI, reader.ANTHROPIC)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_make_the_reader_fail(raw):
    sessions_of_bytes(raw)
    sessions_of_bytes(b'{"messages": ' + raw)


def test_deep_nesting_is_a_bad_record():
    deep = "[" * 300 + "]" * 300
    raw = f'[{{"role": "user", "content": "Hi"}}, {{"role": "user", "content": {deep}}}]'
    ((_, items),) = sessions_of_bytes(raw.encode())
    assert account_of(items)["bad"] == 1
    ((_, items),) = sessions_of_bytes(
        f'{{"tools": {deep}, "messages": [{{"role": "user", "content": "Hi"}}]}}'.encode()
    )
    assert account_of(items) == {"mapped": 1, "verbatim": 0, "skipped": 0, "bad": 1}


def test_a_prompt_has_its_image():
    (prompt, *_) = messages(bodies(CHAT))
    assert prompt == Prompt(content=(Text(text="Look"), Image(mime_type="image/png", data="QQ==")))
    assert isinstance(bodies(CHAT)[0], Custom)
