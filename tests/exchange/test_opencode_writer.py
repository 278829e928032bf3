"""ST-9: what a session looks like in OpenCode's own format, and what is counted as lost."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.opencode_samples import only
from tests.exchange.opencode_written import STARTED, bare, call, chained, document, kept, parts_of, reply, result
from tests.exchange.samples import MemoryFile, entries_of
from wakelog.exchange.detection import detect
from wakelog.exchange.opencode.writer import write_session
from wakelog.exchange.writing import Loss
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
from wakelog.log.entry import (
    Cancelled,
    Compaction,
    ContextEntry,
    Custom,
    Failed,
    FaultReport,
    Message,
    ModelChange,
)
from wakelog.log.timestamps import iso_timestamp

# ── the file ─────────────────────────────────────────────────────────────────────────────────────


def test_the_file_is_found_out_by_its_content(tmp_path):
    written = write_session(chained(Prompt(content="Hi"), cwd="/project", title="A title", model="m", provider="p"))
    (file,) = written.files
    assert (file.path, written.resume[-1], written.load) == (
        f"{written.id}.json",
        written.id,
        ("opencode", "import", "{file}"),
    )
    path = tmp_path / "any.name"
    path.write_bytes(file.content)
    with detect(str(path)) as source:
        (session,) = source.sessions()
        assert (source.tool, session.origin.id, session.cwd) == ("opencode", written.id, "/project")
        assert (session.title, session.model, session.provider) == ("A title", "m", "p")
        assert session.started_ms == STARTED


def test_a_session_without_a_title_gets_the_one_that_opencode_replaces():
    found, _ = document(Prompt(content="Hi"))
    assert found["info"]["title"] == "New session - 2026-02-02T02:40:00.000Z"
    assert only(MemoryFile(json.dumps(found).encode(), "x.json")).title is None


def test_newer_sessions_sort_first_and_messages_ascend():
    """OpenCode's ids: those of sessions descend with time."""
    older, newer = (write_session(chained(Prompt(content="Hi"), started_ms=STARTED + ms)).id for ms in (0, 60_000))
    assert newer < older
    found, _ = document(*[Prompt(content=str(n), channel=None) for n in range(5)])
    ids = [message["info"]["id"] for message in found["messages"]]
    assert ids == sorted(ids)


def test_a_message_is_never_earlier_than_the_one_before_it():
    """OpenCode sorts messages by time; logs of other agents have times that go back, or none."""
    times = [iso_timestamp(STARTED + 5000), iso_timestamp(STARTED), "yesterday", iso_timestamp(STARTED + 9000)]
    nodes = [Message(message=Prompt(content=str(n)), timestamp=time) for n, time in enumerate(times)]
    found, _ = document(*nodes)
    created = [message["info"]["time"]["created"] - STARTED for message in found["messages"]]
    assert created == [5000, 5000, 5000, 9000]


def test_usage_of_the_session_is_the_sum():
    known = Usage(input_tokens=10, output_tokens=2, cache_read_tokens=3, cache_write_tokens=1, cost_micros=5)
    unknown = msgspec.structs.replace(known, cost_micros=None)
    found, losses = document(Prompt(content="Hi"), *(Reply(content="x", usage=usage) for usage in (known, unknown)))
    assert found["info"]["tokens"] == {"input": 20, "output": 4, "reasoning": 0, "cache": {"read": 6, "write": 2}}
    assert found["info"]["cost"] == 0.000005
    assert Loss("usage", 1, "the cost is not known; OpenCode states 0") in losses


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


def test_a_turn_with_a_tool():
    assert parts_of(
        Prompt(content="List the files"),
        reply(Text(text="Sure"), call(given={"command": "ls"}), stop_reason="tools"),
        result(Text(text="a.txt"), duration_ms=250, truncated=True),
        reply(Text(text="One file")),
    ) == [
        [{"type": "text", "text": "List the files"}],
        [
            {"type": "text", "text": "Sure"},
            {
                "type": "tool",
                "callID": "c1",
                "tool": "shell",
                "state": {
                    "status": "completed",
                    "input": {"command": "ls"},
                    "output": "a.txt",
                    "title": "",
                    "metadata": {"truncated": True},
                    "time": {"start": STARTED + 2750, "end": STARTED + 3000},
                },
            },
        ],
        [{"type": "text", "text": "One file"}],
    ]


def test_models_and_ends_of_replies():
    found, losses = document(
        Prompt(content="one"),
        reply(Text(text="1"), stop_reason="tools"),
        ModelChange(model="n", provider="q"),
        Prompt(content="two"),
        reply(Text(text="2"), model="n", provider="q", stop_reason="filtered"),
        Prompt(content="three"),
        model="last",
        provider="r",
    )
    infos = [message["info"] for message in found["messages"]]
    assert [info["model"]["modelID"] for info in infos if info["role"] == "user"] == ["m", "n", "last"]
    replies = [info for info in infos if info["role"] == "assistant"]
    assert [(info["providerID"], info["modelID"], info["finish"]) for info in replies] == [
        ("p", "m", "tool-calls"),
        ("q", "n", "content-filter"),
    ]
    assert found["info"]["model"] == {"id": "last", "providerID": "r"}
    assert losses == [Loss("change of the model", 1, "each message names its model instead")]


def test_a_reply_without_a_prompt_answers_an_empty_one():
    """OpenCode requires the message that a reply answers. It sends no empty message to the model."""
    found, losses = document(reply(Text(text="Hello")))
    first, second = found["messages"]
    assert (first["info"]["role"], first["parts"], second["info"]["parentID"]) == ("user", [], first["info"]["id"])
    assert losses == []


def test_a_note_of_opencode_goes_into_its_message_and_others_do_not():
    written = parts_of(
        Prompt(content="look at @a"),
        Note(content="the text of a", custom_type="opencode:synthetic"),
        Note(content="remembered", custom_type="memory"),
    )
    synthetic = {"type": "text", "synthetic": True}
    assert written == [
        [{"type": "text", "text": "look at @a"}, {**synthetic, "text": "the text of a"}],
        [{**synthetic, "text": "remembered"}],
    ]


@pytest.mark.parametrize(
    ("body", "loss"),
    [
        (Prompt(content=""), Loss("prompt", 1, "empty")),
        (
            Prompt(content=(Text(text="x"), Image(mime_type="image/png"))),
            Loss("prompt", 1, "media without bytes or a type"),
        ),
        (Prompt(content=(Text(text="x"), Audio(data="AAAA"))), Loss("prompt", 1, "media without bytes or a type")),
        (
            Prompt(content=(Text(text="x"), UnknownPart(part=1))),
            Loss("prompt", 1, "a part that has no place in such a message"),
        ),
        (
            Note(content=(Image(mime_type="image/png", data="AAAA"),), custom_type="opencode:synthetic"),
            Loss("note", 1, "its media are those of a person in OpenCode"),
        ),
        (reply(UnknownPart(part=1)), Loss("reply", 1, "a part that has no place in a reply")),
        (
            reply(Image(mime_type="image/png", data="AAAA")),
            Loss("reply", 1, "OpenCode keeps the media of a reply, but does not send them to the model"),
        ),
        (reply(request_id="r1"), Loss("reply", 1, "OpenCode does not keep the id of the request")),
        (
            reply(ToolCall(id="c", name="patch", input="*** Begin")),
            Loss("reply", 1, "the input of a call is not an object: it is written as the field `input` of one"),
        ),
        (
            reply(Thinking(thinking="Hm", signature="enc"), provider="openai"),
            Loss("reply", 1, "data that the model's API wants back, and that OpenCode does not keep"),
        ),
        (
            reply(Text(text="x", bound={"id": "i", "phase": "final"})),
            Loss("reply", 1, "data that the model's API wants back, and that OpenCode does not keep"),
        ),
        (result(Text(text="x")), Loss("toolresult", 1, "a result without an open call")),
        (ContextEntry(), Loss("context", 1, "OpenCode has its own instructions and tools")),
        (Custom(custom_type="app:x"), Loss("custom app:x", 1, "OpenCode has no place for it, or would act on it")),
    ],
)
def test_what_opencode_cannot_hold_is_counted(body, loss):
    assert loss in document(Prompt(content="Hi"), body)[1]


# ── compactions and faults ───────────────────────────────────────────────────────────────────────


def _compactions(*bodies):
    found, losses = document(*bodies)
    markers = [each for each in found["messages"] for part in each["parts"] if part["type"] == "compaction"]
    return found["messages"], [bare(part) for each in markers for part in each["parts"]], losses


def test_a_compaction_is_a_marker_and_a_summary():
    bodies = (Prompt(content="one"), Prompt(content="two"), Compaction(summary="So far", first_kept_entry_id="n2"))
    messages, (marker,), losses = _compactions(*bodies)
    assert marker == {"type": "compaction", "auto": False, "tail_start_id": messages[1]["info"]["id"]}
    summary = messages[3]["info"]
    assert (summary["summary"], summary["finish"], summary["mode"]) == (True, "stop", "compaction")
    assert (summary["parentID"], messages[3]["parts"][0]["text"]) == (messages[2]["info"]["id"], "So far")
    assert losses == []


def test_a_compaction_keeps_from_the_next_message_if_the_first_kept_entry_is_none():
    """A result belongs to the reply before it, and a change of the model to no message."""
    change = ModelChange(model="m")
    messages, (marker,), _ = _compactions(
        Prompt(content="one"), change, reply(Text(text="1")), Compaction(summary="S", first_kept_entry_id="n2")
    )
    assert marker["tail_start_id"] == messages[1]["info"]["id"]
    _, (marker,), _ = _compactions(Prompt(content="one"), change, Compaction(summary="S", first_kept_entry_id="n2"))
    assert "tail_start_id" not in marker
    _, (marker,), _ = _compactions(Prompt(content="one"), Compaction(summary="S", first_kept_entry_id="gone"))
    assert "tail_start_id" not in marker


def test_the_first_kept_note_is_not_added_to_a_message_that_is_not_kept():
    note = Note(content="the text of a", custom_type="opencode:synthetic")
    bodies = (Prompt(content="one"), note, Prompt(content="two"), Compaction(summary="S", first_kept_entry_id="n2"))
    messages, (marker,), _ = _compactions(*bodies)
    assert [len(message["parts"]) for message in messages] == [1, 1, 1, 1, 1]
    assert marker["tail_start_id"] == messages[1]["info"]["id"]


def test_a_compaction_that_a_later_one_undoes_is_left_out():
    """VIEW-4: the context ignores a compaction among the kept entries; OpenCode would send its summary."""
    messages, markers, losses = _compactions(
        Prompt(content="one"),
        Compaction(summary="First"),
        Prompt(content="two"),
        Compaction(summary="Second", first_kept_entry_id="n1"),
    )
    assert [marker.get("tail_start_id") for marker in markers] == [messages[0]["info"]["id"]]
    assert losses == [Loss("compaction", 1, "a later compaction keeps messages from before it")]


def test_an_empty_summary_cuts_the_context_as_well():
    """A reset of pi has no summary. OpenCode takes the marker for a compaction also then, and so does the reader."""
    found, losses = document(Prompt(content="one"), Compaction(summary="", trigger="reset"))
    (compaction,) = [
        body
        for body in entries_of(only(MemoryFile(json.dumps(found).encode(), "x.json")))
        if isinstance(body, Compaction)
    ]
    assert compaction.summary == ""
    assert {loss.kind for loss in losses} == {"compaction"}


def test_faults_are_errors_of_their_reply_or_of_an_empty_one():
    found, losses = document(
        Prompt(content="Hi"),
        reply(Text(text="half"), stop_reason="aborted"),
        Cancelled(reason="user"),
        reply(Text(text="lost"), stop_reason="error"),
        Failed(reason="ContextOverflowError", error=FaultReport(kind="ContextOverflowError", message="too long")),
        Failed(reason="retries", error=FaultReport(kind="overloaded", message="busy", retryable=True, delay_ms=7)),
        Failed(reason="ProviderAuthError"),
    )
    replies = [each["info"] for each in found["messages"][1:]]
    assert all("finish" not in info for info in replies)
    assert [info["error"] for info in replies] == [
        {"name": "MessageAbortedError", "data": {"message": "user"}},
        {"name": "ContextOverflowError", "data": {"message": "too long", "isRetryable": False}},
        {
            "name": "APIError",
            "data": {
                "message": "busy",
                "isRetryable": True,
                "metadata": {"reason": "retries", "kind": "overloaded", "delayMs": "7"},
            },
        },
        {
            "name": "ProviderAuthError",
            "data": {"message": "ProviderAuthError", "isRetryable": False, "providerID": ""},
        },
    ]
    assert losses == [Loss("reply", 1, "OpenCode does not send a reply that failed to the model")]


# ── nodes below the head ─────────────────────────────────────────────────────────────────────────


def test_what_is_below_the_head_is_hidden_and_changes_no_message_above():
    """The result, the fault and the part below the head belong to a reply above it, which stays as it was there."""
    bodies = [
        Prompt(content="Hi"),
        reply(call(), stop_reason="aborted"),
        result(Text(text="late")),
        Cancelled(reason="user"),
        kept("patch", hash="h", files=[]),
        Prompt(content="hidden"),
    ]
    alone, _ = document(*bodies[:2])
    found, losses = document(*bodies, head="n2")
    above, below = found["messages"][:2], found["messages"][2:]
    assert [[bare(part) for part in each["parts"]] for each in above] == [
        [bare(part) for part in each["parts"]] for each in alone["messages"]
    ]
    assert ["error" in each["info"] for each in found["messages"]] == [False, False, True, False]
    assert found["info"]["revert"] == {"messageID": below[0]["info"]["id"]}
    assert [loss.reason for loss in losses] == ["a result without an open call"]
    assert [bare(part)["type"] for part in below[0]["parts"]] == ["patch"]


def test_a_branch_beside_that_of_the_head_is_counted():
    session = chained(Prompt(content="one"), reply(Text(text="1")))
    other = msgspec.structs.replace(session.nodes[1], id="other")
    written = write_session(msgspec.structs.replace(session, nodes=(session.nodes[0], other, session.nodes[1])))
    assert written.losses == (Loss("reply", 1, "on another branch; OpenCode has none"),)


# ── hostile logs ─────────────────────────────────────────────────────────────────────────────────

_keys = st.sampled_from(("id", "type", "summary", "data", "google", "info", "parts", "role", "text", "field", "after"))
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_keys, inner, max_size=3),
    max_leaves=5,
)
_bounds = st.none() | st.dictionaries(_keys, _json, max_size=3)
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_parts = st.one_of(
    st.builds(Text, text=_texts, bound=_bounds),
    st.builds(Thinking, thinking=_texts, signature=st.none() | _texts, bound=_bounds),
    st.builds(ToolCall, id=_texts, name=_texts, input=_json, bound=_bounds),
    st.builds(Image, mime_type=st.sampled_from(("image/png", "", "x")), data=st.none() | _texts),
    st.builds(UnknownPart, part=_json),
)
_contents = st.lists(_parts, max_size=3).map(tuple) | _texts
_bodies = st.one_of(
    st.builds(Prompt, content=_contents),
    st.builds(Note, content=_contents, custom_type=st.sampled_from(("", "opencode:synthetic"))),
    st.builds(Reply, content=_contents, stop_reason=st.sampled_from((None, "stop", "error", "aborted"))),
    st.builds(ToolResult, content=_contents, tool_call_id=_texts, duration_ms=st.none() | st.integers(0, 2**60)),
    st.builds(Compaction, summary=_texts, first_kept_entry_id=st.sampled_from((None, "n1", "n2", "n9"))),
    st.builds(Cancelled, content=_contents),
    st.builds(Failed, reason=st.sampled_from(("", "APIError", "StructuredOutputError", "x"))),
    st.builds(Custom, custom_type=st.sampled_from(("opencode:patch", "opencode:compaction", "x")), data=_json),
    st.builds(Custom, custom_type=st.just("x"), in_context=st.just(True), content=_contents),
)


@given(st.lists(_bodies, max_size=6), st.integers(-5, 2**45))
@settings(max_examples=150, deadline=None)
def test_any_log_gives_a_file_that_opencode_takes(bodies, started_ms):
    """A log is untrusted: whatever its entries hold, the file has the form that OpenCode reads, and is read here."""
    found, _ = document(*bodies, started_ms=started_ms)
    entries_of(only(MemoryFile(json.dumps(found).encode(), "x.json")))
