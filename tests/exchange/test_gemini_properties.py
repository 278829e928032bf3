"""ST-9: properties of the Gemini CLI reader: files that grow, and records of any content."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.gemini_records import (
    SESSION,
    answered,
    check_session,
    conversation,
    function_call,
    metadata,
    model,
    read,
    response,
    user,
    uuid,
)
from tests.exchange.pi_records import json_values, messages, mutated
from tests.exchange.samples import MemoryFile, entries_of, jsonl, needs_samples, sample
from wakelog.exchange.gemini.placement import Turn, aligned
from wakelog.exchange.gemini.reader import is_gemini, read_sessions
from wakelog.exchange.importing import import_session
from wakelog.exchange.sessions import session_id
from wakelog.log.codec import encode
from wakelog.log.content import Reply, ToolResult, Usage
from wakelog.projections.context import build_context
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore

RECORDS = conversation()
RAW = jsonl(*RECORDS)
MADE = "made-here/gemini-cli-0.61.0"


def _read(raw: bytes, known: Any = ()) -> list[list[Any]]:
    found = read_sessions(MemoryFile(raw, "chats/session-x.jsonl"), set(known).__contains__)
    return [entries_of(session) for session in found]


def _line_ends(raw: bytes) -> list[int]:
    return [at + 1 for at, byte in enumerate(raw) if byte == 10]


def _check_growth(raw: bytes, cuts: list[int]) -> list[Any]:
    """Import the beginning of a file up to each of the cuts, in order, each time with what is known by then."""
    before: list[list[Any]] = []
    known: set[str] = set()
    for cut in cuts:
        after = _read(raw[:cut], known)
        assert len(after) >= len(before)
        for found, earlier in zip(after, before, strict=False):
            assert found[: len(earlier)] == earlier
        known |= {entry.id for found in after for entry in found}
        before = after
    return before[0] if before else []


# ── files that grow ──────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(1, len(RAW)), max_size=5).map(sorted))
@settings(max_examples=60)
def test_a_file_that_has_grown_repeats_what_was_imported(cuts):
    ends = _line_ends(RAW)
    _check_growth(RAW, [*(max(end for end in (0, *ends) if end <= cut) for cut in cuts), len(RAW)])


def test_after_every_record():
    """The worst case: an import after each record. Each call, each result and all usage is still there once."""
    found, at_once = _check_growth(RAW, _line_ends(RAW)), _read(RAW)[0]
    for entries in (found, at_once):
        assert [call.id for reply in messages(entries, Reply) for call in reply.tool_calls] == ["c1"]
        assert len(messages(entries, ToolResult)) == 1
    usages = [sum((reply.usage or Usage() for reply in messages(each, Reply)), Usage()) for each in (found, at_once)]
    assert usages[0] == usages[1]
    assert [reply.text for reply in messages(found, Reply) if reply.text] == [
        reply.text for reply in messages(at_once, Reply) if reply.text
    ]


def test_without_knowledge_of_earlier_imports_only_a_growing_reply_differs():
    whole = _read(RAW)[0]
    for cut in _line_ends(RAW):
        found = _read(RAW[:cut])[0]
        growing = [entry for entry in found if entry not in whole]
        assert [entry for entry in found if entry in whole] == whole[: len(found) - len(growing)]
        assert not growing or RAW[:cut].count(uuid("r1").encode()) == 1


def test_a_call_that_is_recorded_after_an_import():
    """An empty reply was imported as a lost call; the call comes as a reply of its own."""
    first = model("r1")
    records = [metadata(), user("u1", "Go"), first, {**first, "toolCalls": [answered("c1")]}, model("r2", "Done", 4)]
    raw = jsonl(*records)
    entries = _check_growth(raw, [_line_ends(raw)[2], len(raw)])
    replies = messages(entries, Reply)
    assert [(len(reply.tool_calls), reply.usage is None) for reply in replies] == [(0, False), (1, True), (0, False)]
    assert len(messages(entries, ToolResult)) == 1


def test_a_store_that_is_brought_up_to_date_after_every_record():
    """The model sees the same as after one import, and nothing is stored twice."""
    store, whole = MemoryStore(), MemoryStore()
    name = session_id("gemini-cli", SESSION)
    for cut in _line_ends(RAW):
        known = {entry.id for entry in Session(store, name).entries()} if cut > _line_ends(RAW)[0] else set()
        [foreign] = read_sessions(MemoryFile(RAW[:cut], "chats/session-x.jsonl"), known.__contains__)
        import_session(store, foreign)
    [foreign] = read_sessions(MemoryFile(RAW, "chats/session-x.jsonl"))
    import_session(whole, foreign)
    seen = [build_context(Session(each, name).read().tree.branch()).messages for each in (store, whole)]
    texts = [[message.text for message in context if message.text] for context in seen]
    assert texts[0] == texts[1] == ["Summary", "More", "Ten lines", "And this?", "A picture"]
    assert import_session(store, read(*RECORDS)).account.read == len(RECORDS)


def _document(*listed: Any) -> bytes:
    return json.dumps({**metadata(), "messages": listed}, indent=2).encode()


def _check_documents(*versions: tuple[Any, ...]) -> list[Any]:
    """Import versions of a JSON document one after the other. The entries of each begin with those of the last."""
    found: list[Any] = []
    known: set[str] = set()
    for version in versions:
        [after] = _read(_document(*version), known)
        assert [entry.id for entry in after[: len(found)]] == [entry.id for entry in found]
        known |= {entry.id for entry in after}
        found = after
    return found


def test_a_document_that_grows_has_each_reply_and_its_usage_once():
    """It has the newest form of a message only: calls that come later are replies of their own."""
    prompt, first, last = user("u1", "Go"), model("r1", "I look"), model("r2", "Done", 9)
    calls = [answered("c1", "one"), answered("c2", "two"), answered("c3", "three")]
    steps = [(prompt, first), *((prompt, {**first, "toolCalls": calls[:count]}) for count in (1, 3))]
    entries = _check_documents(*steps, (*steps[-1], last))
    replies = messages(entries, Reply)
    assert [(reply.text, [call.id for call in reply.tool_calls]) for reply in replies] == [
        ("I look", []),
        ("", ["c1"]),
        ("", ["c2", "c3"]),
        ("Done", []),
    ]
    assert [reply.usage is not None for reply in replies] == [True, False, False, True]
    assert [result.text for result in messages(entries, ToolResult)] == ["one", "two", "three"]


def test_a_document_whose_call_was_open_gets_its_result():
    prompt, call = user("u1", "Go"), answered("c1", "out")
    opened = {**call, "status": "executing"}
    more = [call, answered("c2", "more")]
    entries = _check_documents(
        (prompt, model("r1", "", toolCalls=[opened])),
        (prompt, model("r1", "", toolCalls=more), model("r2", "Done", 9)),
    )
    assert [type(message).__name__ for message in messages(entries)] == [
        "Prompt",
        "Reply",
        "ToolResult",
        "Reply",
        "ToolResult",
        "Reply",
    ]


def test_a_lost_call_of_a_document_that_is_recorded_later():
    prompt = user("u1", "Go")
    entries = _check_documents(
        (prompt, model("r1")), (prompt, model("r1", toolCalls=[answered("c1")]), model("r2", "Done", 9))
    )
    assert [len(reply.tool_calls) for reply in messages(entries, Reply)] == [0, 1, 0]


def test_usage_that_is_recorded_after_a_reply():
    """It is that of the reply, whenever the file is imported; with a call, that of the reply that has the call."""
    start, bare = [metadata(), user("u1", "Go")], model("r1", "I look", tokens=None)
    counted = model("r1", "I look")
    called = {**counted, "toolCalls": [answered("c1")]}

    def usages(*records: Any, known: Any = ()) -> list[bool]:
        return [reply.usage is not None for reply in messages(_read(jsonl(*start, *records), known)[0], Reply)]

    first = {entry.id for entry in _read(jsonl(*start, bare))[0]}
    assert usages(bare, counted) == usages(bare, counted, known=first) == [True]
    assert usages(bare, counted, called) == [True]
    assert usages(bare, counted, called, known=first) == [True, False]
    assert usages(bare, called, known=first) == [False, True]


@pytest.mark.parametrize(
    "changed", [{"content": "I look at it"}, {"thoughts": [{"description": "Hm"}]}, {"model": "other"}]
)
@pytest.mark.parametrize("is_between", [False, True])
def test_a_message_that_is_recorded_again_with_a_call_and_other_content(changed, is_between):
    """The call is new, and the message is kept as it is now. That holds, too, if another record stands between."""
    first = model("r1", "I lo")
    again = {**first, **changed, "toolCalls": [answered("c1")]}
    info = {"id": uuid("i1"), "timestamp": "", "type": "info", "content": "Update available"}
    raw = jsonl(metadata(), user("u1", "Go"), first, *([info] if is_between else []), again)
    entries = _check_growth(raw, [_line_ends(raw)[2], len(raw)])
    [kept] = [entry for entry in entries if getattr(entry, "custom_type", "") == "gemini-cli:changed_message"]
    assert kept.data == again
    assert [call.id for reply in messages(entries, Reply) for call in reply.tool_calls] == ["c1"]


@needs_samples
@pytest.mark.parametrize(
    "name", [f"{MADE}/session-2026-11-16T18-19-bb744043.jsonl", "gemini-cli/kv-gemini-tool-error.jsonl"]
)
def test_real_sessions_that_grow(name):
    raw = sample(name).content()
    _check_growth(raw, [*_line_ends(raw), len(raw)])


# ── records of any content ───────────────────────────────────────────────────────────────────────


def _check(raw: bytes) -> None:
    for session in read_sessions(MemoryFile(raw, "chats/session-x.jsonl")):
        items = list(session.items)
        check_session(items, raw)
        for item in items:
            if hasattr(item, "body"):
                encode(item.body)


@given(mutated(RECORDS))
@settings(max_examples=120)
def test_changed_records(records):
    _check(jsonl(*records))


@given(mutated(RECORDS), st.data())
@settings(max_examples=60)
def test_changed_records_that_grow(records, data):
    raw = jsonl(metadata(), *records)
    ends = [0, *_line_ends(raw)]
    _check_growth(raw, [*sorted(data.draw(st.lists(st.sampled_from(ends), max_size=4))), len(raw)])


_PARTS: st.SearchStrategy[Any] = st.sampled_from(
    [
        {"text": "A"},
        {"text": "B"},
        {"text": ""},
        {"text": "/x"},
        {"text": "H", "thought": True},
        function_call("c1"),
        function_call("c2"),
        response("c1", "x"),
        response("c2", "y"),
        {"functionResponse": 7},
        {"functionCall": {}},
        7,
        "text",
        None,
    ]
)
_CONTENTS = st.one_of(st.lists(_PARTS, max_size=3), st.text(max_size=3), json_values)
_MESSAGES = st.builds(
    lambda name, kind, content, calls: {
        **(user if kind == "user" else model)(name, content),
        "type": kind,
        **({"toolCalls": calls} if calls else {}),
    },
    st.sampled_from("abcdef"),
    st.sampled_from(("user", "gemini", "user", "gemini", "info", "model")),
    _CONTENTS,
    st.lists(
        st.builds(
            lambda call, status, text: answered(call, text, status=status),
            st.sampled_from(("c1", "c2", "c3")),
            st.sampled_from(("success", "error", "executing")),
            st.sampled_from("xy"),
        ),
        max_size=2,
    ),
)
_OPERATIONS = st.one_of(
    _MESSAGES,
    _MESSAGES,
    st.lists(_MESSAGES, max_size=4).map(lambda listed: {"$set": {"messages": listed}}),
    st.sampled_from("abcdef").map(lambda name: {"$rewindTo": uuid(name)}),
    st.dictionaries(st.sampled_from(("id", "$set", "$rewindTo", "sessionId", "type", "content")), json_values),
)


@given(st.lists(_OPERATIONS, max_size=10), st.data())
@settings(max_examples=150)
def test_any_operations(operations, data):
    """Never an error, every record accounted for, and a file that grows repeats what was imported."""
    raw = jsonl(metadata(), *operations)
    _check(raw)
    ends = _line_ends(raw)
    _check_growth(raw, [*sorted(data.draw(st.lists(st.sampled_from(ends), max_size=3))), len(raw)])


@given(json_values)
@settings(max_examples=60)
def test_detection_takes_any_value(value):
    is_gemini([value])
    is_gemini([value, metadata()])


@given(
    st.lists(st.sampled_from(("u:1", "m:1", "u:2")), max_size=6),
    st.lists(st.sampled_from(("u:1", "m:1", "u:3")), max_size=6),
)
@settings(max_examples=120)
def test_what_is_equal_is_counted_once(known, recorded):
    found = aligned([Turn(key, "", "") for key in known], recorded)
    assert recorded[: found.prefix] == known[: found.prefix]
    assert not found.suffix or recorded[-found.suffix :] == known[-found.suffix :]
    assert found.prefix + found.suffix <= min(len(known), len(recorded))
    assert (found.kind == "shorter") == (recorded == known[: len(recorded)])
