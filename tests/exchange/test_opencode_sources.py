"""ST-9: OpenCode's database and events, sessions that it still writes, and content of any shape."""

import json
import sqlite3
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.opencode_samples import (
    SESSION,
    assistant,
    compaction,
    database,
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
from tests.exchange.samples import MemoryDatabase, MemoryFile, account_of, entries_of
from wakelog.exchange.opencode import entries
from wakelog.exchange.opencode.reader import TOOL, read_sessions
from wakelog.exchange.records import BadRecord
from wakelog.exchange.sessions import ImportedEntry, SkippedRecords
from wakelog.log.content import Reply, Thinking, ToolResult
from wakelog.log.entry import Annotation, Head, Message, ModelChange

# ── the database ─────────────────────────────────────────────────────────────────────────────────


def test_a_database_of_an_early_version_lacks_columns():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE session (id, directory, title, time_created)")
    connection.execute("CREATE TABLE message (id, session_id, time_created, data)")
    connection.execute("CREATE TABLE part (id, message_id, session_id, data)")
    connection.execute("INSERT INTO session VALUES ('s', '/repo', 'T', 1770000000000)")
    connection.execute("""INSERT INTO message VALUES ('m', 's', 1770000001000, '{"role":"user"}')""")
    connection.execute("""INSERT INTO part VALUES ('p', 'm', 's', '{"type":"text","text":"Hi"}')""")
    session = only(MemoryDatabase(connection))
    _, prompt = entries_of(session)
    assert (prompt.message.text, prompt.timestamp) == ("Hi", "2026-02-02T02:40:01.000Z")


def test_damaged_rows_are_reported_and_their_parts_kept():
    source = database(SESSION, *turn())
    source.execute("UPDATE message SET data = '{\"role' WHERE id = 'a2'")
    source.execute("UPDATE part SET data = 'x' WHERE id = 'p1'")
    items = list(only(source).items)
    assert [item.reason.split(":")[0] for item in items if isinstance(item, BadRecord)] == [
        "row p1 of part",
        "row a2 of message",
    ]
    kept = [item.body.data.get("id") for item in items if isinstance(item, ImportedEntry) and item.is_verbatim]
    assert kept[-3:] == ["a2-finish", "a2-start", "p4"]


def test_messages_without_a_session_are_read():
    source = database(SESSION, *turn())
    source.execute("DELETE FROM session")
    assert len(messages_of(only(source))) == 4


def test_the_event_log_is_counted_and_read_where_rows_are_missing():
    source = database(SESSION, *turn())
    whole = messages_of(only(source))
    source.log_events()
    items = list(only(source).items)
    reasons = {item.reason for item in items if isinstance(item, SkippedRecords)}
    assert reasons == {"the rows hold its outcome"}
    source.execute("DELETE FROM part")
    source.execute("DELETE FROM message")
    assert messages_of(only(source)) == whole


def test_rows_of_the_newer_table():
    source = database(SESSION)
    model = {"id": "m-2", "providerID": "acme"}
    state = {"status": "completed", "input": {"a": 1}, "content": [{"type": "text", "text": "out"}], "structured": {}}
    content = [
        {"type": "reasoning", "id": "r", "text": "Hm", "providerMetadata": {"anthropic": {"signature": "s"}}},
        {"type": "text", "id": "t", "text": "Sure"},
        {"type": "tool", "id": "c1", "name": "bash", "state": state, "time": {"created": 1, "completed": 2}},
        {"type": "tool", "id": "c2", "name": "bash", "state": {"status": "pending", "input": '{"b":2}'}},
    ]
    time = {"created": 1_770_000_001_000, "completed": 1_770_000_002_000}
    source.insert_new("user", text="Hello", files=[{"uri": "data:image/png;base64,AA==", "mime": "image/png"}])
    source.insert_new("model-switched", model=model)
    source.insert_new("agent-switched", agent="plan")
    source.insert_new("synthetic", text="remember")
    source.insert_new("system", text="be brief")
    source.insert_new("assistant", agent="build", model=model, content=content, time=time, finish="tool-calls")
    source.insert_new("shell", callID="x", command="ls", output="a.txt", time=time)
    source.insert_new("compaction", reason="auto", summary="Sum", recent="Tail")
    source.insert_new("brand-new", value=1)
    session = only(source)
    items = list(session.items)
    entries = [item.body for item in items][1:]
    assert types_of(entries) == [
        "Prompt",
        "ModelChange",
        "Custom",
        "Note",
        "Note",
        "Reply",
        "ToolResult",
        "Custom",
        "Note",
        "Compaction",
        "Custom",
    ]
    assert isinstance(entries[1], ModelChange)
    reply, result = entries[5].message, entries[6].message
    assert reply.content[0] == Thinking(thinking="Hm", signature="s")
    assert [(call.id, call.input) for call in reply.tool_calls] == [("c1", {"a": 1}), ("c2", {"b": 2})]
    assert (result.tool_call_id, result.text, reply.model) == ("c1", "out", "m-2")
    assert [entries[at].message.custom_type for at in (3, 4, 8)] == [
        f"{TOOL}:{kind}" for kind in ("synthetic", "system", "shell")
    ]
    assert (entries[7].custom_type, entries[7].data) == (f"{TOOL}:fields", {"agent": "build"})
    assert (entries[9].summary, entries[9].trigger) == ("Sum\n\nTail", "auto")
    assert entries[10].data["value"] == 1
    assert sum(account_of(items).values()) == 10


def test_a_revert_in_the_newer_table_keeps_the_message_it_names():
    source = database({**SESSION, "revert": {"messageID": "msg_0"}})
    source.insert_new("user", text="Keep")
    source.insert_new("user", text="Hide")
    entries = entries_of(only(source))
    (target,) = [body for body in entries if body.id == entries[-1].target_id]
    assert target.message.text == "Keep"


# ── a session that OpenCode still writes ─────────────────────────────────────────────────────────


def _running(*parts):
    return database(SESSION, turn()[0], assistant("a1", *parts, time={"created": 1_770_000_003_000}, tokens={}))


def test_a_reply_in_progress_is_not_taken():
    growing = part("p2", "text", text="Su", time={"start": 1_770_000_003_100})
    items = list(only(_running(part("s", "step-start"), growing)).items)
    assert [item for item in items if isinstance(item, SkippedRecords)] == [
        SkippedRecords("reply in progress", 3, "OpenCode had not finished it; importing again brings it")
    ]
    assert len(entries_of(only(_running(growing)))) == 2


def test_the_result_of_an_open_call_comes_later_behind_the_same_reply():
    first = entries_of(only(_running(tool("p3", "c1", status="running"))))
    done = assistant("a1", tool("p3", "c1", output="a.txt"), time={"created": 1_770_000_003_000}, finish="tool-calls")
    second = entries_of(only(database(SESSION, turn()[0], done)))
    assert [body.id for body in first] == [body.id for body in second[:-1]]
    assert [body.message.content for body in first[1:]] == [body.message.content for body in second[1:-1]]
    assert second[-1].message.reply_id == first[-1].id


def test_results_come_in_the_order_in_which_the_tools_ended():
    """The result of a tool that was still running is added behind the results that are known."""
    late, early = {"start": 1, "end": 1_770_000_009_000}, {"start": 1, "end": 1_770_000_005_000}
    second = tool("p4", "c2", output="2", time=early)
    before = entries_of(only(_running(tool("p3", "c1", status="running"), second)))
    after = entries_of(only(_running(tool("p3", "c1", output="1", time=late), second)))
    assert [body.message.text for body in after[3:]] == ["2", "1"]
    assert after[:-1] == before


def test_a_reply_that_got_more_calls_is_another_reply():
    """No result ever names a reply that lacks its call."""
    first = entries_of(only(_running(tool("p3", "c1", status="running"), tool("p4", "c2", status="pending"))))
    assert [call.id for call in first[-1].message.tool_calls] == ["c1"]
    both = (tool("p3", "c1", output="1"), tool("p4", "c2", output="2"))
    second = entries_of(only(database(SESSION, turn()[0], assistant("a1", *both, finish="tool-calls"))))
    reply = second[2]
    assert reply.id != first[-1].id
    assert reply.parent_id == first[-1].parent_id
    assert {body.message.reply_id for body in second[3:]} == {reply.id}


def _cut():
    return assistant("a1", part("p2", "text", text="Su", time={"start": 5}), time={"created": 1_770_000_003_000})


def test_a_reply_that_a_later_reply_follows_is_final():
    later = user("u2", text("p9", "Again")), assistant("a5", text("p8", "Yes"))
    session = only(database(SESSION, turn()[0], _cut(), *later))
    assert [message.text for message in messages_of(session)] == ["List the files", "Su", "Again", "Yes"]


@pytest.mark.parametrize("source", [tree, lambda *given: MemoryFile(export(*given[1:]), "export.json")])
def test_a_reply_without_an_end_is_taken_from_files(source):
    """ST-9: nothing more may ever come of a session that was interrupted."""
    session = only(source(SESSION, turn()[0], _cut(), user("u2", text("p9", "Again"))))
    assert [message.text for message in messages_of(session)] == ["List the files", "Su", "Again"]


def test_a_prompt_that_waits_does_not_end_a_reply():
    """OpenCode writes a prompt while the reply before it still grows; its place is behind the whole reply."""
    queued = user("u2", text("p9", "Again"))
    items = list(only(database(SESSION, turn()[0], _cut(), queued)).items)
    first = [item.body for item in items if isinstance(item, ImportedEntry)]
    assert [body.message.text for body in first[1:]] == ["List the files"]
    counts = [(item.kind, item.count) for item in items if isinstance(item, SkippedRecords)]
    assert counts == [("reply in progress", 2), ("waiting message", 2)]
    done = assistant("a1", part("p2", "text", text="Sure", time={"start": 5, "end": 6}), finish="stop")
    second = entries_of(only(database(SESSION, turn()[0], done, queued)))
    assert second[: len(first)] == first
    assert [body.message.text for body in second[1:]] == ["List the files", "Sure", "Again"]


def test_a_call_with_an_incomplete_input_waits_behind_a_prompt():
    pending = assistant("a1", tool("p3", "c1", status="pending", input={}), time={"created": 1_770_000_003_000})
    session = only(database(SESSION, turn()[0], pending, user("u2", text("p9", "Again"))))
    assert [message.text for message in messages_of(session)] == ["List the files"]


def test_few_messages_are_held_behind_a_reply_without_an_end(monkeypatch):
    monkeypatch.setattr(entries, "_WAITING_MAX", 3)
    prompts = [user(f"m{at}", text(f"x{at}", str(at)), time={"created": 1_770_000_009_000 + at}) for at in range(9)]
    assert len(messages_of(only(database(SESSION, _cut(), *prompts)))) == 10


@given(st.data())
@settings(max_examples=60)
def test_importing_a_grown_database_adds_entries_only(data):
    """For any number of messages, the entries of the first ones are a prefix of those of all."""
    kinds = data.draw(st.lists(st.sampled_from(["user", "tool", "open", "text", "failed", "compaction"]), max_size=6))
    messages = []
    for at, kind in enumerate(kinds):
        created = {"created": 1_770_000_001_000 + at}
        match kind:
            case "user":
                messages.append(user(f"m{at}", text(f"x{at}", "Hi"), time=created))
            case "tool":
                messages.append(assistant(f"m{at}", tool(f"x{at}", "c", output="1"), time=created, finish="tool-calls"))
            case "open":
                messages.append(assistant(f"m{at}", tool(f"x{at}", "c", status="running"), time=created, tokens={}))
            case "text":
                messages.append(assistant(f"m{at}", text(f"x{at}", "Yo"), time=created, finish="stop"))
            case "failed":
                error = {"name": "APIError", "data": {}}
                messages.append(assistant(f"m{at}", text(f"x{at}", "Ha"), time=created, error=error))
            case "compaction":
                messages.extend(compaction(f"m{at}", f"n{at}", auto=True, time=created))
    whole = entries_of(only(database(SESSION, *messages)))
    for size in range(len(messages)):
        part_of_it = entries_of(only(database(SESSION, *messages[:size])))
        assert part_of_it == whole[: len(part_of_it)]


def _states(data):
    """Return the databases of a session at each moment while OpenCode writes one reply, and goes on after it."""
    created = 1_770_000_003_000

    def finish_some():
        for place, each in enumerate(parts):
            if each.get("state", {}).get("status") == "running" and data.draw(st.booleans()):
                ended = data.draw(st.sampled_from([{"output": "1"}, {"status": "error", "error": "no"}]))
                end = {"start": created, "end": created + len(states)}
                parts[place] = tool(each["id"], each["callID"], time=end, **ended)
                record()

    parts: list[dict[str, Any]] = []
    states: list[MemoryDatabase] = []

    def record(*later, **info):
        message = assistant("a1", *parts, **{"time": {"created": created}, "tokens": {}, **info})
        states.append(database(SESSION, turn()[0], message, *later))

    kinds = data.draw(st.lists(st.sampled_from(["text", "tool", "patch"]), min_size=1, max_size=4))
    for at, kind in enumerate(kinds):
        place, name = len(parts), f"x{at}"
        versions = {
            "text": [text(name, "H", time={"start": 5}), text(name, "Hi", time={"start": 5, "end": 6})],
            "tool": [tool(name, f"c{at}", status="pending", input={}), tool(name, f"c{at}", status="running")],
            "patch": [part(name, "patch", hash="h")],
        }[kind]
        for version in versions:
            parts[place:] = [version]
            record()
        finish_some()
    finish_some()
    parts.append(part("z", "step-finish"))
    record()
    record(finish="stop", tokens={"input": 3, "output": 1})
    record(user("u2", text("y", "Next")), finish="stop", tokens={"input": 3, "output": 1})
    return states


@given(st.data())
@settings(max_examples=80)
def test_syncing_while_a_reply_is_written_gives_a_sound_log(data):
    """An entry that is known keeps its place and content, and the last import is one branch of the log."""
    log: dict[str, Any] = {}
    for state in _states(data):
        entries = entries_of(only(state))
        for body in entries:
            known = log.setdefault(body.id, body)
            assert (known.parent_id, type(known)) == (body.parent_id, type(body))
            if isinstance(body, Message):
                assert (known.message.content, type(known.message)) == (body.message.content, type(body.message))
                assert known == body or isinstance(body.message, Reply)
    path, at = [], entries[-1]
    while at is not None:
        path.append(at.id)
        at = log.get(at.parent_id)
    assert path[::-1] == [body.id for body in entries]


# ── events ───────────────────────────────────────────────────────────────────────────────────────


def _event(kind, **properties):
    return {"type": kind, "properties": properties}


def _captured(*events):
    return MemoryFile(json.dumps(events).encode(), "events.json")


def _events():
    shown = user("u1")["info"], {**text("p1", "Go"), "sessionID": "ses_1", "messageID": "u1"}
    removed = user("u2", time={"created": 1_770_000_005_000})["info"]
    words = {**text("p2", "Bad"), "sessionID": "ses_1", "messageID": "u2"}
    return (
        _event("session.created", info=SESSION),
        _event("message.updated", info=shown[0]),
        _event("message.part.updated", part={**shown[1], "text": "G"}),
        _event("message.part.updated", part=shown[1]),
        _event("session.updated", info={**SESSION, "title": "Renamed"}),
        _event("message.updated", info=removed),
        _event("message.part.updated", part=words),
        _event("message.removed", sessionID="ses_1", messageID="u2"),
        _event("message.updated", info=user("u3", time={"created": 1_770_000_006_000})["info"]),
        _event("message.part.updated", part={**text("p3", "Good"), "sessionID": "ses_1", "messageID": "u3"}),
        _event("server.heartbeat"),
        _event("session.error", sessionID="ses_1", error={"name": "X"}),
    )


def test_events_lead_to_the_last_value_of_each_part():
    session = only(_captured(*_events()))
    entries = entries_of(session)
    assert [message.text for message in messages_of(only(_captured(*_events())))] == ["Go", "Bad", "Good"]
    assert session.title == "Renamed"
    assert [body.title for body in entries if body.type == "session_renamed"] == ["Renamed"]
    assert entries[-1].custom_type == "opencode:session.error"
    assert sum(account_of(only(_captured(*_events())).items).values()) == len(_events())


def test_a_message_removed_after_a_revert_is_a_branch():
    entries = entries_of(only(_captured(*_events())))
    go, bad, good = (body for body in entries if isinstance(body, Message))
    assert (bad.parent_id, good.parent_id) == (go.id, go.id)
    assert [body.target_id for body in entries if isinstance(body, Head)] == [go.id]


def test_deltas_continue_a_text():
    """A capture that ends in the middle of a reply holds its text in deltas only."""
    delta = {"sessionID": "ses_1", "messageID": "u3", "partID": "p3", "field": "text"}
    events = (*_events(), _event("message.part.delta", **delta, delta="!"), _event("message.part.delta", delta="x"))
    session = only(_captured(*events))
    items = list(session.items)
    assert sum(account_of(items).values()) == len(events)
    assert messages_of(only(_captured(*events)))[-1].text == "Good!"


def test_events_on_lines_are_the_same_as_an_array():
    lines = MemoryFile(b"".join(json.dumps(event).encode() + b"\n" for event in _events()))
    assert entries_of(only(lines)) == entries_of(only(_captured(*_events())))


# ── anything at all ──────────────────────────────────────────────────────────────────────────────

_KEYS = ["id", "type", "role", "text", "state", "status", "time", "tokens", "metadata", "error", "summary", "callID"]
_TAGS = ["text", "tool", "reasoning", "file", "step-start", "step-finish", "compaction", "user", "assistant", "patch"]
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(_TAGS)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=12,
)


def _count(messages):
    return sum(1 + (len(message["parts"]) if isinstance(message.get("parts"), list) else 0) for message in messages)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"info": st.dictionaries(st.sampled_from(_KEYS), _JSON), "parts": st.lists(_JSON, max_size=4)}
        ),
        max_size=4,
    )
)
@settings(max_examples=150)
def test_random_messages_never_raise_and_the_account_adds_up(messages):
    """Rule 1, for content of any type in any field."""
    session = only(MemoryFile(json.dumps({"info": SESSION, "messages": messages}).encode()))
    _check_tree(list(session.items), 1 + _count(messages))


@given(st.data())
@settings(max_examples=150)
def test_mutated_messages_never_raise_and_the_account_adds_up(data):
    messages = json.loads(json.dumps([*turn(), *compaction("u9", "a9", auto=True, tail="u1")]))
    for _ in range(data.draw(st.integers(1, 4))):
        target = data.draw(st.sampled_from(messages))
        places = [target["info"], *target["parts"]]
        places += [value for place in places for value in place.values() if isinstance(value, dict)]
        chosen = data.draw(st.sampled_from(places))
        if chosen:
            chosen[data.draw(st.sampled_from(sorted(chosen)))] = data.draw(_JSON)
    session = only(MemoryFile(json.dumps({"info": SESSION, "messages": messages}).encode()))
    _check_tree(list(session.items), 1 + _count(messages))
    rows = database(SESSION)
    rows.insert_rows(messages)
    for session in read_sessions(rows):
        _check_tree(list(session.items), rows.count_of(session.origin.id))


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "type": st.sampled_from([event["type"] for event in _events()]),
                "properties": _JSON | st.sampled_from([event["properties"] for event in _events()]),
            }
        ),
        max_size=6,
    )
)
@settings(max_examples=100)
def test_random_events_never_raise_and_the_account_adds_up(events):
    whole = [*_events(), *events]
    items = [item for session in read_sessions(_captured(*whole)) for item in session.items]
    assert sum(account_of(items).values()) == len(whole)


def _check_tree(items, records):
    assert sum(account_of(items).values()) == records
    known: set[str] = set()
    calls: set[tuple[str, str]] = set()
    for item in items:
        if not isinstance(item, ImportedEntry):
            continue
        body = item.body
        assert body.id not in known
        assert body.parent_id in known or not known
        if isinstance(body, Message) and isinstance(body.message, Reply):
            calls |= {(body.id, call.id) for call in body.message.tool_calls}
        if isinstance(body, Message) and isinstance(body.message, ToolResult):
            assert (body.message.reply_id, body.message.tool_call_id) in calls
        known.add(body.id)
    assert all(
        not isinstance(item.body, Annotation) or item.body.parent_id
        for item in items
        if isinstance(item, ImportedEntry)
    )
