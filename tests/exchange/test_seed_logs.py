"""LOG-6: the logs that the source documents print are read, field by field."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.exchange.crabtalk_files import META
from tests.exchange.linear_sessions import bodies_of, checked, messages, of_type, said
from tests.exchange.pi_records import context_texts, json_values, mutated, tree_of
from tests.exchange.samples import MemoryFile, account_of, jsonl
from wakelog.exchange.crabtalk import reader as crabtalk
from wakelog.exchange.seed_logs import event_sourced, session_structures
from wakelog.exchange.sessions import SkippedRecords
from wakelog.log.content import Prompt, Reply, Text, Thinking, ToolCall, ToolResult, Usage
from wakelog.log.entry import (
    Cancelled,
    ContextEntry,
    Custom,
    Failed,
    InstructionSource,
    Partial,
    Resumed,
    Sent,
    SessionRenamed,
    ToolStarted,
)
from wakelog.projections.pending import open_tool_calls

_FOUND = [place / "shared" / "seeds" for place in Path(__file__).resolve().parents]
SEEDS = next((place for place in _FOUND if place.is_dir()), None)
needs_seeds = pytest.mark.skipif(SEEDS is None, reason="the folder shared/seeds is not beside the project")


def printed(number):
    """Return the blocks of JSON lines that a document prints."""
    assert SEEDS is not None
    [path] = SEEDS.glob(f"{number}_*.txt")
    blocks: list[list[bytes]] = [[]]
    for line in path.read_bytes().split(b"\n"):
        if line.startswith(b'{"'):
            blocks[-1].append(line + b"\n")
        elif blocks[-1]:
            blocks.append([])
    return [b"".join(block) for block in blocks if block]


def only(module, raw):
    [session] = module.read_sessions(MemoryFile(raw))
    return session


# ── the printed logs ─────────────────────────────────────────────────────────────────────────────


@needs_seeds
def test_the_log_of_the_first_document():
    [raw] = printed("001")
    assert session_structures.is_session_structures([json.loads(line) for line in raw.splitlines()])
    session = only(session_structures, raw)
    assert (session.title, session.cwd, session.origin.version) == ("scratch", "/repo", "1")
    assert (session.model, session.provider) == (None, None)
    found = checked(session, 6)
    meta, context, prompt, turn, asked, started, result, reply = found
    assert meta.data == json.loads(raw.splitlines()[0])
    assert context.sources == (InstructionSource(kind="project_instructions", path="/repo/AGENTS.md", hash="..."),)
    assert prompt.message == Prompt(content=(Text(text="explain this repo"),))
    assert turn.data == {"turn_id": "turn_1"}
    assert asked.message.content == (ToolCall(id="call_1", name="search_text", input={"pattern": "main"}),)
    assert (started.reply_id, started.tool_call_id, started.name) == (asked.id, "call_1", "search_text")
    assert result.message == ToolResult(
        content=(Text(text='{"matches":3,"truncated":false}'),),
        tool_call_id="call_1",
        tool_name="search_text",
        reply_id=asked.id,
        status="ok",
        duration_ms=31,
    )
    assert (reply.message.text, reply.message.usage) == ("...", Usage())


@needs_seeds
def test_the_log_of_the_second_document():
    raw, resumed = printed("002")
    assert event_sourced.is_event_sourced([json.loads(line) for line in raw.splitlines()])
    session = only(event_sourced, raw)
    assert session.started_ms == 1_777_942_800_000
    found = checked(session, 9)
    prompt, called, asked, started, result, reply, fields, sent = found
    assert prompt.message == Prompt(content=(Text(text="summarize this PR"),))
    assert called.data == json.loads(raw.splitlines()[1])
    call = ToolCall(id="tc_7", name="git_diff", input={"ref": "HEAD~1"})
    assert asked.message.content == (Text(text="Looking at the diff"), call)
    assert asked.message.model == "your-agent-model-id"
    assert (started.reply_id, started.tool_call_id) == (asked.id, "tc_7")
    assert (result.message.text, result.message.status) == ('{"data_ref":"blob://abc123","bytes":4200}', "ok")
    assert (reply.message.content, reply.message.stop_reason) == ((), "stop")
    assert fields.data == {"msg_id": "msg_42", "stream": True}
    assert (sent.reply_id, sent.channel, sent.parent_id) == (reply.id, "chat-ui", reply.id)
    # The event that the document prints alone, behind the generation that it resumes.
    lines = raw.splitlines(keepends=True)
    crashed = checked(only(event_sourced, b"".join(lines[:5]) + resumed), 6)
    assert [body.content[0].text for body in of_type(crashed, Partial)] == ["Looking at the diff"]
    [recovery] = of_type(crashed, Resumed)
    assert (recovery.strategy, recovery.prior_chars) == ("resume", 19)


@pytest.mark.parametrize("kind", [[], {}, 7, None])
def test_a_type_of_another_form_is_not_an_event(kind):
    assert not event_sourced.is_event_sourced([{"type": kind, "payload": {}}])


@needs_seeds
def test_the_log_of_the_fourth_document_is_one_of_crabtalk():
    blocks = printed("004")
    assert crabtalk.is_crabtalk([json.loads(line) for line in blocks[0].splitlines()])
    found = checked(only(crabtalk, blocks[0]), 5)
    assert found[0].data["uptime_secs"] == 0
    assert said(found) == ["Prompt: hello", "Reply: hi there", "Prompt: what were we talking about?"]
    assert context_texts(found) == ["Summary of conversation so far...", "what were we talking about?"]


# ── the form of the first document ───────────────────────────────────────────────────────────────


def record(seq, kind, **fields):
    return {"schema_version": 1, "seq": seq, "time": f"2026-03-01T10:00:{seq:02}Z", "type": kind, **fields}


RECORDS = [
    record(0, "session_meta", session_id="s-1", cwd="/r", title="First", model="m", provider="p", app_version="2"),
    record(1, "context", sources=[{"kind": "k", "path": "a", "scope": "user", "hash": "h", "error": "gone"}]),
    record(2, "context", sources=[{"kind": "k", "unknown": 1}]),
    record(3, "user", turn_id="t1", text="Go", attachments=["a.png"]),
    record(4, "assistant_started", turn_id="t1", message_id="m1", model="big", provider="acme"),
    record(5, "reasoning_finished", turn_id="t1", text="Hm"),
    record(6, "tool_started", turn_id="t1", call_id="c1", name="bash", input={"cmd": "ls"}),
    record(7, "tool_started", turn_id="t1", call_id="c2", name="bash", input={"cmd": "x"}),
    record(8, "tool_finished", turn_id="t1", call_id="c2", status="failed", error="no such file"),
    record(9, "tool_finished", turn_id="t1", call_id="c1", status="ok", output={"text": "a", "truncated": True}),
    record(10, "tool_finished", turn_id="t1", call_id="gone", status="ok"),
    record(11, "assistant_finished", turn_id="t1", message_id="m1", text="Done", finish_reason="stop", request_id="r",
           usage={"input": 5, "output": 2, "cache_read": 3}),
    record(12, "session_renamed", title="Second"),
    record(13, "user", turn_id="t2", text="More"),
    record(14, "failed", turn_id="t2", reason="overloaded", message="529"),
    record(15, "cancelled", turn_id="t1", reason="by the user"),
    record(16, "future", anything=[1]),
]  # fmt: skip


def structures(*records):
    return only(session_structures, jsonl(*records))


def test_every_record_of_the_first_form():
    session = structures(*RECORDS)
    assert (session.origin.id, session.title, session.model, session.provider) == ("s-1", "Second", "m", "p")
    found = checked(session, len(RECORDS))
    [context] = of_type(found, ContextEntry)
    assert context.sources == (InstructionSource(kind="k", path="a", scope="user", hash="h", error="gone"),)
    assert said(found) == [
        "Prompt: Go",
        "Reply",
        "call bash",
        "Reply",
        "call bash",
        "ToolResult: no such file",
        'ToolResult: {"text":"a","truncated":true}',
        "Reply: Done",
        "Prompt: More",
    ]
    first, second, last = messages(found, Reply)
    assert (first.content[0], len(second.content)) == (Thinking(thinking="Hm"), 1)
    assert (last.model, last.provider, last.stop_reason, last.request_id) == ("big", "acme", "stop", "r")
    assert last.usage == Usage(input_tokens=5, output_tokens=2, cache_read_tokens=3)
    assert [(each.status, each.truncated) for each in messages(found, ToolResult)] == [("error", False), ("ok", True)]
    assert [body.title for body in of_type(found, SessionRenamed)] == ["Second"]
    assert [body.reason for body in of_type(found, Cancelled)] == ["by the user"]
    assert [(body.reason, body.error.message) for body in of_type(found, Failed)] == [("overloaded", "529")]
    kept = {body.custom_type.partition(":")[2]: body.data for body in of_type(found, Custom)}
    assert {"session_meta", "context", "assistant_started", "tool_finished", "future"} < set(kept)
    fields = [body.data for body in of_type(found, Custom) if body.custom_type.endswith(":fields")]
    assert fields == [{"turn_id": "t1", "attachments": ["a.png"]}, {"turn_id": "t2"}, {"turn_id": "t1"}]


def test_an_open_call_has_been_started():
    found = checked(structures(*RECORDS[:7]), 7)
    assert len(of_type(found, ToolStarted)) == 1
    [call] = open_tool_calls(tree_of(found).branch())
    assert (call.tool_call.id, call.starts, call.is_own) == ("c1", 1, False)


def test_reasoning_without_its_reply_is_reported():
    items = list(structures(*RECORDS[:6]).items)
    assert items[-1] == SkippedRecords("reasoning_finished", 1, "the reply that it belongs to is not in the log yet")


@pytest.mark.parametrize("end", ["cancelled", "failed", "user"])
def test_reasoning_of_a_turn_without_a_reply_is_not_that_of_the_next(end):
    ended = record(6, end, turn_id="t1", reason="x", text="Next")
    reply = record(7, "assistant_finished", turn_id="t1", text="Done")
    found = checked(structures(*RECORDS[:6], ended, reply), 8)
    assert messages(found, Reply)[0].content == (Text(text="Done"),)
    assert [body.data for body in of_type(found, Custom) if body.custom_type.endswith("reasoning_finished")] == [
        RECORDS[5]
    ]


def test_other_fields_of_reasoning_usage_and_status_are_kept():
    found = checked(
        structures(
            RECORDS[0],
            record(1, "reasoning_finished", text="Hm", signature="SIG", message_id="m1"),
            record(
                2, "assistant_finished", message_id="m1", text="A", usage={"input": 10, "reasoning": 5, "cost": 0.01}
            ),
            record(3, "tool_started", call_id="c", name="f"),
            record(4, "tool_finished", call_id="c", output="fine"),
            record(5, "tool_started", call_id="d", name="f"),
            record(6, "tool_finished", call_id="d", status="timeout"),
            record(7, "tool_started", call_id="e", name="f"),
            record(8, "tool_finished", call_id="e", error="no"),
        ),
        9,
    )
    assert [body.data for body in of_type(found, Custom)][1:] == [
        {"signature": "SIG", "message_id": "m1"},
        {"usage": {"reasoning": 5, "cost": 0.01}},
        {"status": "timeout"},
    ]
    ends = [(result.status, result.is_error) for result in messages(found, ToolResult)]
    assert ends == [(None, False), ("error", True), ("error", True)]


# ── the form of the second document ──────────────────────────────────────────────────────────────


def event(number, kind, **payload):
    time = f"2026-05-05T01:00:{number:02}Z"
    return {"ts": time, "type": kind, "id": f"evt_{number:03}", "payload": payload}


EVENTS = [
    event(1, "MESSAGE_RECEIVED", role="user", text="One"),
    event(2, "LLM_CALLED", model="m", prompt_tokens=5),
    event(3, "TOOL_INVOKED", call_id="a", name="bash", args={"n": 1}),
    event(4, "TOOL_INVOKED", call_id="b", name="bash", args={"n": 2}),
    event(5, "TOOL_RESULT", call_id="b", ok=False, data="bad"),
    event(6, "TOOL_FAILED_UNCERTAIN", call_id="a"),
    event(7, "LLM_CALLED", model="n", prompt_tokens=9),
    event(8, "GEN_START", msg_id="m1", stream=True),
    event(9, "GEN_CHUNK", msg_id="m1", seq=0, delta="Hel"),
    event(10, "GEN_CHUNK", msg_id="m1", seq=1, delta="lo"),
    event(11, "GEN_RESUMED", msg_id="m1", strategy="replace", prior_seq=1),
    event(12, "GEN_CHUNK", msg_id="m1", seq=0, delta="Hi"),
    event(13, "GEN_COMPLETE", msg_id="m1", reason="stop"),
    event(14, "GEN_SENT", msg_id="m1", channel="ui"),
    event(15, "TOOL_RESULT", call_id="b", ok=True),
    event(16, "MESSAGE_RECEIVED", role="system", text="x"),
    event(17, "SESSION_TERMINATED"),
]


def events(*found):
    return only(event_sourced, jsonl(*found))


def test_every_event_of_the_second_form():
    found = checked(events(*EVENTS), len(EVENTS))
    assert said(found) == [
        "Prompt: One",
        "Reply",
        "call bash",
        "Reply",
        "call bash",
        "ToolResult: bad",
        "ToolResult: ",
        "Reply: Hi",
    ]
    assert [result.status for result in messages(found, ToolResult)] == ["error", "unknown"]
    assert [reply.model for reply in messages(found, Reply)] == ["m", "m", "n"]
    [reply] = [body for body in found if getattr(body, "message", None) == messages(found, Reply)[-1]]
    [partial], [resumed], [sent] = (of_type(found, kind) for kind in (Partial, Resumed, Sent))
    assert (partial.reply_id, partial.content[0].text) == (reply.id, "Hello")
    assert (resumed.reply_id, resumed.strategy, resumed.prior_chars) == (reply.id, "replace", 5)
    assert sent.reply_id == reply.id
    kinds = [body.custom_type.partition(":")[2] for body in of_type(found, Custom)]
    assert kinds == [
        "LLM_CALLED",
        "LLM_CALLED",
        "fields",
        "TOOL_RESULT",
        "MESSAGE_RECEIVED",
        "SESSION_TERMINATED",
    ]


def test_the_text_of_an_interrupted_generation_survives():
    """Its text is displayed, and superseded when the log goes on."""
    for end in (9, 10):
        items = list(events(*EVENTS[:end]).items)
        assert sum(account_of(items).values()) == end
        [partial] = of_type(bodies_of(items), Partial)
        assert partial.content[0].text == "Hello"[: 3 if end == 9 else 5]
    assert isinstance(list(events(*EVENTS[:8]).items)[-1], SkippedRecords)


@pytest.mark.parametrize("kind", ["MESSAGE_RECEIVED", "LLM_CALLED"])
def test_a_call_of_a_later_turn_does_not_end_a_generation(kind):
    """The log of a process that was killed while the model spoke, and of the turn after that."""
    begun = [EVENTS[0], event(2, "GEN_START", msg_id="m1"), event(3, "GEN_CHUNK", msg_id="m1", seq=0, delta="half")]
    found = checked(
        events(*begun, event(4, kind, text="Two"), event(5, "TOOL_INVOKED", call_id="a", name="bash", args={})), 5
    )
    assert messages(found, Reply)[0].content == (ToolCall(id="a", name="bash", input={}),)
    [partial] = of_type(found, Partial)
    assert partial.content[0].text == "half"


def test_events_of_another_session_are_kept_verbatim():
    lines = [
        {**event(at, "MESSAGE_RECEIVED", text=name), "session_id": name} for at, name in enumerate(("a", "b", "a"))
    ]
    session = events(*lines, event(4, "MESSAGE_RECEIVED", text="no name"))
    assert session.origin.id == "a"
    found = checked(session, 4)
    assert [prompt.text for prompt in messages(found, Prompt)] == ["a", "a", "no name"]
    assert [body.data for body in of_type(found, Custom)] == [lines[1]]


def test_an_event_never_makes_a_call_of_wakelog():
    """Law 6: a tool call of an imported log is never run; it is told as unknown."""
    [call] = open_tool_calls(tree_of(checked(events(*EVENTS[:3]), 3)).branch())
    assert (call.is_own, call.starts) == (False, 1)


# ── properties ───────────────────────────────────────────────────────────────────────────────────

FORMS = {"records": (session_structures, RECORDS), "events": (event_sourced, EVENTS)}
few = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("form", FORMS)
def test_a_grown_log_gives_the_same_entries_again(form):
    """Rule 2. Only the text of a generation in progress, at the end, is superseded."""
    module, lines = FORMS[form]
    full = bodies_of(list(only(module, jsonl(*lines)).items))
    for end in range(1, len(lines) + 1):
        found = bodies_of(list(only(module, jsonl(*lines[:end])).items))
        while found and isinstance(found[-1], Partial):
            found.pop()
        assert found == full[: len(found)]


@pytest.mark.parametrize("form", FORMS)
def test_strange_records_never_raise(form):
    """LOG-9: every record is accounted for and the entries are a tree, whatever the records hold."""
    module, lines = FORMS[form]

    @few
    @given(mutated(lines) | st.lists(st.dictionaries(st.sampled_from(["type", "payload", "seq"]), json_values)))
    def reads(found):
        for session in module.read_sessions(MemoryFile(jsonl(*found))):
            checked(session, len(found))

    reads()


@pytest.mark.parametrize("module", [session_structures, event_sourced])
def test_other_logs_are_not_taken_for_one(module):
    name = module.__name__.rpartition(".")[2]
    heads: list[list[object]] = [[], [[]], [{"type": "session", "seq": 0, "id": "s", "v": 1}], [META]]
    for head in [*heads, [{"type": "user", "payload": 1}]]:
        assert not getattr(module, f"is_{name}")(head)
