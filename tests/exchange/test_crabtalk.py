"""ST-9, LOG-6: sessions of crabtalk in its four forms become entries, and every record is accounted for."""

import json
import sqlite3
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.exchange.crabtalk_files import (
    HANDLE,
    META,
    database_of,
    done,
    ended,
    entry,
    file_of,
    folder_of,
    memory_bytes,
    put,
    result,
    run,
    session_puts,
    start,
    store_bytes,
    store_of,
    use,
)
from tests.exchange.linear_sessions import bodies_of, checked, messages, of_type, said
from tests.exchange.pi_records import context_texts, json_values, mutated
from tests.exchange.samples import (
    EXPECTED,
    MemoryDatabase,
    MemoryFile,
    account_of,
    jsonl,
    needs_samples,
    sample,
)
from wakelog.errors import UsageError
from wakelog.exchange.crabtalk import reader
from wakelog.exchange.records import BadRecord
from wakelog.log.content import Image, Prompt, Reply, Thinking, ToolResult, Usage
from wakelog.log.entry import Compaction, Custom

MESSAGES = [*run(1)[0], *run(2, call=True)[0], *run(3)[0]]
EVENTS = [*run(1)[1], *run(2, call=True)[1], *run(3)[1]]
LINES = [line for each in (run(1), run(2, call=True), run(3)) for part in each for line in part]
FORMS: dict[str, Any] = {
    "file": file_of,
    "folder": folder_of,
    "database": lambda lines: database_of(*apart(lines)),
    "store": lambda lines: store_of(session_puts(*apart(lines))),
}


def apart(lines):
    """Return the messages and the events of lines."""
    return [line for line in lines if "event" not in line], [line for line in lines if "event" in line]


def only(source):
    [session] = reader.read_sessions(source)
    return session


def bodies(*lines, **more):
    return checked(only(file_of(list(lines), **more)), 1 + len(lines))


# ── detection ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ([META], True),
        ([{"agent": "a", "created_by": "b", "created_at": "...", "title": "", "uptime_secs": 0}], True),
        ([{"agent": "a", "created_by": "b"}], False),
        ([{**META, "type": "session"}], False),
        ([[META]], False),
        ([], False),
    ],
)
def test_a_file_is_recognised_by_its_metadata(head, expected):
    assert reader.is_crabtalk(head) is expected


def test_databases_and_stores_are_recognised():
    assert reader.is_crabtalk_database(database_of([], []))
    assert not reader.is_crabtalk_database(MemoryDatabase(sqlite3.connect(":memory:")))
    raw = store_bytes(session_puts(MESSAGES, EVENTS), snapshot_after=3)
    assert reader.is_crabtalk_store(raw[:64], len(raw))
    assert reader.why_refused(raw[:64], len(raw)) is None
    assert not reader.is_crabtalk_store(b"CRMEM\0" + b"\2" + raw[7:64], len(raw))
    memory = memory_bytes({f"n{number}": "text" for number in range(40)})
    assert not reader.is_crabtalk_store(memory[:64], len(memory))
    assert reader.why_refused(memory[:64], len(memory)) == "this is the memory of crabtalk, which has no sessions"


# ── all forms ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", FORMS)
def test_a_session_is_the_same_in_every_form(form):
    session = only(FORMS[form](LINES))
    index = int(form == "store")
    found = checked(session, 1 + len(LINES) + index)
    assert (session.title, session.started_ms) == ("greeting", 1_786_356_000_000)
    assert said(found) == [
        "Prompt: ask 1",
        "Reply: answer 1",
        "Prompt: ask 2",
        "Reply",
        "call bash",
        "ToolResult: out",
        "Reply: answer 2",
        "Prompt: ask 3",
        "Reply: answer 3",
    ]
    assert [(reply.model, reply.usage) for reply in messages(found, Reply)] == [
        ("m", Usage(input_tokens=1, output_tokens=1)),
        (None, None),
        ("m", Usage(input_tokens=2, output_tokens=1)),
        ("m", Usage(input_tokens=3, output_tokens=1)),
    ]
    assert messages(found, ToolResult)[0].duration_ms == 12
    assert [body.data for body in of_type(found, Custom)][1:] == EVENTS


def test_forms_of_one_session_have_the_same_ids():
    """A session that crabtalk moved from one form to the next is not imported twice."""
    found = [bodies_of(list(only(FORMS[form](LINES)).items)) for form in ("folder", "database", "store")]
    assert [body.id for body in found[0]] == [body.id for body in found[2]]
    assert [body.id for body in found[0]][1:] == [body.id for body in found[1]][1:]


@pytest.mark.parametrize("form", FORMS)
def test_a_grown_session_gives_the_same_entries_again(form):
    """Rule 2. A reply imported in the middle of a write lacks the usage and the model that follow it."""
    before: list[tuple[str, str, str]] = []
    for end in range(1, len(LINES) + 1):
        session = only(FORMS[form](LINES[:end]))
        now = [(body.id, body.parent_id, body.type) for body in bodies_of(list(session.items))]
        assert now[: len(before)] == before
        before = now


def test_a_file_that_gets_a_title_is_the_same_session():
    plain = only(file_of(LINES[:2]))
    renamed = {**META, "created_at": "2026-09-01T00:00:00+00:00", "title": "2026 plan"}
    titled = only(file_of(LINES, "crab_user_1_2026-plan.jsonl", renamed))
    assert titled.origin.id == plain.origin.id
    assert only(file_of(LINES, "crab_user_2.jsonl")).origin.id != plain.origin.id
    assert list(reader.read_sessions(file_of([]))) == []


def test_a_folder_that_is_not_named_by_an_id_is_told_apart_by_its_time():
    assert only(folder_of(LINES)).origin.id == HANDLE
    assert only(folder_of(LINES, handle="crab_user_1")).origin.id == "crab_user_1@2026-08-10T10:00:00+00:00"


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


def test_messages_in_the_shape_of_chat():
    """Until May 2026 crabtalk stored OpenAI's shape, at first without an entry around it."""
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"cmd":"ls"}'}}
    found = bodies(
        {"role": "user", "content": "hello"},
        {"role": "assistant", "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "content": "README", "tool_call_id": "c1"},
        {"agent": "guest", "message": {"role": "assistant", "content": "hi"}},
        done(at=3, prompt_tokens=10, completion_tokens=2, prompt_cache_hit_tokens=4),
    )
    assert said(found) == ["Prompt: hello", "Reply", "call bash", "ToolResult: README", "Reply: hi"]
    first, last = messages(found, Reply)
    assert (first.content[0], first.content[1].input) == (Thinking(thinking="hm"), {"cmd": "ls"})
    assert last.usage == Usage(input_tokens=6, output_tokens=2, cache_read_tokens=4)
    assert [body.data for body in of_type(found, Custom)][1] == {"agent": "guest"}


def test_blocks_of_messages():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}
    thinking = {"type": "thinking", "thinking": "t", "signature": "s"}
    found = bodies(
        entry("user", [{"type": "text", "text": "see", "cache_control": {"type": "e"}}, image, url]),
        entry("assistant", [thinking, {"type": "redacted_thinking", "data": "x"}, use("c1"), use("c1")]),
        entry("user", [result("c1", [image]), result("c1", "no", is_error=True), {"type": "text", "text": "and"}]),
    )
    prompt, reply, shown, failed, more = messages(found)
    assert prompt.content[1:] == (Image(mime_type="image/png", data="QQ=="),) * 2
    assert reply.content[:2] == (
        Thinking(thinking="t", signature="s"),
        Thinking(bound={"type": "redacted_thinking", "data": "x"}),
    )
    assert [call.id for call in reply.tool_calls] == ["c1", "c1.2"]
    assert (shown.tool_call_id, shown.status, shown.parts[0].data) == ("c1", "ok", "QQ==")
    assert (failed.tool_call_id, failed.status, failed.text) == ("c1.2", "error", "no")
    assert more.text == "and"
    assert [body.data for body in of_type(found, Custom)][1] == {"parts": {"0": {"cache_control": {"type": "e"}}}}


def test_what_cannot_be_mapped_is_kept():
    found = bodies(
        entry("user", [result("gone", "x")]),
        entry("system", "rules"),
        entry("assistant", [{"type": "hologram"}]),
        {"event": "user_steered", "content": "stop", "ts": "..."},
        {"something": "else"},
    )
    kinds = [body.custom_type.removeprefix("crabtalk:") for body in found]
    assert kinds == ["meta", "tool_result", "system", "assistant", "user_steered", "record"]


def test_a_call_without_a_result_stays_open():
    found = bodies(entry("user", "go"), entry("assistant", [use("c1")]))
    assert [call.id for call in messages(found, Reply)[0].tool_calls] == ["c1"]
    assert messages(found, ToolResult) == []


# ── compactions ──────────────────────────────────────────────────────────────────────────────────


def test_a_compaction_in_a_file_has_its_summary():
    found = bodies(entry("user", "old"), {"compact": "S", "title": "t", "archived_at": "x"}, entry("user", "new"))
    assert context_texts(found) == ["S", "new"]
    assert [body.data for body in of_type(found, Custom)][1] == {"title": "t"}


def archived(**more):
    marks = [{"archive_name": name, "archived_at": "2026-08-10T10:04:00+00:00"} for name in ("n-1", "n-2")]
    return folder_of([entry("user", "old"), marks[0], entry("user", "mid"), marks[1], entry("user", "new")], **more)


def test_the_summary_of_a_folder_is_in_the_memory():
    memory = memory_bytes({"other": "no", "n-1": "First", "n-2": "Second ü"})
    found = checked(only(archived(**{"../../memory.db": memory})), 6)
    assert [body.summary for body in of_type(found, Compaction)] == ["First", "Second ü"]


def test_without_the_memory_the_metadata_has_the_last_summary():
    found = checked(only(archived(meta={**META, "summary": "Last"})), 6)
    summaries = [body.summary for body in of_type(found, Compaction)]
    assert summaries == ["[archived context unavailable: n-1]", "Last"]
    assert context_texts(found) == ["Last", "new"]


class TooLarge(MemoryFile):
    """A file that is larger than a reader may take."""

    def content(self, limit=0):
        raise UsageError(f"{self.path} is too large")


class Folder(MemoryFile):
    """The metadata of a session with a step, and perhaps a memory, that are too large."""

    def list_beside(self, relative):
        return [*super().list_beside(relative), TooLarge(b"", "step-000009")]

    def beside(self, relative):
        return TooLarge(b"", relative) if relative.startswith("..") else super().beside(relative)


def test_files_that_are_too_large_are_reported():
    steps = {"step-000000": json.dumps({"archive_name": "n", "archived_at": "x"}).encode()}
    items = list(only(Folder(json.dumps(META).encode(), f"/h/{HANDLE}/meta", steps)).items)
    assert account_of(items) == {"mapped": 1, "verbatim": 1, "skipped": 0, "bad": 1}
    assert items[-1].reason == "step-000009 is too large"
    assert of_type(bodies_of(items), Compaction)[0].summary == "[archived context unavailable: n]"


def test_a_store_keeps_the_events_of_deleted_messages():
    """After a compaction, the entries imported before are the same, and the summary stands behind them."""
    archive = put("local/memory/n-1", json.dumps({"name": "n-1", "kind": "archive", "content": "Sum"}).encode(), 2)
    before = checked(only(store_of(session_puts(MESSAGES, EVENTS))), 2 + len(LINES))
    again, events = run(1)
    source = store_of([*session_puts(again, [*EVENTS, *events], archive="n-1"), archive])
    after = checked(only(source), 3 + len(again) + len(EVENTS) + len(events))
    assert [body.type for body in after] == ["custom"] * 6 + ["compaction", "custom", "message", "message", "custom"]
    known = {body.id for body in before}
    assert [body.id in known for body in after] == [True] * 6 + [False] * 5
    assert context_texts(after) == ["Sum", "ask 1", "answer 1"]
    # In the session here it follows the last entry imported before.
    assert after[6].parent_id == before[-1].id


def test_a_database_has_the_summary_in_its_row():
    found = checked(
        only(database_of(run(4)[0], [*EVENTS, *run(4)[1]], archive="n-1", summary="Sum")), 3 + len(EVENTS) + 1
    )
    assert context_texts(found) == ["Sum", "ask 4", "answer 4"]


def test_events_belong_to_the_run_with_their_calls():
    """A rewind deleted the messages of run 2 and 3; their events remain."""
    runs = [run(1), run(5, call=True), run(6)]
    kept, events = ([line for each in runs for line in each[part]] for part in (0, 1))
    found = checked(only(database_of(kept, [*EVENTS, *events[1:]])), 1 + len(kept) + len(EVENTS) + len(events) - 1)
    counted = [reply.usage.input_tokens for reply in messages(found, Reply) if reply.usage is not None]
    assert counted == [1, 5, 6]
    assert [body.data["ts"] for body in of_type(found, Custom)[1:]] == [each["ts"] for each in [*EVENTS, *events[1:]]]


# ── store ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("snapshot_after", [None, 1, 5])
def test_a_snapshot_among_the_records_changes_nothing(snapshot_after):
    plain = list(only(store_of(session_puts(MESSAGES, EVENTS))).items)
    found = only(store_of(session_puts(MESSAGES, EVENTS), snapshot_after=snapshot_after))
    assert list(found.items) == plain


def test_the_newest_record_of_a_key_counts():
    key = f"local/session/{HANDLE}/msg/000000000001"
    records = session_puts(run(1)[0], run(1)[1])
    changed = put(key, json.dumps(entry("assistant", "other")).encode())
    assert said(checked(only(store_of([*records, changed], snapshot_after=4)), 5)) == ["Prompt: ask 1", "Reply: other"]
    assert said(checked(only(store_of([*records, put(key, b"", operation=1)])), 4)) == ["Prompt: ask 1"]


def test_a_torn_record_is_reported_with_its_session():
    torn = put("local/session/OTHER/msg/000000000009", b"{}")[:-1]
    records = [*session_puts(run(1)[0], []), *session_puts(run(2)[0], [], handle="OTHER")]
    source = store_of(records, tail=torn)
    first, other = (list(session.items) for session in reader.read_sessions(source))
    assert account_of(first)["bad"] == 0
    [bad] = [item for item in other if isinstance(item, BadRecord)]
    assert (bad.offset, bad.size) == (len(store_bytes(records)), len(torn))


def test_a_damaged_snapshot_is_reported_and_the_records_are_read():
    raw = bytearray(store_bytes(session_puts(run(1)[0], run(1)[1]), snapshot_after=4))
    at = int.from_bytes(raw[16:24], "little")
    raw[at : at + 4] = b"\xff\xff\xff\x7f"
    items = list(only(MemoryFile(bytes(raw), "store.crmem")).items)
    assert said(bodies_of(items)) == ["Prompt: ask 1", "Reply: answer 1"]
    assert account_of(items)["bad"] == 2


# ── properties ───────────────────────────────────────────────────────────────────────────────────

few = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
STRANGE = [
    *LINES,
    {"compact": "S"},
    {"archive_name": "n"},
    {"role": "assistant", "tool_calls": [{"id": "c9", "function": {"name": "f"}}]},
    {"role": "tool", "tool_call_id": "c9", "content": [1]},
    start("c9", at=1),
    ended("c9", 1, at=2),
]


@few
@given(mutated(STRANGE), st.sampled_from(sorted(FORMS)))
def test_strange_records_never_raise(lines, form):
    """LOG-9: every record is accounted for and the entries are a tree, whatever the records hold."""
    for session in reader.read_sessions(FORMS[form](lines)):
        index = int(form == "store")
        checked(session, 1 + len(lines) + index)


@few
@given(json_values, st.lists(json_values, max_size=4))
def test_random_values_never_raise(meta, lines):
    sources = [folder_of(lines, meta), file_of(lines, meta=meta), store_of(session_puts(lines, lines))]
    for source in sources:
        for session in reader.read_sessions(source):
            list(session.items)


@few
@given(st.data())
def test_a_damaged_store_never_raises(data):
    raw = bytearray(store_bytes(session_puts(run(1)[0], run(1)[1]), snapshot_after=3))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(6, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    for session in reader.read_sessions(MemoryFile(bytes(raw[:cut]) or b"CRMEM\0", "store.crmem")):
        list(session.items)


# ── samples ──────────────────────────────────────────────────────────────────────────────────────


@needs_samples
def test_the_sample_of_a_file():
    name = "crabtalk/SYNTHETIC-rfc0064-crab_user_1.jsonl"
    found = checked(only(sample(name)), EXPECTED[name]["records"])
    assert context_texts(found) == ["Summary of conversation so far...", "what were we talking about?"]


@needs_samples
def test_the_sample_of_a_folder():
    found = checked(only(sample(f"crabtalk/SYNTHETIC-fs-steps/{HANDLE}/meta")), 8)
    assert said(found) == ["Prompt: hello", "Reply", "call bash", "ToolResult: README.md", "Prompt: and now?"]
    assert messages(found, ToolResult)[0].duration_ms == 12


@needs_samples
def test_the_sample_of_a_store():
    items = list(only(sample("crabtalk/SYNTHETIC-store.crmem")).items)
    assert account_of(items) == {"mapped": 4, "verbatim": 3, "skipped": 1, "bad": 1}
    assert [prompt.text for prompt in messages(bodies_of(items), Prompt)] == ["hello", "and now?"]


def test_lines_that_are_no_records_are_reported():
    source = MemoryFile(
        jsonl(META, LINES[0]) + b'{"role"\n' + jsonl(LINES[1])[:-1] + jsonl(LINES[2]), "crab_user_1.jsonl"
    )
    items = list(only(source).items)
    assert account_of(items) == {"mapped": 2, "verbatim": 2, "skipped": 0, "bad": 1}
