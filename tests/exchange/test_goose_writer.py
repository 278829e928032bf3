"""ST-9: sessions written for Goose have their messages, calls, results and compactions, and Goose accepts them."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.exchange.generated_sessions import STARTED_MS, inputs, sessions_to_write, texts
from tests.exchange.goose_records import (
    AGENT_ONLY,
    HIDDEN,
    Database,
    bodies,
    compacted,
    conversation,
    message,
    read,
    request,
    response,
    text,
)
from tests.exchange.pi_records import check_entries, context_texts, messages, only, tree_of
from tests.exchange.samples import EXPECTED, MemoryFile, entries_of, needs_samples, sample, sample_database
from wakelog.exchange.exporting import write_session as write_for
from wakelog.exchange.goose import reader as goose
from wakelog.exchange.goose.checks import is_accepted
from wakelog.exchange.goose.writer import GO_ON, write_session
from wakelog.exchange.writing import SessionToWrite
from wakelog.log.content import (
    Audio,
    Image,
    Note,
    Prompt,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
    Usage,
)
from wakelog.log.entry import Cancelled, Compaction, Custom, Message, Node
from wakelog.log.timestamps import iso_timestamp
from wakelog.projections.context import build_context

FAST = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def session_of(*nodes, **more):
    """Return a session of nodes without envelopes, each under the one before it."""
    placed, parent = [], "s"
    for number, node in enumerate(nodes, 1):
        own = node.id or f"n{number}"
        time = node.timestamp or iso_timestamp(STARTED_MS + 1000 * number)
        placed.append(msgspec.structs.replace(node, id=own, parent_id=parent, timestamp=time))
        parent = own
    fixed = {"session": "s", "agent": "crab", "started_ms": STARTED_MS, "cwd": "/repo", "head": parent}
    return SessionToWrite(nodes=tuple(placed), **{**fixed, **more})


def document_of(session):
    [file] = write_session(session).files
    return json.loads(file.content)


def read_back(session):
    """Return the session that was written, and the nodes of its entries."""
    [file] = write_session(session).files
    [found] = goose.read_sessions(MemoryFile(file.content, file.path))
    entries = entries_of(found)
    check_entries(entries)
    return found, entries


def said(*contents):
    """Return prompts and replies in turn."""
    return [
        Message(message=Prompt(content=content) if at % 2 == 0 else Reply(content=content))
        for at, content in enumerate(contents)
    ]


# ── a session of wakelog ─────────────────────────────────────────────────────────────────────────


def shape(nodes):
    """Return what has to be the same: messages, calls with their results, and compactions, in the order of Goose."""
    found: list[Any] = []
    calls: dict[tuple[str | None, str], tuple[int, int]] = {}
    ordered = in_written_order([node for node in nodes if isinstance(node, Node)])
    for node in ordered:
        match node:
            case Message(message=Reply() as reply):
                calls |= {(node.id, call.id): (len(found), at) for at, call in enumerate(reply.tool_calls)}
                parts = [written_part(part) for part in reply.parts]
                found.append(("reply", parts, reply.model, reply.provider, reply.request_id))
            case Message(message=ToolResult() as result):
                call = calls[result.reply_id, result.tool_call_id]
                status = result.status, result.is_error
                found.append(("result", call, result.tool_name, status, list(result.parts)))
            case Message(message=Prompt() as prompt):
                found.append(("prompt", list(prompt.parts)))
            case Message(message=Note() as note):
                found.append(("note", note.custom_type, list(note.parts)))
            case Custom(in_context=True):
                found.append(("note", node.custom_type, [Text(text=Prompt(content=node.content).text)]))
            case Cancelled() if content := Prompt(content=node.content).text:
                found.append(("reply", [Text(text=content)], None, None, None))
            case Compaction():
                found.append(("compaction", node.summary))
    return found


def written_part(part):
    """Return a part of a reply without call ids, and reasoning without the data of other APIs."""
    match part:
        case Thinking(bound=dict(bound)) if bound.get("type") != "redacted_thinking":
            return Thinking(thinking=part.thinking)
        case ToolCall():
            return msgspec.structs.replace(part, id="")
    return part


def in_written_order(nodes):
    """Return nodes with each compaction before the first node that it keeps."""
    ordered: list[Any] = []
    for node in nodes:
        kept = node.first_kept_entry_id if isinstance(node, Compaction) else None
        at = next((at for at, other in enumerate(ordered) if kept is not None and other.id == kept), len(ordered))
        ordered.insert(at, node)
    return ordered


def context_of(nodes):
    messages_ = build_context(tree_of([node for node in nodes if isinstance(node, Node)]).branch()).messages
    return [(each.role, each.text, each.is_error) for each in messages_]


@given(sessions_to_write())
@FAST
def test_a_written_session_is_read_as_it_was(session):
    """LOG-6: what Goose is given is what the log says."""
    found, entries = read_back(session)
    assert shape(entries) == shape(session.branch)
    assert context_of(entries) == context_of(session.branch)
    assert (found.cwd, found.started_ms) == (session.cwd, session.started_ms)
    assert found.title == (session.title.strip() if session.title else None)
    ids = [call.id for reply in messages(entries, Reply) for call in reply.tool_calls]
    assert ids == [call.id for reply in messages(list(session.branch), Reply) for call in reply.tool_calls]


@given(sessions_to_write(repeated_call_ids=True, branches=True))
@FAST
def test_calls_are_paired_with_their_results_where_ids_repeat(session):
    _, entries = read_back(session)
    assert shape(entries) == shape(session.branch)
    ids = [call.id for reply in messages(entries, Reply) for call in reply.tool_calls]
    assert len(set(ids)) == len(ids)


@given(sessions_to_write(branches=True))
@FAST
def test_goose_accepts_what_is_written(session):
    """One item that Goose does not know, or a time that goes back, would spoil the whole session."""
    document = document_of(session)
    conversation_ = document["conversation"]
    assert document["message_count"] == len(conversation_)
    assert all(is_accepted(item) for each in conversation_ for item in each["content"])
    assert all(isinstance(flag, bool) for each in conversation_ for flag in _flags(each))
    times = [each["created"] for each in conversation_]
    assert times == sorted(times)
    assert len({each["id"] for each in conversation_}) == len(conversation_)
    counts = [value for key, value in document.items() if key.endswith("_tokens")]
    assert all(value is None or 0 <= value < 1 << 31 for value in counts)
    assert write_session(session) == write_session(session)


def _flags(message_):
    return message_["metadata"]["userVisible"], message_["metadata"]["agentVisible"]


def test_the_commands_and_the_id():
    session = session_of(*said("Hi", "Ho"))
    written = write_for(session, "goose")
    assert written.load == ("goose", "session", "import", "{file}")
    assert written.resume == ("goose", "session", "--resume")
    day, _, number = written.id.partition("_")
    assert (day, number.isdigit()) == ("20260301", True)
    assert written.files[0].path == f"sessions/{written.id}.json"
    assert written.losses == ()
    longer = write_session(session_of(*said("Hi", "Ho", "More")))
    assert longer.id != written.id


def test_a_compaction_hides_what_it_replaces():
    session = session_of(*said("Old", "Answer", "Kept"), Compaction(summary="So far.", first_kept_entry_id="n3"))
    conversation_ = document_of(session)["conversation"]
    shown = [(each["content"][0]["text"], *_flags(each)) for each in conversation_]
    assert shown == [
        ("Old", True, False),
        ("Answer", True, False),
        ("So far.", False, True),
        (GO_ON, False, True),
        ("Kept", True, True),
    ]
    [loss] = write_session(session).losses
    assert (loss.kind, loss.reason) == ("compaction", "written before the messages that it keeps")


def test_a_compaction_that_keeps_a_result_keeps_its_call():
    asked, result = Reply(content=(ToolCall(id="c1", name="ls"),)), ToolResult(content="out", tool_call_id="c1")
    session = session_of(
        *said("Go"),
        Message(message=asked),
        Message(message=result),
        Compaction(summary="So far.", first_kept_entry_id="n3"),
        *said("Next"),
    )
    _, entries = read_back(session)
    assert context_texts(entries) == ["So far.", "", "out", "Next"]
    reasons = [loss.reason for loss in write_session(session).losses]
    assert "keeps the reply with the call of its first result as well" in reasons


def test_a_hidden_prompt_that_begins_like_a_command_stays_a_prompt():
    session = session_of(*said("/review this file", "Done"), Compaction(summary="So far."), *said("Next"))
    _, entries = read_back(session)
    assert [each.text for each in messages(entries, Prompt)] == ["/review this file", "Next"]


def test_a_compaction_without_a_summary():
    session = session_of(*said("Old"), Compaction(summary=""), *said("New"))
    _, entries = read_back(session)
    assert context_texts(entries) == ["New"]


def test_an_older_compaction_among_the_kept_messages_is_reported():
    nodes = [
        *said("A", "B"),
        Compaction(summary="One."),
        *said("C", "D"),
        Compaction(summary="Two.", first_kept_entry_id="n1"),
    ]
    session = session_of(*nodes)
    _, entries = read_back(session)
    assert context_texts(entries) == context_texts(list(session.branch)) == ["Two.", "A", "B", "C", "D"]
    assert "a later compaction keeps the messages before it" in [loss.reason for loss in write_session(session).losses]


def test_results_stand_behind_their_reply():
    call = ToolCall(id="c1", name="shell", input={})
    nodes = [
        *said("Hi", (call,), "Meanwhile"),
        Message(message=ToolResult(content="done", tool_call_id="c1", reply_id="n2", tool_name="shell", status="ok")),
    ]
    found = messages(read_back(session_of(*nodes))[1])
    assert [type(each).__name__ for each in found] == ["Prompt", "Reply", "ToolResult", "Prompt"]


def test_times_never_go_back():
    """Goose sorts by them."""
    late, early = (Message(message=Prompt(content=text_), timestamp=time) for text_, time in _TIMES)
    found = [each["created"] for each in document_of(session_of(late, early))["conversation"]]
    assert found == [1_772_359_260, 1_772_359_260]


_TIMES = (("late", "2026-03-01T10:01:00Z"), ("early", "2026-03-01T10:00:00Z"))


def test_what_is_known_of_a_result_is_kept():
    call = ToolCall(id="c1", name="shell", input={})
    result = ToolResult(
        content=(Text(text="?"), Audio(mime_type="audio/wav", data="UklGRg==")),
        tool_call_id="c1",
        reply_id="n2",
        tool_name="shell",
        status="unknown",
        is_error=True,
        duration_ms=12,
    )
    [found] = messages(read_back(session_of(*said("Hi", (call,)), Message(message=result)))[1], ToolResult)
    assert msgspec.structs.replace(found, reply_id="n2") == result


def test_usage_is_added_to_the_sums():
    usage = Usage(input_tokens=10, output_tokens=5, cache_read_tokens=100, cache_write_tokens=1, cost_micros=250_000)
    nodes = [Message(message=Prompt(content="Hi")), *(Message(message=Reply(content="Ho", usage=usage)) for _ in "12")]
    document = document_of(session_of(*nodes))
    assert [document[key] for key in ("total_tokens", "input_tokens", "output_tokens")] == [116, 111, 5]
    assert document["accumulated_total_tokens"] == 232
    assert document["accumulated_cost"] == 0.5
    assert document_of(session_of(*said("Hi")))["accumulated_total_tokens"] is None


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        (Message(message=Prompt(content=(UnknownPart(part={"type": "odd"}),))), "part"),
        (Message(message=Prompt(content=(Image(mime_type="image/png"),))), "image"),
        (Message(message=Prompt(content=(Audio(mime_type="audio/wav", data=""),))), "audio"),
        (Message(message=Reply(content=(ToolCall(id="c", name="x", input=[1]),))), "toolcall"),
        (Message(message=Reply(content="Ho", stop_reason="stop")), "stop reason of a reply"),
        (Message(message=Reply(content="Ho", model="m")), "model of a reply"),
        (Message(message=ToolResult(content="?", tool_call_id="lost")), "toolresult"),
        (Custom(custom_type="app:state"), "custom app:state"),
        (Custom(custom_type="goose:usage", data={"id": 1}), "custom goose:usage"),
        (Custom(custom_type="goose:odd", data={"role": "user", "content": [{"type": "odd"}]}), "custom goose:odd"),
    ],
)
def test_what_goose_cannot_hold_is_reported(node, kind):
    session = session_of(node)
    assert kind in [loss.kind for loss in write_session(session).losses]
    assert all(is_accepted(item) for each in document_of(session)["conversation"] for item in each["content"])


def test_a_deep_input_does_not_spoil_the_file():
    deep: list[Any] = []
    for _ in range(150):
        deep = [deep]
    session = session_of(*said("Hi", (ToolCall(id="c", name="x", input={"deep": deep}),)))
    [arguments] = [
        item["toolCall"]["value"]["arguments"]
        for each in document_of(session)["conversation"]
        for item in each["content"]
        if item["type"] == "toolRequest"
    ]
    assert json.loads(arguments["json"]) == {"deep": deep}


# ── a session of Goose ───────────────────────────────────────────────────────────────────────────


def to_write(foreign):
    """Return an imported session as a writer gets it."""
    nodes: list[Any] = [body for body in entries_of(foreign) if isinstance(body, Node)]
    placed = [msgspec.structs.replace(node, parent_id=node.parent_id or "s") for node in nodes]
    return SessionToWrite(
        session="s",
        agent="goose",
        started_ms=foreign.started_ms,
        cwd=foreign.cwd,
        title=foreign.title,
        provider=foreign.provider,
        model=foreign.model,
        nodes=tuple(placed),
        head=placed[-1].id if placed else "",
    )


def kept(entries):
    """Return what was kept beside the messages: their other fields, and records for the display."""
    found = []
    for body in entries:
        match body:
            case Custom(custom_type="goose:session" | "goose:continuation" | "goose:usage"):
                pass
            case Custom(custom_type="goose:fields"):
                found.append(("fields", body.data))
            case Custom():
                found.append((body.custom_type, body.data["content"]))
    return found


def check_round_trip(foreign):
    session = to_write(foreign)
    again, entries = read_back(session)
    assert shape(entries) == shape(session.nodes)
    assert kept(entries) == kept(session.nodes)
    assert context_of(entries) == context_of(session.nodes)
    assert (again.cwd, again.title, again.provider, again.model) == (
        foreign.cwd,
        foreign.title,
        foreign.provider,
        foreign.model,
    )
    return [body.id for body in session.nodes], [body.id for body in entries]


@st.composite
def histories(draw):
    """Return conversations as Goose writes them."""
    found: list[Any] = []
    at = 0
    signed = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    inference = {"userVisible": True, "agentVisible": True, "inference": {"provider": "p", "requestedModel": "m"}}
    notice = {"type": "systemNotification", "notificationType": "inlineMessage", "msg": "Full"}
    kinds = ("prompt", "reply", "thought", "call", "open", "failed", "notice", "command", "note", "compaction")
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=8)):
        at += 3
        call = f"call_{at}"
        failed = {"type": "toolResponse", "id": call, "toolResult": {"status": "error", "error": "gone"}}
        match kind:
            case "prompt":
                found.append(message(at, "user", draw(texts)))
            case "reply":
                found.append(message(at, "assistant", draw(texts), metadata=inference, id=f"chatcmpl-{at}"))
            case "thought":
                found.append(message(at, "assistant", signed, draw(texts)))
            case "call":
                found.append(message(at, "assistant", request(call, "a__b", draw(inputs), _meta={"x": 1})))
                result = response(call, text(draw(texts), annotations={"priority": 0.0}), is_error=draw(st.booleans()))
                found.append(message(at + 1, "user", result))
            case "open":
                found.append(message(at, "assistant", "I try.", request(call)))
            case "failed":
                found += [message(at, "assistant", request(call)), message(at + 1, "user", failed)]
            case "notice":
                found.append(message(at, "assistant", notice, metadata=HIDDEN))
            case "command":
                found.append(message(at, "user", "/plan it", metadata=HIDDEN))
                found.append(message(at + 1, "user", draw(texts), metadata=AGENT_ONLY))
            case "note" if found:
                found.append(
                    message(at, "user", text("x", _meta={"wakelog.customType": "memory"}), metadata=AGENT_ONLY)
                )
            case "compaction" if found:
                found = compacted(found, draw(texts), at)
    return found


@given(histories())
@FAST
def test_an_imported_session_is_written_back(history):
    """Its messages have the same ids when they are imported again, so none is there twice."""
    before, after = check_round_trip(read(history))
    assert after[1:] == before[1:]


def test_a_session_with_everything_is_written_back():
    check_round_trip(read(compacted(conversation(), "So far.", 20)))
    check_round_trip(read(conversation()))


def test_a_session_of_a_database_is_written_back():
    database = Database()
    database.add_session(conversation())
    check_round_trip(database.read()[0])


def test_tokens_of_goose_are_kept_and_its_extensions_are_not():
    """A session that is handed back starts no server that it names."""
    extensions = {"enabled_extensions.v0": {"extensions": [{"type": "stdio", "cmd": "/bin/evil"}]}}
    session = to_write(read(conversation(), extension_data=extensions))
    document = document_of(session)
    assert (document["total_tokens"], document["accumulated_total_tokens"]) == (140, 420)
    assert "evil" not in json.dumps(document)
    assert "extensions of the session" in [loss.kind for loss in write_session(session).losses]


def test_the_note_behind_a_summary_is_that_of_goose():
    entries = bodies(compacted(conversation(), "So far.", 20))
    assert only(entries, Compaction).summary == "So far."
    document = document_of(to_write(read(compacted(conversation(), "So far.", 20))))
    assert "Your context was compacted." in json.dumps(document)
    assert GO_ON not in json.dumps(document)


@needs_samples
@pytest.mark.parametrize("name", [name for name in EXPECTED if name.startswith("goose/")])
def test_samples_are_written_back(name):
    source = sample_database(name) if name.endswith(".db") else sample(name)
    for foreign in goose.read_sessions(source):
        check_round_trip(foreign)


@needs_samples
def test_a_sample_of_the_real_tool_is_written_back():
    for foreign in goose.read_sessions(sample_database("made-here/goose-1.34.0/sessions.db")):
        check_round_trip(foreign)
