"""ST-9: sessions of pi become entries, and every record is accounted for."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.pi_records import (
    SESSION,
    Chain,
    bodies,
    call,
    check_session,
    conversation,
    first_version,
    header,
    json_values,
    messages,
    mutated,
    only,
    own,
    read,
    stamp,
    tree_of,
)
from tests.exchange.samples import EXPECTED, MemoryFile, account_of, entries_of, jsonl, needs_samples, sample
from wakelog.exchange.pi import reader as pi
from wakelog.log.codec import encode
from wakelog.log.content import Image, Note, Prompt, Reply, Text, Thinking, ToolCall, ToolResult, UnknownPart, Usage
from wakelog.log.entry import (
    Cancelled,
    Compaction,
    Custom,
    Failed,
    Label,
    Message,
    ModelChange,
    SessionRenamed,
    Setting,
)

DIFFERENCES: dict[str, dict[str, int]] = {}
"""Samples whose figures differ from the counted facts, with the reason. There are none."""


# ── detection ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ([header()], True),
        ([header(version=2)], True),
        ([{"type": "session", "id": "a", "timestamp": stamp(0), "provider": "x", "modelId": "y"}], True),
        ([{"v": 1, "seq": 0, "type": "session", "id": "s", "version": 1}], False),
        ([{"type": "session", "id": "s", "version": 1}], False),
        ([{"type": "session", "id": 7, "version": 3}], False),
        ([{"type": "session_meta", "payload": {}}], False),
        ([{"type": "message"}, header()], False),
        (["text"], False),
        ([], False),
    ],
)
def test_it_is_recognised_by_its_header(head, expected):
    assert pi.is_pi(head) is expected


# ── the session ──────────────────────────────────────────────────────────────────────────────────


def test_a_session_has_its_origin_and_its_last_title():
    session = read(*conversation())
    assert (session.origin.tool, session.origin.id, session.origin.version) == ("pi", SESSION, "3")
    assert (session.cwd, session.title, session.agent) == ("/repo", "Second title", "pi")
    assert session.started_ms == 1_772_359_200_000
    assert [entry.title for entry in entries_of(session) if isinstance(entry, SessionRenamed)] == [
        "First title",
        "Second title",
    ]


def test_a_title_may_be_removed():
    chain = Chain(header()).say("u1", "user", "Hi").add("session_info", "i1", name="A").add("session_info", "i2")
    assert read(*chain.records).title is None


@pytest.mark.parametrize(
    ("fields", "parent"),
    [
        ({"parentSession": "/h/.pi/agent/sessions/--repo--/2026-03-01T10-00-00-000Z_my_own.id.jsonl"}, "my_own.id"),
        ({"branchedFrom": "C:\\pi\\2026-03-01T10-00-00-000Z_abc.jsonl"}, "abc"),
        ({"parentSession": "abc"}, "abc"),
        ({"parentSession": 7}, ""),
        ({}, ""),
    ],
)
def test_a_fork_names_its_parent(fields, parent):
    assert read(header(**fields)).origin.parent == parent


def test_the_header_of_version_1_has_the_model():
    session = read({"type": "session", "id": "a", "timestamp": stamp(0), "provider": "p", "modelId": "m"})
    assert (session.provider, session.model, session.origin.version) == ("p", "m", "1")


def test_a_file_without_a_header_is_read():
    records = conversation()[1:]
    session = read(*records)
    assert session.origin.id.startswith("unnamed-")
    assert session.started_ms == 0
    check_session(list(session.items), jsonl(*records))


def test_an_empty_file_has_no_session():
    assert list(pi.read_sessions(MemoryFile(b""))) == []
    assert list(pi.read_sessions(MemoryFile(b"not json\n"))) == []


# ── records ──────────────────────────────────────────────────────────────────────────────────────


def test_every_record_has_its_entry():
    records = conversation()
    session = read(*records)
    items = list(session.items)
    check_session(items, jsonl(*records))
    assert account_of(items) == {"mapped": len(records) - 3, "verbatim": 3, "skipped": 0, "bad": 0}
    kept = [item.body for item in items if getattr(item, "is_verbatim", False)]
    assert [entry.custom_type for entry in kept] == ["pi:session", "pi:system", "pi:future_type"]
    assert [entry.data for entry in kept] == [records[0], records[3], next(r for r in records if r["id"] == "f1")]


def test_settings_and_models():
    entries = bodies(*conversation())
    assert only(entries, ModelChange).model == "claude-x"
    assert only(entries, ModelChange).provider == "anthropic"
    assert (only(entries, Setting).key, only(entries, Setting).value) == ("thinkingLevel", "high")


def test_prompts_have_their_images():
    prompt = messages(bodies(*conversation()), Prompt)[0]
    assert prompt.content == (Text(text="Look"), Image(mime_type="image/png", data="QQ=="))


def test_a_reply_has_thinking_calls_usage_and_cost():
    reply = messages(bodies(*conversation()), Reply)[0]
    assert reply == Reply(
        content=(Thinking(thinking="Hm", signature="sig"), ToolCall(id="c1", name="bash", input={"path": "a"})),
        model="claude-x",
        provider="anthropic",
        stop_reason="tools",
        request_id="msg_1",
        usage=Usage(input_tokens=10, output_tokens=5, cache_read_tokens=3, cache_write_tokens=2, cost_micros=17_400),
    )


def test_a_result_names_its_reply_and_keeps_its_details():
    records = conversation()
    entries = bodies(*records)
    result = only([e for e in entries if isinstance(e, Message) and isinstance(e.message, ToolResult)], Message)
    assert (result.message.reply_id, result.message.tool_call_id) == (own("r1", records), "c1")
    assert (result.message.status, result.message.tool_name, result.message.text) == ("ok", "bash", "ok")
    fields = next(entry for entry in entries if entry.parent_id == result.id)
    assert (fields.custom_type, fields.data) == ("pi:fields", {"details": {"n": 1}})


def test_a_failed_result():
    chain = Chain(header()).say("r1", "assistant", [call("c1")])
    chain.say("t1", "toolResult", "no such file", toolCallId="c1", toolName="read", isError=True)
    result = messages(bodies(*chain.records), ToolResult)[0]
    assert (result.status, result.is_error, result.text) == ("error", True, "no such file")


def test_a_result_without_a_call_is_kept_as_it_is():
    """Rule 3: nothing is invented; a result is never attached to another call."""
    chain = Chain(header()).say("u1", "user", "Hi").say("t1", "toolResult", "x", toolCallId="lost", toolName="read")
    entries = bodies(*chain.records)
    assert messages(entries, ToolResult) == []
    assert entries[-1].custom_type == "pi:toolResult"
    assert entries[-1].data == chain.records[-1]


def test_a_result_belongs_to_the_nearest_call_with_its_id():
    """Local models number their calls anew in each reply, and two processes may write into one file."""
    chain = Chain(header()).say("u1", "user", "Hi")
    chain.say("a", "assistant", [call("call_0")], parent="u1").say("b", "assistant", [call("call_0")], parent="u1")
    chain.say("ta", "toolResult", "of a", parent="a", toolCallId="call_0")
    chain.say("tb", "toolResult", "of b", parent="b", toolCallId="call_0")
    results = messages(bodies(*chain.records), ToolResult)
    assert [result.reply_id for result in results] == [own("a", chain.records), own("b", chain.records)]


def test_two_calls_with_one_id_in_one_reply():
    chain = Chain(header()).say("r", "assistant", [call("c"), call("c")])
    chain.say("t1", "toolResult", "1", toolCallId="c").say("t2", "toolResult", "2", toolCallId="c")
    entries = bodies(*chain.records)
    ids = [each.id for each in messages(entries, Reply)[0].tool_calls]
    assert [result.tool_call_id for result in messages(entries, ToolResult)] == ids
    assert len(set(ids)) == 2


def test_aborted_and_failed_replies():
    records = conversation()
    entries = bodies(*records)
    aborted, failed = messages(entries, Reply)[1:]
    assert (aborted.stop_reason, aborted.text, [each.id for each in aborted.tool_calls]) == ("aborted", "Half", ["c2"])
    assert (failed.stop_reason, failed.content) == ("error", ())
    cancelled, failure = only(entries, Cancelled), only(entries, Failed)
    assert (cancelled.parent_id, cancelled.reason) == (own("r2", records), "stop")
    assert (failure.parent_id, failure.error.message) == (own("r3", records), "529 overloaded")


def test_labels_are_about_their_targets_and_are_never_parents():
    chain = Chain(header()).say("u1", "user", "A").add("label", "l1", targetId="u1", label="here")
    chain.say("r1", "assistant", "B").add("label", "l2", targetId="u1").add("label", "l3", targetId="gone", label="x")
    entries = bodies(*chain.records)
    place = own("u1", chain.records)
    labels = [entry for entry in entries if isinstance(entry, Label)]
    assert [(label.parent_id, label.target_id, label.label) for label in labels] == [
        (place, place, "here"),
        (place, place, ""),
    ]
    assert (
        next(entry for entry in entries if isinstance(entry, Message) and entry.message.text == "B").parent_id == place
    )
    assert entries[-1].custom_type == "pi:label"


def test_notes_of_extensions():
    notes = messages(bodies(*conversation()), Note)
    assert [(note.custom_type, note.text) for note in notes] == [
        ("pi:todo", "Two are open"),
        ("pi:lint", "From a hook"),
    ]
    custom = {entry.custom_type: entry for entry in bodies(*conversation()) if isinstance(entry, Custom)}
    assert (custom["pi:custom:todo"].data, custom["pi:custom:todo"].in_context) == ({"open": 2}, False)


def test_commands_of_a_person_are_in_the_context_unless_excluded():
    shown = {"role": "bashExecution", "command": "ls", "output": "a b", "exitCode": 2, "cancelled": False}
    chain = Chain(header()).add("message", "e1", message=shown)
    chain.add("message", "e2", message={**shown, "output": "secret", "excludeFromContext": True})
    first, second = bodies(*chain.records)[1:]
    assert "".join(part.text for part in first.content) == "A command that the user ran:\n$ ls\na b(exit code 2)"
    assert first.data == {key: value for key, value in shown.items() if key != "output"}
    assert (first.in_context, second.in_context) == (True, False)


def test_unknown_parts_are_kept():
    chain = Chain(header()).say("u1", "user", [{"type": "video", "url": "x"}, "bare"])
    [prompt] = messages(bodies(*chain.records), Prompt)
    assert prompt.content == (UnknownPart(part={"type": "video", "url": "x"}), UnknownPart(part="bare"))


# ── strange content ──────────────────────────────────────────────────────────────────────────────


@given(mutated(conversation() + first_version()[1:]))
@settings(max_examples=120)
def test_strange_records_never_raise_and_are_accounted_for(records):
    raw = jsonl(*records)
    for session in pi.read_sessions(MemoryFile(raw)):
        items = list(session.items)
        check_session(items, raw)
        for item in items:
            encode(item.body)


_TYPES = st.sampled_from(sorted({record["type"] for record in conversation()} | {"leaf", "reset", "x"}))
_ROLES = st.sampled_from(["user", "assistant", "toolResult", "system", "custom", "bashExecution", "branchSummary", "?"])
_FIELDS = st.sampled_from(
    [
        "id",
        "parentId",
        "timestamp",
        "summary",
        "targetId",
        "firstKeptEntryId",
        "firstKeptEntryIndex",
        "name",
        "customType",
        "content",
        "message",
        "version",
        "label",
        "retainedTail",
        "appendMode",
        "modelId",
        "data",
        "thinkingLevel",
    ]
)
_MESSAGES = st.builds(
    lambda role, rest: {**rest, "role": role},
    _ROLES,
    st.dictionaries(
        st.sampled_from(["content", "toolCallId", "usage", "stopReason", "command", "summary", "details", "timestamp"]),
        json_values,
        max_size=5,
    ),
)
_RECORDS = st.builds(
    lambda kind, rest: {**rest, "type": kind}, _TYPES, st.dictionaries(_FIELDS, json_values | _MESSAGES, max_size=6)
)


@given(st.lists(_RECORDS, max_size=8), st.booleans())
@settings(max_examples=120)
def test_random_records_never_raise_and_are_accounted_for(records, has_header):
    raw = jsonl(*([header()] if has_header else []), *records)
    for session in pi.read_sessions(MemoryFile(raw)):
        check_session(list(session.items), raw)


def test_damaged_lines_are_reported_in_their_places():
    raw = jsonl(*conversation()[:6]) + b'{"type":"message","id":"torn' + jsonl(*conversation()[6:8]) + b"\n{"
    [session] = pi.read_sessions(MemoryFile(raw))
    items = list(session.items)
    check_session(items, raw)
    assert account_of(items)["bad"] == 2


def test_lone_surrogates():
    """JavaScript cuts texts in the middle of a character, and writes the half as an escape."""
    text = rb'"\ud83d"'
    line = b'{"type":"message","id":%s,"message":{"role":"user","content":%s}}\n' % (text, text)
    raw = jsonl(header()) + line + b'{"type":"session_info","name":%s}\n' % text
    [session] = pi.read_sessions(MemoryFile(raw))
    check_session(list(session.items), raw)


@pytest.mark.parametrize("time", ["1e400", "NaN", "-5", '"soon"', "1" + "0" * 40, "[]"])
def test_impossible_times(time):
    raw = jsonl(header()) + b'{"type":"message","id":"u","timestamp":%s,"message":{"role":"user"}}\n' % time.encode()
    [session] = pi.read_sessions(MemoryFile(raw))
    entries = entries_of(session)
    assert [entry.timestamp for entry in entries] == [stamp(0)] * len(entries)


# ── samples ──────────────────────────────────────────────────────────────────────────────────────

MADE_HERE = {
    "pi-0.87.1/2026-11-16T18-14-33-803Z_01a1e591-664a-7149-bf3a-6d54d8bcb574.jsonl": (12, 3, 4, 1, 1),
    "pi-0.87.1/2026-11-16T18-15-12-683Z_01a1e591-fe2a-7448-9b04-35d07876288d.jsonl": (14, 4, 5, 1, 1),
    "pi-0.87.1/crash-in-tool/2026-11-16T18-15-36-612Z_01a1e592-5ba2-73a2-adc0-1fb8535b2896.jsonl": (6, 1, 1, 1, 0),
    "pi-0.73.1/2026-11-16T18-32-23-004Z_01a1e5a1-b6db-75e6-a6ff-02114235967a.jsonl": (7, 1, 2, 1, 1),
}
"""Samples that pi itself wrote, with their records, prompts, replies, calls and results (its manifest)."""
FACTS = {name: EXPECTED[name] for name in EXPECTED if name.startswith("pi/")} | {
    f"made-here/{name}": {
        "records": records,
        "bad_lines": 0,
        "tool_calls": calls,
        "tool_results": results,
        "dangling_calls": calls - results,
        "types": {"message:user": prompts, "message:assistant": replies},
    }
    for name, (records, prompts, replies, calls, results) in MADE_HERE.items()
}


@needs_samples
@pytest.mark.parametrize("name", FACTS)
def test_samples_have_the_counted_facts(name):
    source, facts = sample(name), {**FACTS[name], **DIFFERENCES.get(name, {})}
    [session] = pi.read_sessions(source)
    items = list(session.items)
    check_session(items, source.content())
    entries = [item.body for item in items]
    calls = {
        (entry.id, each.id)
        for entry in entries
        if isinstance(entry, Message) and isinstance(entry.message, Reply)
        for each in entry.message.tool_calls
    }
    results = messages(entries, ToolResult)
    answered = {(result.reply_id, result.tool_call_id) for result in results}
    assert sum(account_of(items).values()) == facts["records"] + facts["bad_lines"]
    assert len(calls) == facts.get("tool_calls", 0)
    assert len(results) == facts.get("tool_results", 0)
    assert len(calls - answered) == facts.get("dangling_calls", 0)
    types = facts["types"]
    assert len(messages(entries, Prompt)) == types.get("message:user", 0)
    assert len(messages(entries, Reply)) == types.get("message:assistant", 0)
    assert sum(isinstance(entry, Compaction) for entry in entries) == types.get("compaction", 0)
    assert tree_of(entries).damage == []


@needs_samples
@pytest.mark.parametrize("name", [name for name in FACTS if "before-compaction" not in name])
def test_a_sample_that_has_grown_gives_the_same_entries_and_new_ones(name):
    lines = sample(name).content().splitlines(keepends=True)
    whole = entries_of(next(pi.read_sessions(MemoryFile(b"".join(lines)))))
    for size in range(1, len(lines)):
        part = entries_of(next(pi.read_sessions(MemoryFile(b"".join(lines[:size])))))
        assert part == whole[: len(part)]


@needs_samples
def test_the_sample_of_a_fork_repeats_the_ids_of_its_parent():
    parent, fork = (next(pi.read_sessions(sample(name))) for name in FACTS if "pi-0.87.1/2026" in name)
    assert fork.origin.parent == parent.origin.id
    copied, own_entries = entries_of(parent), entries_of(fork)
    assert [msgspec.structs.replace(entry, parent_id=None) for entry in own_entries[1 : len(copied)]] == [
        msgspec.structs.replace(entry, parent_id=None) for entry in copied[1:]
    ]


@needs_samples
def test_the_real_session_of_version_1():
    entries = entries_of(next(pi.read_sessions(sample("pi/before-compaction.jsonl"))))
    kept = [entry.first_kept_entry_id for entry in entries if isinstance(entry, Compaction)]
    assert None not in kept
    assert sum(isinstance(entry, Cancelled) for entry in entries) == 18
    assert sum(isinstance(entry, Failed) for entry in entries) == 1
    usage = [reply.usage for reply in messages(entries, Reply)]
    assert all(each.cost_micros is not None for each in usage)
