"""ST-9: a Codex file that has grown gives the entries it gave before; no content makes the reader fail."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.codex_records import (
    BARE,
    DOCUMENT,
    LEGACY,
    PAGINATED,
    answer,
    call,
    checked,
    entries,
    event,
    line,
    meta,
    output,
    read_raw,
    reasoning,
    tokens,
    turn_context,
    user,
)
from tests.exchange.samples import MemoryFile, account_of, jsonl, needs_samples, sample
from tests.exchange.test_codex_samples import NAMES
from wakelog.exchange.codex.reader import is_codex, why_refused
from wakelog.exchange.records import json_records
from wakelog.log.content import Reply
from wakelog.log.entry import Custom, Message

_MODEL_ITEMS = {"reasoning", "function_call", "custom_tool_call", "local_shell_call", "web_search_call"}
_MODEL_ITEMS |= {"tool_search_call", "image_generation_call", "compaction"}
_ENDING_EVENTS = {"task_started", "task_complete", "turn_aborted", "thread_rolled_back", "error"}


def _ends_a_reply(record):
    """Return whether nothing before a record can change the entries made of the records up to it."""
    kind, payload = record.get("type"), record.get("payload") or record
    if kind in ("session_meta", "turn_context", "compacted"):
        return True
    if kind == "event_msg":
        return payload.get("type") in _ENDING_EVENTS
    if kind == "response_item" or "payload" not in record:
        is_answer = payload.get("type") == "message" and payload.get("role") == "assistant"
        return payload.get("type") in ("message", "function_call_output") and not is_answer
    return False


def _without_usage(body):
    """Return an entry without what versions of mid-2026 write behind the tool results."""
    if not isinstance(body, Message) or not isinstance(body.message, Reply):
        return body
    plain = json.dumps([repr(part) for part in body.message.parts])
    return (body.id, body.parent_id, body.timestamp, body.message.model, body.message.stop_reason, plain)


def _check_growth(records):
    """Compare the entries of each beginning of a file with those of the whole."""
    whole = [_without_usage(body) for body in entries(*records)]
    certain = 0
    for count in range(1, len(records) + 1):
        found = entries(*records[:count])
        plain = [_without_usage(body) for body in found]
        if _ends_a_reply(records[count - 1]):
            assert plain == whole[: len(plain)]
            certain = len(plain)
        assert plain[:certain] == whole[:certain]
        same = next((at for at, (one, other) in enumerate(zip(plain, whole, strict=False)) if one != other), len(plain))
        rest = found[same:] if same < len(whole) else []
        # At the end there may be one reply that is still growing, and lines that wait for its items.
        assert sum(isinstance(body, Message) for body in rest) <= 1
        assert all(isinstance(body, Custom) or isinstance(body.message, Reply) for body in rest)
        for body in rest:
            if isinstance(body, Message):
                assert body.id not in {each.id for each in entries(*records)}


LATE_USAGE = [
    meta(),
    user("Go"),
    *(reasoning(), call("c1"), call("c2"), output("c1"), output("c2"), tokens(10, 10)),
    *(event("agent_message", message="End"), answer("End"), tokens(12, 22), event("task_complete")),
]
EARLY_USAGE = [
    meta(),
    user("Go"),
    *(event("agent_reasoning", text="Hm"), tokens(10, 10), reasoning("Hm"), call("c1"), output("c1")),
    *(tokens(12, 22), answer("End"), user("Next")),
]
TREE = [
    meta(),
    *(event("task_started"), turn_context(), user("one"), answer("1"), event("task_complete")),
    *(event("task_started"), user("two"), answer("2"), call("c1"), event("thread_rolled_back", num_turns=1)),
    *(user("three"), answer("3"), line("compacted", {"message": "m", "replacement_history": [user("one")["payload"]]})),
    *(user("four"), reasoning(), event("patch_apply_end", call_id="c9"), call("c9"), output("c9")),
]


@pytest.mark.parametrize("records", [LEGACY, PAGINATED, LATE_USAGE, EARLY_USAGE, TREE, BARE])
def test_a_file_that_has_grown_gives_the_entries_it_gave_before(records):
    _check_growth(records)


@needs_samples
@pytest.mark.parametrize("name", [name for name in NAMES if "history" not in name and "zoo" not in name])
def test_samples_that_have_grown(name):
    records = [record.value for record in json_records(sample(name).lines())]
    records[0]["payload"].pop("history_base", None)
    _check_growth(records)


def test_usage_behind_the_results_does_not_change_the_id():
    before, after = entries(*LATE_USAGE[:7]), entries(*LATE_USAGE[:8])
    assert [body.id for body in before] == [body.id for body in after]
    assert (before[2].message.usage, after[2].message.usage.input_tokens) == (None, 10)


@pytest.mark.parametrize(("records", "short_count", "whole_count"), [(LEGACY, 9, 14), (PAGINATED, 7, 9)])
def test_a_reply_that_was_still_growing_stays_beside_the_whole_one(records, short_count, whole_count):
    """Nothing of the whole reply is lost where the shorter one was imported before."""
    short, whole = entries(*records[:short_count]), entries(*records[:whole_count])
    assert short[-1].id != whole[-1].id
    assert short[-1].parent_id == whole[-1].parent_id
    assert whole[-1].message.parts[: len(short[-1].message.parts)] == short[-1].message.parts


def test_ids_do_not_depend_on_the_path():
    one, other = read_raw(jsonl(*LEGACY), "a.jsonl"), read_raw(jsonl(*LEGACY), "archived_sessions/b.jsonl")
    assert checked(one, len(LEGACY)) == checked(other, len(LEGACY))
    assert (one.started_ms, one.origin.id) == (other.started_ms, other.origin.id)


# ── any content ──────────────────────────────────────────────────────────────────────────────────

_WORDS = sorted(
    {
        *(
            "session_meta",
            "response_item",
            "event_msg",
            "turn_context",
            "compacted",
            "token_usage_record",
            "world_state",
        ),
        *("message", "agent_message", "reasoning", "function_call", "function_call_output", "custom_tool_call"),
        *("custom_tool_call_output", "local_shell_call", "tool_search_call", "tool_search_output", "web_search_call"),
        *("image_generation_call", "compaction", "ghost_snapshot", "user_message", "agent_reasoning", "token_count"),
        *("task_started", "task_complete", "turn_aborted", "thread_rolled_back", "thread_name_updated", "error"),
        *("item_completed", "thread_settings_applied", "context_compacted", "collab_agent_spawn_end", "UserMessage"),
        *("AgentMessage", "Reasoning", "CollabAgentToolCall", "user", "assistant", "input_text", "output_text"),
        *("input_image", "summary_text", "c1", "call_1", "spawn_agent", "<skill>x", "data:image/png;base64,QUJD"),
        *("Wall time: 1 seconds\nx", '{"output":1}', '{"output":"","metadata":{"exit_code":3}}', '{"agent_id":7}'),
    }
)
_KEYS = sorted(
    {
        *("type", "payload", "timestamp", "ordinal", "id", "role", "content", "text", "message", "summary", "call_id"),
        *("name", "arguments", "input", "output", "encrypted_content", "action", "tools", "info", "last_token_usage"),
        *("total_token_usage", "input_tokens", "total_tokens", "cached_input_tokens", "usage", "model", "num_turns"),
        *("thread_settings", "replacement_history", "history_base", "source", "item", "image_url", "result", "error"),
        *("internal_chat_message_metadata_passthrough", "content_item_kinds", "session", "items", "record_type"),
        *("tool", "receiverThreadIds", "new_thread_id", "thread_id", "thread_name", "summary_text", "window_id"),
    }
)
_floats = st.floats(allow_nan=False, allow_infinity=False)
_scalars = (
    st.none() | st.booleans() | st.integers(-3, 1 << 60) | _floats | st.sampled_from(_WORDS) | st.text(max_size=3)
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=12,
)
_payloads = st.dictionaries(st.sampled_from(_KEYS), _values, max_size=6).flatmap(
    lambda payload: st.sampled_from(_WORDS).map(lambda kind: {**payload, "type": kind})
)
_envelopes = st.builds(
    lambda kind, payload, stamp: {"timestamp": stamp, "type": kind, "payload": payload},
    st.sampled_from(_WORDS),
    _payloads | _values,
    st.sampled_from(["2026-11-16T18:00:00.000Z", "trimmed", None, 7]),
)
_records = _envelopes | _payloads | st.dictionaries(st.sampled_from(_KEYS), _values, max_size=5)
_KNOWN = [*LEGACY, *PAGINATED, *BARE, *TREE]


@st.composite
def _mutated(draw):
    """A known record with values replaced, removed or added at random places."""
    record = copy.deepcopy(draw(st.sampled_from(_KNOWN)))
    for _ in range(draw(st.integers(0, 3))):
        inner = record
        while True:
            key = draw(st.sampled_from([*sorted(inner), draw(st.sampled_from(_KEYS))]))
            if isinstance(inner.get(key), dict) and draw(st.booleans()):
                inner = inner[key]
                continue
            break
        if draw(st.booleans()):
            inner.pop(key, None)
        else:
            inner[key] = draw(_values)
    return record


def _check_any(records):
    raw = jsonl(*records)
    head = [record.value for record in json_records(MemoryFile(raw).lines())][:20]
    assert is_codex(head) in (True, False)
    if why_refused(head) is None and "items" not in records[0]:
        checked(read_raw(raw), len(records))


def test_lone_surrogates():
    """JSON may hold them as escapes; a reader must not fail where a text cannot be encoded."""
    bad = "\ud800"
    records = [
        *(
            meta(bad, cwd=bad),
            turn_context(bad),
            user(bad, id=bad),
            reasoning(bad, id=bad),
            answer(bad),
            call(bad, bad),
        ),
        *(call("c2", "spawn_agent", json.dumps(bad)), output(bad, bad), output("c2", bad), event(bad, message=bad)),
        *(event("agent_message", message=bad), line("compacted", {"message": bad}), line(bad, {}), {"type": bad}),
    ]
    session = read_raw(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    assert sum(account_of(session.items).values()) == len(records)


@settings(max_examples=120, deadline=None)
@given(st.lists(_records, min_size=1, max_size=12))
def test_records_of_any_shape(records):
    _check_any(records)


@settings(max_examples=120, deadline=None)
@given(st.lists(_mutated(), min_size=1, max_size=15))
def test_known_records_with_random_changes(records):
    _check_any([meta(), *records])


@settings(max_examples=100, deadline=None)
@given(st.lists(_mutated() | _values, max_size=8), _values)
def test_documents_of_any_shape(items, session):
    header = session if isinstance(session, dict) else DOCUMENT["session"]
    checked(read_raw(json.dumps({"session": header, "items": items}).encode()), 1 + len(items))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(_KNOWN[1:]), min_size=1, max_size=14))
def test_records_in_any_order_are_stable_when_the_file_grows(records):
    """Entries up to the last record that ends a reply stay the same, whatever follows."""
    records = [meta(), *records]
    whole = entries(*records)
    for count in range(1, len(records)):
        if _ends_a_reply(records[count - 1]):
            found = entries(*records[:count])
            assert [_without_usage(body) for body in found] == [_without_usage(body) for body in whole[: len(found)]]
