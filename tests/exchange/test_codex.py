"""ST-9: sessions of Codex, of every version, without loss: replies, calls, results, usage, turns, branches, forks."""

from typing import Literal

import pytest

from tests.exchange.codex_records import (
    BARE,
    DOCUMENT,
    LEGACY,
    PAGINATED,
    THREAD,
    answer,
    call,
    entries,
    event,
    item,
    line,
    messages,
    meta,
    output,
    read,
    reasoning,
    replies,
    results,
    tokens,
    turn_context,
    user,
)
from tests.exchange.samples import MemoryFile, account_of, entries_of, jsonl
from wakelog.errors import UsageError
from wakelog.exchange.codex.reader import (
    is_codex,
    is_state_database,
    read_sessions,
    why_refused,
)
from wakelog.exchange.sessions import SkippedRecords
from wakelog.log.content import AnyMessage, Image, Note, Prompt, Reply, Text, Thinking, ToolCall, UnknownPart, Usage
from wakelog.log.entry import (
    Cancelled,
    Custom,
    Failed,
    ModelChange,
)
from wakelog.log.timestamps import iso_timestamp
from wakelog.projections.context import ContextMessage
from wakelog.recording.requests import openai_responses_items

# ── detection ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("head", [LEGACY, PAGINATED, BARE, [DOCUMENT], LEGACY[4:], BARE[2:], [BARE[0]]])
def test_every_version_is_recognised(head):
    assert is_codex(head[:20])
    assert why_refused(head[:20]) is None


@pytest.mark.parametrize(
    "record",
    [
        {"type": "session", "id": "a", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/"},
        {
            "type": "user",
            "uuid": "u",
            "parentUuid": None,
            "sessionId": "s",
            "message": {"role": "user", "content": "x"},
        },
        {"sessionId": "s", "projectHash": "h", "startTime": "t"},
        {"type": "message", "payload": {}},
        {"type": "event_msg", "payload": []},
        {"session": {}, "items": []},
        {"role": "user", "content": "x"},
        7,
    ],
)
def test_other_records_are_not(record):
    assert not is_codex([record])


def test_the_prompt_history_is_refused_by_name():
    """history.jsonl holds prompts of all sessions: it is not a transcript."""
    records = [{"session_id": THREAD, "ts": 1759848400, "text": "list"}] * 3
    assert not is_codex(records)
    assert "not a transcript" in (why_refused(records) or "")
    with pytest.raises(UsageError, match="not a transcript"):
        list(read_sessions(MemoryFile(jsonl(*records), "history.jsonl")))


def test_the_state_database_is_recognised_by_its_columns():
    assert is_state_database({"threads": ("id", "rollout_path", "title")})
    assert not is_state_database({"threads": ("id", "subject")})
    assert not is_state_database({})


# ── a session ────────────────────────────────────────────────────────────────────────────────────


def test_a_session_has_the_facts_of_its_header():
    session = read(*LEGACY)
    assert (session.origin.tool, session.origin.id, session.origin.version) == ("codex", THREAD, "0.146.0")
    assert (session.agent, session.cwd, session.provider, session.model) == ("codex", "/repo", "openai", "gpt-5")
    assert session.started_ms == int(THREAD.replace("-", "")[:12], 16)
    assert (session.origin.parent, session.origin.is_subagent) == ("", False)


def test_messages_in_order():
    """A prompt is always a turn of a person; what Codex adds in the role of the user is a note."""
    found = messages(entries(*LEGACY))
    assert [type(message).__name__ for message in found] == [
        *("Note", "Prompt", "Reply", "ToolResult", "ToolResult", "Reply", "ToolResult", "Note", "Prompt", "Reply"),
    ]
    assert [message.custom_type for message in found if isinstance(message, Note)] == [
        "codex:environment_context",
        "codex:turn_aborted",
    ]
    assert [message.text for message in found if isinstance(message, Prompt)] == ["Fix the tests", "Never mind"]


def test_one_reply_for_one_response():
    """The items of a response are lines of their own, with events between them."""
    first, second, third = replies(entries(*LEGACY))
    assert [type(part) for part in first.parts] == [Thinking, Text, ToolCall, ToolCall]
    assert [type(part) for part in second.parts] == [Thinking, ToolCall]
    assert (first.text, first.stop_reason, first.model, first.provider) == ("I look", "tools", "gpt-5", "openai")
    assert (third.text, third.stop_reason, third.model) == ("Good", "stop", "gpt-5-mini")
    assert first.tool_calls[0] == ToolCall(id="call_1", name="shell", input={"command": "ls"}, bound={"spaced": True})


def test_results_name_their_reply_and_outcome():
    bodies = entries(*LEGACY)
    by_id = {body.id: body for body in bodies}
    found = results(bodies)
    assert [(result.tool_call_id, result.tool_name, result.status) for result in found] == [
        ("call_1", "shell", "ok"),
        ("call_2", "shell", "error"),
        ("call_3", "shell", "interrupted"),
    ]
    assert [result.is_error for result in found] == [False, True, True]
    assert found[0].duration_ms == 1500
    for result in found:
        assert result.tool_call_id in [each.id for each in by_id[result.reply_id].message.tool_calls]


def test_usage_excludes_what_was_cached():
    first, second, third = replies(entries(*LEGACY))
    assert first.usage == Usage(input_tokens=60, cache_read_tokens=40, output_tokens=7)
    assert second.usage == Usage(input_tokens=50, cache_read_tokens=100, output_tokens=7)
    assert third.usage == Usage(input_tokens=160, output_tokens=7)


def test_display_events_that_repeat_items_are_counted():
    items = list(read(*LEGACY).items)
    skipped = {(each.kind, each.count) for each in items if isinstance(each, SkippedRecords)}
    assert skipped == {
        ("event_msg/user_message", 1),
        ("event_msg/agent_reasoning", 1),
        ("event_msg/agent_message", 1),
        ("event_msg/token_count", 2),
    }
    assert account_of(items) == {"mapped": 18, "verbatim": 5, "skipped": 5, "bad": 0}


@pytest.mark.parametrize(
    "shown",
    [
        event("user_message", message="Fix it", local_images=["/a.png"]),
        event("user_message", message="Another text"),
        event("agent_message", message="Never written as an item"),
        event("agent_message", message="I look", memory_citation={"entries": []}),
        event("patch_apply_end", call_id="c", changes={"a": {"add": {"content": "x"}}}),
        event("item_completed", item={"type": "Plan", "text": "one"}),
        event("item_completed", item={"type": "UserMessage", "content": [{"type": "image", "url": "x"}]}),
        event("exec_command_end", call_id="c", exit_code=1),
        event("invented_later", anything=1),
        line("security_risk_score", {"score": 1}),
        line("invented_later", {"anything": 1}),
    ],
)
def test_what_holds_more_is_kept_verbatim(shown):
    bodies = entries(meta(), user("Fix it"), shown, answer("I look"), turn_context())
    assert shown in [body.data for body in bodies if isinstance(body, Custom)]


def test_lines_between_items_do_not_branch():
    """A line that is kept verbatim is in the chain, and the reply around it stays one."""
    bodies = entries(meta(), user("Go"), reasoning(), line("world_state", {"full": False}), call("c1"), output("c1"))
    assert [body.parent_id for body in bodies[1:]] == [body.id for body in bodies[:-1]]
    assert [len(reply.parts) for reply in replies(bodies)] == [2]


def test_an_interruption_is_a_cancelled_turn():
    (cancelled,) = [body for body in entries(*LEGACY) if isinstance(body, Cancelled)]
    assert cancelled.reason == "interrupted"


def test_a_failed_turn():
    error = {"message": "stream disconnected", "codex_error_info": "other"}
    (failed,) = [
        body for body in entries(meta(), user("Go"), event("task_complete", error=error)) if isinstance(body, Failed)
    ]
    assert (failed.reason, failed.error.kind) == ("stream disconnected", "other")


def test_the_model_of_each_turn():
    changes = [body for body in entries(*LEGACY) if isinstance(body, ModelChange)]
    assert [(change.model, change.provider) for change in changes] == [("gpt-5", "openai"), ("gpt-5-mini", "openai")]


def test_settings_that_repeat_are_counted():
    """Old versions write the context of a turn before each request."""
    items = list(read(meta(), turn_context(), turn_context(), turn_context("o4"), turn_context("o4")).items)
    assert SkippedRecords("turn_context", 2, "repeats the one before it") in items


def test_a_paginated_session():
    """Ordinals, `item_completed` instead of display events, and usage in records with the id of the response."""
    bodies = entries(*PAGINATED)
    assert [type(message).__name__ for message in messages(bodies)] == ["Prompt", "Reply", "ToolResult", "Reply"]
    first, second = replies(bodies)
    assert (first.usage, first.request_id) == (
        Usage(input_tokens=100, cache_read_tokens=20, output_tokens=3),
        "resp_1",
    )
    assert (second.usage, second.request_id) == (Usage(input_tokens=130, output_tokens=4), "resp_2")
    kept = [
        body.data["payload"]["item"]["type"] for body in bodies if "item_completed" in getattr(body, "custom_type", "")
    ]
    assert kept == ["CommandExecution"]
    assert results(bodies)[0].status == "ok"


# ── usage ────────────────────────────────────────────────────────────────────────────────────────


def _inputs(bodies):
    return [reply.usage and reply.usage.input_tokens for reply in replies(bodies)]


def test_usage_after_the_results():
    """Versions of mid-2026 write the usage when the tools of a response have run."""
    step = [call("c1"), call("c2"), output("c1"), output("c2"), tokens(10, 10)]
    bodies = entries(meta(), user("Go"), *step, reasoning(), call("c3"), output("c3"), tokens(20, 30), answer("x"))
    assert _inputs(bodies) == [10, 20, None]


def test_usage_before_the_items():
    """Versions of 2025 write the usage when the response is over, and the items behind it with their results."""
    first = [event("agent_message", message="Hm"), tokens(10, 10), answer("Hm"), call("c1"), output("c1")]
    second = [call("c2"), output("c2"), tokens(20, 30), answer("End")]
    bodies = entries(meta(), user("Go"), *first, *second, turn_context())
    assert _inputs(bodies) == [10, None, 20]


def test_usage_is_counted_once():
    """The event is sent again with new rate limits."""
    first = [call("c1"), tokens(10, 10), tokens(10, 10), output("c1"), tokens(10, 10)]
    second = [reasoning(), tokens(10, 10), call("c2"), tokens(20, 30)]
    bodies = entries(meta(), user("Go"), *first, *second)
    assert _inputs(bodies) == [10, 20]
    assert not [body for body in bodies if "token_count" in getattr(body, "custom_type", "")]


def test_usage_without_a_reply_is_kept():
    bodies = entries(meta(), user("Go"), answer("x"), tokens(10, 10), turn_context(), tokens(5, 15), user("Next"))
    assert [body.custom_type for body in bodies if "token_count" in getattr(body, "custom_type", "")]


# ── calls and results ────────────────────────────────────────────────────────────────────────────


def test_every_kind_of_call():
    action = {"type": "exec", "command": ["ls"]}
    records = [
        item("function_call", call_id="a", id="fc_1", name="look", namespace="mcp__docs", arguments='{"q":1}'),
        item(
            "custom_tool_call", call_id="b", id="ctc_1", name="apply_patch", input="*** Begin Patch", status="completed"
        ),
        item("local_shell_call", id="lsh_1", status="completed", action=action),
        item("tool_search_call", call_id="d", execution="client", arguments={"query": "x"}),
        item("web_search_call", id="ws_1", status="completed", action={"type": "search", "query": "x"}),
        output(
            "a",
            [{"type": "input_text", "text": "one"}, {"type": "input_image", "image_url": "data:image/png;base64,QUJD"}],
        ),
        item(
            "custom_tool_call_output",
            call_id="b",
            output='{"output":"ok","metadata":{"exit_code":0,"duration_seconds":0.5}}',
        ),
        output("lsh_1", "files"),
        item("tool_search_output", call_id="d", status="completed", tools=[{"name": "found"}]),
    ]
    bodies = entries(meta(), user("Go"), *records)
    (reply,) = replies(bodies)
    assert [(each.id, each.name, each.input) for each in reply.tool_calls] == [
        ("a", "look", {"q": 1}),
        ("b", "apply_patch", "*** Begin Patch"),
        ("lsh_1", "local_shell", action),
        ("d", "tool_search", {"query": "x"}),
    ]
    first, second = (each.bound or {} for each in reply.tool_calls[:2])
    assert first["codex"]["namespace"] == "mcp__docs"
    assert second["codex"] == {"type": "custom_tool_call", "id": "ctc_1", "status": "completed"}
    assert reply.parts[4] == Text(text="", bound={"item": records[4]["payload"]})
    found = results(bodies)
    assert [result.tool_call_id for result in found] == ["a", "b", "lsh_1", "d"]
    assert found[0].content == (Text(text="one"), Image(mime_type="image/png", data="QUJD"))
    assert (found[1].status, found[1].duration_ms) == ("ok", 500)
    assert "found" in found[3].text


def test_a_call_without_a_result_stays_open():
    bodies = entries(meta(), user("Go"), call("c1"), call("c2"), output("c2"), user("Next"))
    assert [result.tool_call_id for result in results(bodies)] == ["c2"]


@pytest.mark.parametrize("records", [[output("c1")], [call("c1"), output("c1"), output("c1")]])
def test_a_result_without_an_open_call_is_kept_verbatim(records):
    bodies = entries(meta(), user("Go"), *records)
    (kept,) = [
        body for body in bodies if getattr(body, "custom_type", "") == "codex:response_item/function_call_output"
    ]
    assert kept.data == records[-1]


def test_calls_with_equal_ids_are_told_apart():
    bodies = entries(meta(), user("Go"), call("c"), call("c"), output("c", "one"), output("c", "two"))
    assert [each.id for each in replies(bodies)[0].tool_calls] == ["c", "c.2"]
    assert [(result.tool_call_id, result.text) for result in results(bodies)] == [("c", "one"), ("c.2", "two")]


def test_arguments_that_are_not_json_stay_text():
    (reply,) = replies(entries(meta(), call("c", arguments='{"cut'), output("c")))
    assert reply.tool_calls[0].input == '{"cut'


def test_media_that_are_not_in_the_file_are_kept_as_they_are():
    content = [{"type": "input_image", "image_url": "https://example.org/a.png"}, {"type": "input_text", "text": "See"}]
    (prompt,) = messages(entries(meta(), item("message", role="user", content=content)))
    assert prompt.content == (UnknownPart(part=content[0]), Text(text="See"))


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (["hello", {"type": "input_text", "text": "you"}], (Text(text="hello"), Text(text="you"))),
        ({"type": "input_text", "text": "hello"}, (Text(text="hello"),)),
        ([7, None], (UnknownPart(part=7), UnknownPart(part=None))),
        (7, (UnknownPart(part=7),)),
        ("hello", (Text(text="hello"),)),
    ],
)
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_content_of_unusual_forms_is_kept(content, parts, role):
    (message,) = messages(entries(meta(), item("message", role=role, content=content)))
    assert message.parts == parts


def test_reasoning_of_unusual_forms_is_kept():
    rest = {"type": "invented_later"}
    bodies = entries(meta(), item("reasoning", summary=["one"], content="two"), item("reasoning", summary=[rest]))
    (reply,) = replies(bodies)
    assert [part.thinking for part in reply.parts if isinstance(part, Thinking)] == ["one\n\ntwo", ""]
    assert reply.parts[-1] == UnknownPart(part=rest)


# ── reasoning ────────────────────────────────────────────────────────────────────────────────────


def _role(message: AnyMessage) -> Literal["user", "assistant", "toolResult"]:
    match message:
        case Prompt() | Note():
            return "user"
        case Reply():
            return "assistant"
    return "toolResult"


def _sent_back(bodies):
    """Return the items of the next request to the Responses API."""
    context = [
        ContextMessage(
            role=_role(message),
            content=message.parts,
            tool_call_id=getattr(message, "tool_call_id", None),
            model=getattr(message, "model", None),
            provider=getattr(message, "provider", None),
        )
        for message in messages(bodies)
    ]
    return openai_responses_items(context, model="gpt-5")


@pytest.mark.parametrize("ids", [{"rs": {"id": "rs_1"}, "msg": {"id": "msg_1"}, "fc": {"id": "fc_1"}}, {}])
def test_encrypted_reasoning_goes_back_to_the_responses_api(ids):
    """With the ids of the items, and without any, as older versions write them."""
    said = [reasoning("Two", **ids.get("rs", {})), answer("Now", **ids.get("msg", {})), call("c1", **ids.get("fc", {}))]
    bodies = entries(meta(), turn_context(), user("Go"), *said, output("c1"))
    thought, text, called, result = _sent_back(bodies)[1:]
    assert thought == {
        "type": "reasoning",
        **ids.get("rs", {}),
        "summary": [{"type": "summary_text", "text": "Two"}],
        "encrypted_content": "gAAA",
    }
    assert (text["content"][0]["text"], text.get("id")) == ("Now", ids.get("msg", {}).get("id"))
    assert (called["arguments"], called.get("id")) == ('{"command": "ls"}', ids.get("fc", {}).get("id"))
    assert result == {"type": "function_call_output", "call_id": "c1", "output": "done"}


def test_a_reply_with_a_custom_call_goes_back_plainly():
    """The API has another type of item for it, so its id and the reasoning before it are not valid there."""
    custom = item("custom_tool_call", call_id="c1", id="ctc_1", name="apply_patch", input="x")
    sent = _sent_back(entries(meta(), turn_context(), user("Go"), reasoning(id="rs_1"), custom, output("c1")))
    assert [each.get("type") for each in sent] == [None, "function_call", "function_call_output"]


def test_usage_behind_the_end_of_the_last_turn_is_that_of_its_reply():
    for end in (event("task_complete", turn_id="t"), event("turn_aborted", reason="interrupted")):
        bodies = entries(meta(), turn_context(), user("Go"), answer("Done."), end, tokens(10, 10))
        assert [reply.usage and reply.usage.input_tokens for reply in replies(bodies)] == [10]


@pytest.mark.parametrize(
    ("records", "path", "begun"),
    [
        ((user("Go"), answer("Done.")), "rollout.jsonl", "2026-11-16T18:00:05.000Z"),
        ((), "rollout-2026-11-16T18-09-22-x.jsonl", "2026-11-16T18:09:22.000Z"),
    ],
)
def test_a_header_without_a_time_has_that_of_the_first_record_or_of_the_name(records, path, begun):
    """Not that of 1970."""
    header = meta("no-time-in-this-id")
    del header["timestamp"], header["payload"]["timestamp"]
    session = read(header, *records, path=path)
    assert iso_timestamp(session.started_ms) == begun
    assert {body.timestamp for body in entries_of(session)} == {begun}
