"""ST-9: reasoning, results and parts that were kept verbatim, as parts of OpenCode messages."""

import json

import pytest

from tests.exchange.opencode_samples import only
from tests.exchange.opencode_written import STARTED, bare, call, document, kept, parts_of, reply, result
from tests.exchange.samples import MemoryFile, entries_of
from wakelog.exchange.writing import Loss
from wakelog.log.content import (
    Image,
    Prompt,
    Text,
    Thinking,
    ToolResult,
)
from wakelog.log.entry import (
    Custom,
    Message,
)
from wakelog.log.timestamps import iso_timestamp

# ── reasoning ────────────────────────────────────────────────────────────────────────────────────


def _reasoning(thinking, **fields):
    (_, parts) = parts_of(Prompt(content="Hi"), reply(thinking, **fields))
    return [(part["text"], part.get("metadata")) for part in parts]


def test_reasoning_goes_back_to_its_vendor():
    sealed = {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "enc"}}
    summary = Thinking(thinking="One\n\nTwo", signature="enc", bound={"id": "rs_1", "summary": [3, 3]})
    assert _reasoning(summary, provider="openai") == [("One", sealed), ("Two", sealed)]
    signed = Thinking(thinking="Hm", signature="sig")
    assert _reasoning(signed, provider="anthropic") == [("Hm", {"anthropic": {"signature": "sig"}})]
    assert _reasoning(signed, provider="github-copilot", model="claude-x") == [
        ("Hm", {"anthropic": {"signature": "sig"}})
    ]
    hidden = Thinking(bound={"type": "redacted_thinking", "data": "xyz"})
    assert _reasoning(hidden) == [("", {"anthropic": {"redactedData": "xyz"}})]
    assert _reasoning(Thinking(thinking="Hm", bound={"google": {"thoughtSignature": "t"}})) == [
        ("Hm", {"google": {"thoughtSignature": "t"}})
    ]
    assert _reasoning(Thinking(thinking="Hm")) == [("Hm", None)]
    assert _reasoning(Thinking()) == []


def test_a_summary_whose_sizes_do_not_fit_is_one_text():
    for sizes in ([3, 4], [0, 8], ["3"], [3]):
        thinking = Thinking(thinking="One\n\nTwo", bound={"id": "rs_1", "summary": sizes})
        assert [text for text, _ in _reasoning(thinking)] == ["One\n\nTwo"]


# ── results ──────────────────────────────────────────────────────────────────────────────────────


def _state(*results):
    (found, losses) = document(Prompt(content="Hi"), reply(call(), stop_reason="tools"), *results)
    state = next(part["state"] for part in found["messages"][1]["parts"] if part["type"] == "tool")
    return state, [loss.reason for loss in losses]


def test_a_call_without_a_result_stays_open():
    state, losses = _state()
    assert (state, losses) == ({"status": "running", "input": {}, "time": {"start": STARTED + 2000}}, [])


def test_images_of_a_tool_are_its_attachments():
    state, losses = _state(result(Text(text="seen"), Image(mime_type="image/png", data="AAAA")))
    (file,) = state["attachments"]
    assert bare(file) == {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AAAA"}
    assert (state["output"], losses) == ("seen", [])


@pytest.mark.parametrize(
    ("given_result", "error", "metadata", "losses"),
    [
        (result(Text(text="no"), status="error"), "no", {}, []),
        (
            result(Text(text="no"), status="denied"),
            "no",
            {},
            ["OpenCode has no status 'denied': the call has failed there"],
        ),
        (
            result(Text(text="The user rejected permission to use this specific tool call."), status="denied"),
            "The user rejected permission to use this specific tool call.",
            {},
            [],
        ),
        (
            result(Text(text="?"), status="unknown"),
            "?",
            {},
            ["OpenCode has no status 'unknown': the call has failed there"],
        ),
        (result(Text(text="stopped"), status="interrupted"), "stopped", {"interrupted": True}, []),
        (
            result(Text(text="half"), Text(text="Tool execution aborted"), status="interrupted"),
            "Tool execution aborted",
            {"interrupted": True, "output": "half"},
            [],
        ),
        (
            result(Image(mime_type="image/png", data="AAAA"), Text(text="no"), status="error"),
            "no",
            {},
            ["media of a call that failed", "its texts are one in OpenCode, and stand before the media"],
        ),
    ],
)
def test_calls_that_failed(given_result, error, metadata, losses):
    state, counted = _state(given_result)
    assert (state["status"], state["error"], state["metadata"], counted) == ("error", error, metadata, losses)


def test_a_second_result_of_a_call_is_counted():
    state, losses = _state(result(Text(text="first")), result(Text(text="second")))
    assert (state["output"], losses) == ("first", ["a result without an open call"])


def test_results_of_calls_with_the_same_id_go_to_their_replies():
    """Ids of calls are unique only within a reply."""
    bodies = [
        Prompt(content="Hi"),
        reply(call(), stop_reason="tools"),
        reply(call(), stop_reason="tools"),
        result(Text(text="of the first"), reply_id="n2"),
        result(Text(text="of the second"), reply_id="n3"),
    ]
    assert [parts[0]["state"]["output"] for parts in parts_of(*bodies)[1:]] == ["of the first", "of the second"]


def test_results_keep_the_order_in_which_they_came():
    """OpenCode knows the order by the times at which the calls ended."""
    same = iso_timestamp(STARTED + 9000)
    late = Message(message=result(Text(text="2"), call_id="c2"), timestamp=same)
    early = Message(message=result(Text(text="1")), timestamp=same)
    found, _ = document(Prompt(content="Hi"), reply(call(), call(call_id="c2"), stop_reason="tools"), late, early)
    entries = entries_of(only(MemoryFile(json.dumps(found).encode(), "x.json")))
    results = [body.message for body in entries if isinstance(body, Message) and isinstance(body.message, ToolResult)]
    assert [each.text for each in results] == ["2", "1"]


# ── parts of OpenCode that were kept verbatim ────────────────────────────────────────────────────


def test_parts_that_were_kept_are_written_where_they_stood():
    pdf = {"mime": "application/pdf", "url": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}
    source = {"type": "file", "path": "a.py", "text": {"value": "@a.py", "start": 0, "end": 5}}
    read = {"mime": "text/plain", "url": "file:///a.py", "source": source}
    written = parts_of(
        kept("agent", name="explore", extra=1),
        Prompt(content="look"),
        kept("file", **pdf),
        kept("file", **read),
        kept("text", text="shown only", ignored=True),
        reply(Text(text="Done")),
        kept("patch", hash="h", files=["a.py"]),
        Custom(custom_type="opencode:message", data={"info": {"role": "user"}, "parts": [{"type": "file", **pdf}]}),
    )
    assert written == [
        [
            {"type": "agent", "name": "explore"},
            {"type": "text", "text": "look"},
            {"type": "file", **pdf},
            {"type": "file", **read},
            {"type": "text", "text": "shown only", "ignored": True},
        ],
        [{"type": "text", "text": "Done"}, {"type": "patch", "hash": "h", "files": ["a.py"]}],
        [{"type": "file", **pdf}],
    ]


def test_the_parts_of_a_whole_message_that_are_left_out_are_counted():
    parts = [{"type": "agent", "name": "explore"}, {"type": "subtask", "prompt": "x"}, 7]
    custom = Custom(custom_type="opencode:message", data={"info": {"role": "user"}, "parts": parts})
    found, losses = document(custom)
    assert [bare(part) for part in found["messages"][0]["parts"]] == parts[:1]
    assert [(loss.kind, loss.count) for loss in losses] == [("custom opencode:message", 2)]


@pytest.mark.parametrize(
    "custom",
    [
        kept("subtask", prompt="delete it", description="d", agent="general"),
        kept("compaction", auto=True),
        kept("file", mime="image/png", url="http://127.0.0.1/x.png"),
        kept("file", mime="image/png", url="file:///etc/x.png"),
        kept("text", text="a prompt that no person wrote", ignored=False),
        kept("text", text="a prompt that no person wrote"),
        kept("patch", hash="h", files="a.py"),
        kept("tool", callID="c", tool="bash", state={"status": "running", "input": {}}),
        Custom(custom_type="opencode:patch", data=None),
        Custom(custom_type="opencode:message", data={"info": {"role": "assistant"}, "parts": []}),
        Custom(custom_type="app:state", data={"type": "agent", "name": "explore"}),
    ],
)
def test_what_opencode_would_act_on_or_refuse_is_counted(custom):
    """An imported log is untrusted: nothing it holds makes OpenCode run, fetch or say something by itself."""
    found, losses = document(Prompt(content="Hi"), custom)
    assert [bare(part) for part in found["messages"][0]["parts"]] == [{"type": "text", "text": "Hi"}]
    assert len(found["messages"]) == 1
    assert losses == [Loss(f"custom {custom.custom_type}", 1, "OpenCode has no place for it, or would act on it")]
