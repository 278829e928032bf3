"""ST-9: rollouts written for Codex hold what it needs to continue a session, and nothing that would keep it from that.

What Codex does with these files was tried with version 0.166.0; `tests/real_tools/test_codex.py` tries it again.
"""

import json

import pytest

from tests.exchange.codex_records import answer, call, item, line, meta, output, read, turn_context, user
from tests.exchange.codex_records import reasoning as reasoning_line
from tests.exchange.codex_written import (
    STARTED_MS,
    imported,
    items,
    losses_of,
    payloads,
    read_back,
    session_of,
    written_and_read,
)
from wakelog.exchange.codex.lines import started_ms_of
from wakelog.exchange.codex.writer import write_session
from wakelog.exchange.exporting import write_session as write_to
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
from wakelog.log.entry import Cancelled, Compaction, ContextEntry, Custom, Message, Setting

CALL = ToolCall(id="call_1", name="shell", input={"cmd": "ls"})


def done(text="Done", **more):
    return Reply(content=text, stop_reason="stop", **more)


def result(reply, call_id="call_1", content="fine", **more):
    return ToolResult(content=content, tool_call_id=call_id, reply_id=reply, **more)


# ── the file ─────────────────────────────────────────────────────────────────────────────────────


def test_the_file_is_where_codex_looks_for_it():
    written = write_to(session_of(Prompt(content="Hi"), done()), "codex")
    (file,) = written.files
    assert file.path == f"sessions/2026/03/01/rollout-2026-03-01T10-00-00-{written.id}.jsonl"
    assert started_ms_of(written.id) == STARTED_MS
    assert written.resume == ("codex", "resume", written.id)
    (header,) = payloads(written, "session_meta")
    assert header["id"] == header["session_id"] == written.id
    assert (header["cwd"], header["source"], header["history_mode"]) == ("/repo", "cli", "paginated")


def test_each_turn_has_a_beginning_and_an_end():
    written = write_session(session_of(Prompt(content="One"), done("1"), Prompt(content="Two"), done("2")))
    started, completed = payloads(written, "event_msg/task_started"), payloads(written, "event_msg/task_complete")
    assert [turn["turn_id"] for turn in started] == [turn["turn_id"] for turn in completed]
    assert [turn["last_agent_message"] for turn in completed] == ["1", "2"]
    assert len({turn["turn_id"] for turn in started}) == 2


def test_what_was_said_is_displayed():
    written = write_session(session_of(Prompt(content="One"), done("1"), Note(content="aside", custom_type="memory")))
    shown = [event["item"] for event in payloads(written, "event_msg/item_completed")]
    assert [(each["type"], each["content"][0]["text"]) for each in shown] == [
        ("UserMessage", "One"),
        ("AgentMessage", "1"),
    ]
    assert len({each["id"] for each in shown}) == 2


# ── models and providers ─────────────────────────────────────────────────────────────────────────


def test_no_model_and_provider_of_others_is_written():
    """Codex refuses to resume with a provider that it does not have, and would ask its own for a foreign model."""
    reply = done(model="claude-sonnet-4-5", provider="anthropic")
    written = write_session(session_of(Prompt(content="Hi"), reply, provider="anthropic", model="claude-sonnet-4-5"))
    assert b"anthropic" not in written.files[0].content
    assert b"claude" not in written.files[0].content
    assert losses_of(written) == {"model": 1}


def test_a_session_of_codex_keeps_its_model_and_provider():
    before = imported(
        read(meta(), turn_context("gpt-5"), user("Hi"), answer("Yes"), turn_context("gpt-6"), user("So?"))
    )
    written = write_session(before)
    assert payloads(written, "session_meta")[0]["model_provider"] == "openai"
    assert [context["model"] for context in payloads(written, "turn_context")] == ["gpt-5"]


def test_the_approval_policy_is_the_careful_one():
    """An imported log is untrusted, and Codex takes the policy of a resumed session from its file."""
    free = line("turn_context", {"cwd": "/", "model": "m", "approval_policy": "never", "sandbox_policy": {"type": "x"}})
    written = write_session(imported(read(meta(), free, user("Hi"), answer("Yes"))))
    (context,) = payloads(written, "turn_context")
    assert (context["approval_policy"], context["sandbox_policy"]) == ("on-request", {"type": "read-only"})


def test_the_header_of_codex_is_taken_over_where_it_can_be_read():
    """A header that Codex cannot read would hide the whole session."""
    given = {"text": "Be brief", "provenance": {"type": "model", "model": "gpt-5"}}
    good = meta(base_instructions=given, git={"branch": "main", "commit_hash": None}, dynamic_tools=[1])
    (header,) = payloads(write_session(imported(read(good, user("Hi")))), "session_meta")
    assert (header["base_instructions"], header["git"]) == (given, {"branch": "main"})
    assert "dynamic_tools" not in header
    bad = meta(base_instructions={"text": 5}, git=[], model_provider={})
    (header,) = payloads(write_session(imported(read(bad, user("Hi")))), "session_meta")
    assert header.keys() & {"base_instructions", "git", "model_provider"} == set()


def test_replies_made_here_are_not_taken_for_those_of_codex():
    """A session of Codex that was continued by wakelog, with the provider of the same name."""
    before = imported(read(meta(), turn_context("gpt-5"), user("Hi"), answer("Yes")))
    thought = Thinking(thinking="Hm", signature="ours", bound={"id": "rs_9", "summary": [2]})
    own = Reply(content=(thought, Text(text="More", bound={"id": "msg_9", "after": "rs_9"})), provider="openai")
    nodes = [node.without_envelope for node in before.branch]
    more = [Message(message=Prompt(content="And?")), Message(message=_with_call(own))]
    written = write_session(session_of(*nodes, *more))
    assert [each.get("id") for each in items(written) if each.get("role") == "assistant"] == [None, None]
    assert losses_of(written)["thinking"] == 1


def _with_call(reply):
    return Reply(content=reply.content, provider=reply.provider, call_id="01call")


# ── reasoning ────────────────────────────────────────────────────────────────────────────────────


def test_reasoning_of_others_is_displayed_and_not_sent():
    thought = Thinking(thinking="Let me see", signature="c2ln")
    written = write_session(session_of(Prompt(content="Hi"), Reply(content=(thought, Text(text="Yes")))))
    assert [each["type"] for each in items(written)] == ["message", "message"]
    shown = [event["item"] for event in payloads(written, "event_msg/item_completed")]
    assert [each["summary_text"] for each in shown if each["type"] == "Reasoning"] == [["Let me see"]]
    assert b"c2ln" not in written.files[0].content
    assert losses_of(written) == {"thinking": 1}


def test_reasoning_of_codex_is_written_as_it_was():
    parts = [{"type": "summary_text", "text": text} for text in ("First", "Then")]
    raw = [{"type": "reasoning_text", "text": "raw"}]
    thought = item("reasoning", id="rs_1", summary=parts, content=raw, encrypted_content="gAAA")
    said = answer("Yes", id="msg_1", phase="final_answer")
    written = write_session(imported(read(meta(), turn_context(), user("Hi"), thought, said)))
    assert items(written)[1:] == [thought["payload"], said["payload"]]
    assert not losses_of(written).get("thinking")


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


def test_a_prompt_that_looks_like_context_stays_a_prompt():
    back = written_and_read(session_of(Prompt(content="<skill>what is this tag?"), done()))
    assert [node.message.text for node in back.branch if _is(node, Prompt)] == ["<skill>what is this tag?"]


def _is(node, kind):
    return isinstance(node, Message) and isinstance(node.message, kind)


@pytest.mark.parametrize(
    ("kind", "read_kind", "role"),
    [
        ("memory", "codex:memory", "user"),
        ("codex:environment_context", "codex:environment_context", "user"),
        ("codex:developer", "codex:developer", "developer"),
        ("user.text", "codex:note.user.text", "user"),
        ("", "codex:note.", "user"),
    ],
)
def test_notes_stay_notes(kind, read_kind, role):
    written = write_session(session_of(Note(content="A note", custom_type=kind), Prompt(content="Hi")))
    assert [each["role"] for each in items(written)] == [role, "user"]
    notes = [node.message for node in read_back(written).branch if _is(node, Note)]
    assert [(note.custom_type, note.text) for note in notes] == [(read_kind, "A note")]


def test_media():
    image, audio = Image(mime_type="image/jpeg", data="aGk="), Audio(data="aGk=")
    lost, unknown = Image(mime_type="image/png"), UnknownPart(part={"type": "video"})
    written = write_session(session_of(Prompt(content=(image, audio, lost, unknown))))
    assert items(written)[0]["content"] == [
        {"type": "input_image", "image_url": "data:image/jpeg;base64,aGk="},
        {"type": "input_audio", "audio_url": "data:audio/wav;base64,aGk="},
        {"type": "input_text", "text": "(a picture that cannot be shown here: image/png)"},
    ]
    assert losses_of(written) == {"prompt": 2}


def test_a_message_between_agents_is_written_once():
    content = [{"type": "input_text", "text": "Report"}]
    sent = item("agent_message", author="/root", recipient="/root/a", content=content)
    before = imported(read(meta(), sent, answer("Yes")))
    written = write_session(before)
    assert items(written)[0] == sent["payload"]
    assert len(items(written)) == 2
    assert [type(node.message) for node in read_back(written).branch if isinstance(node, Message)] == [Note, Reply]


def test_what_has_no_place_is_counted():
    others = [ContextEntry(), Setting(key="effort"), Custom(custom_type="app:x", data=1), Reply(content=())]
    written = write_session(session_of(Prompt(content="Hi"), *others, title="Name", labels={"n1": "good"}))
    assert losses_of(written) == {
        "context": 1,
        "setting effort": 1,
        "custom app:x": 1,
        "reply": 1,
        "title": 1,
        "label": 1,
    }


# ── tool calls ───────────────────────────────────────────────────────────────────────────────────


def test_an_open_call_stays_open():
    """Codex tells the model that it was aborted. A turn without an answer is not said to be complete."""
    written = write_session(session_of(Prompt(content="Hi"), Reply(content=(CALL,), stop_reason="tools")))
    assert [each["type"] for each in items(written)] == ["message", "function_call"]
    assert payloads(written, "event_msg/task_complete") == []


def test_calls_with_the_same_id_get_ids_of_their_own():
    reply = Reply(content=(CALL,), stop_reason="tools")
    written = write_session(
        session_of(Prompt(content="Hi"), reply, result("n2", content="a"), reply, result("n4", content="b"), done())
    )
    assert [each["call_id"] for each in items(written) if "call_id" in each] == [
        *("call_1", "call_1", "call_1_2", "call_1_2")
    ]
    assert losses_of(written) == {"id of a tool call": 1}


def test_a_long_id_is_shortened():
    """The service refuses ids of more than 64 characters."""
    long = ToolCall(id="x" * 100, name="shell", input={})
    written = write_session(session_of(Reply(content=(long,)), result("n1", "x" * 100)))
    assert len({each["call_id"] for each in items(written)}) == 1
    assert len(items(written)[0]["call_id"]) <= 64


def test_a_result_without_its_call_and_a_second_result_are_counted():
    reply = Reply(content=(CALL,), stop_reason="tools")
    session = session_of(Prompt(content="Hi"), reply, result("n2"), result("n2"), result("other", "call_9"))
    written = write_session(session)
    assert sum(each["type"] == "function_call_output" for each in items(written)) == 1
    assert losses_of(written) == {"toolresult": 2}


def test_a_failed_tool_run():
    """What the model was told is kept; the status is not, and that is counted."""
    reply = Reply(content=(CALL,), stop_reason="tools")
    failed = result("n2", content="No such file", status="error", is_error=True, duration_ms=5)
    written = write_session(session_of(Prompt(content="Hi"), reply, failed))
    assert items(written)[-1] == {"type": "function_call_output", "call_id": "call_1", "output": "No such file"}
    assert losses_of(written) == {"status of a tool result": 1, "duration of a tool run": 1}


def test_an_input_that_is_no_object():
    odd = ToolCall(id="call_1", name="shell", input=[1])
    written = write_session(session_of(Reply(content=(odd,), stop_reason="tools")))
    assert json.loads(items(written)[0]["arguments"]) == {"input": [1]}
    assert losses_of(written) == {"tool call": 1}


CALLS_OF_CODEX = [
    (call("c1", arguments='{"a": 1}', id="fc_1", namespace="mcp"), output("c1")),
    (
        call("c1", arguments='{"a":1}'),
        output("c1", [{"type": "input_text", "text": "x"}, {"type": "input_text", "text": "y"}]),
    ),
    (call("c1", arguments="not json"), output("c1")),
    (call("c1", arguments="[1]"), output("c1")),
    (
        item("custom_tool_call", call_id="c1", name="apply_patch", input="*** Begin", status="completed"),
        item("custom_tool_call_output", call_id="c1", output="ok"),
    ),
    (
        item("local_shell_call", call_id="c1", status="completed", action={"type": "exec", "command": ["ls"]}),
        output("c1"),
    ),
    (
        item("tool_search_call", call_id="c1", execution="client", arguments={"q": "x"}),
        item("tool_search_output", call_id="c1", status="completed", execution="client", tools=[{"name": "t"}]),
    ),
    (item("image_generation_call", id="ig_1", status="completed", result="aGVsbG8="), user("Nice")),
    (item("web_search_call", status="completed", action={"type": "search", "query": "x"}), user("Nice")),
]


@pytest.mark.parametrize(("asked", "answered"), CALLS_OF_CODEX, ids=lambda record: record["payload"]["type"])
def test_calls_of_codex_are_written_as_they_were(asked, answered):
    written = write_session(imported(read(meta(), turn_context(), user("Hi"), reasoning_line(), asked, answered)))
    assert items(written)[2] == asked["payload"]
    if answered["payload"]["type"] != "message":
        assert items(written)[3] == answered["payload"]


# ── turns ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_meanwhile", [True, False])
def test_a_prompt_while_a_tool_runs_belongs_to_the_turn(is_meanwhile):
    """The result stands directly behind its call, as the model was given it."""
    asking = Reply(content=(CALL,), stop_reason="tools")
    between = [Prompt(content="Hurry"), result("n2")]
    written = write_session(
        session_of(Prompt(content="Hi"), asking, *(between if is_meanwhile else between[::-1]), done())
    )
    assert len(payloads(written, "event_msg/task_started")) == len(payloads(written, "event_msg/task_complete")) == 1
    kinds = [each.get("role") or each["type"] for each in items(written)]
    assert kinds == ["user", "function_call", "function_call_output", "user", "assistant"]
    moved = [loss.count for loss in written.losses if loss.kind == "place of a tool result"]
    assert moved == ([1] if is_meanwhile else [])


def test_a_prompt_after_a_crash_begins_a_turn():
    asking = Reply(content=(CALL,), stop_reason="tools")
    written = write_session(session_of(Prompt(content="Hi"), asking, Prompt(content="Again"), done()))
    (completed,) = payloads(written, "event_msg/task_complete")
    started = [turn["turn_id"] for turn in payloads(written, "event_msg/task_started")]
    assert (len(started), completed["turn_id"]) == (2, started[1])


def test_two_replies_in_a_row_stay_two():
    back = written_and_read(session_of(Prompt(content="Hi"), done("one"), done("two"), Prompt(content="So")))
    assert [node.message.text for node in back.branch if _is(node, Reply)] == ["one", "two"]


def test_a_cancelled_turn():
    written = write_session(session_of(Prompt(content="Hi"), Cancelled(reason="user", content="Half a")))
    (aborted,) = payloads(written, "event_msg/turn_aborted")
    (started,) = payloads(written, "event_msg/task_started")
    assert (aborted["turn_id"], aborted["reason"]) == (started["turn_id"], "interrupted")
    assert items(written)[-1]["content"] == [{"type": "output_text", "text": "Half a"}]
    assert losses_of(written) == {"cancelled": 1}


# ── usage ────────────────────────────────────────────────────────────────────────────────────────


def test_usage_includes_what_was_cached():
    usage = Usage(input_tokens=10, cache_read_tokens=20, cache_write_tokens=30, output_tokens=4)
    written = write_session(
        session_of(Prompt(content="Hi"), done(usage=usage, request_id="r1"), Prompt(content="Hi"), done(usage=usage))
    )
    one, two = payloads(written, "token_usage_record")
    assert (one["response_id"], two["response_id"]) == ("r1", "")
    assert one["usage"]["input_tokens"] == 60
    assert (one["usage"]["cached_input_tokens"], one["usage"]["total_tokens"]) == (20, 64)
    assert two["thread_token_usage"]["total_tokens"] == 128
    assert two["turn_token_usage"]["total_tokens"] == 64
    assert payloads(written, "event_msg/token_count")[-1]["info"]["total_token_usage"]["total_tokens"] == 128


def test_no_usage_is_invented():
    written = write_session(session_of(Prompt(content="Hi"), done(), Compaction(summary="S")))
    assert not payloads(written, "token_usage_record")
    assert not payloads(written, "event_msg/token_count")


# ── compactions ──────────────────────────────────────────────────────────────────────────────────

COMPACTED = (
    Prompt(content="Old"),
    done("Old answer", usage=Usage(input_tokens=200_000, output_tokens=1)),
    Prompt(content="Kept"),
    Reply(content=(Text(text="I look"), CALL), stop_reason="tools"),
    result("n4"),
    done("Kept answer"),
    Compaction(summary="What was done", first_kept_entry_id="n3"),
    Prompt(content="New"),
)


def test_a_compaction_holds_the_summary_and_what_is_kept():
    written = write_session(session_of(*COMPACTED))
    (compacted,) = payloads(written, "compacted")
    history = compacted["replacement_history"]
    assert compacted["message"] == history[0]["content"][0]["text"] == "What was done"
    assert history[1:] == items(written)[2:7]
    assert (compacted["window_number"], compacted["previous_window_id"]) == (1, compacted["first_window_id"])
    header = payloads(written, "session_meta")[0]
    assert header["context_window"]["window_id"] == compacted["first_window_id"]


def test_after_a_compaction_the_context_is_small_again():
    """Codex decides by the last count whether to compact, as the first thing after a resume."""
    written = write_session(session_of(*COMPACTED))
    counts = [event["info"] for event in payloads(written, "event_msg/token_count")]
    assert [count["last_token_usage"]["total_tokens"] > 1000 for count in counts] == [True, False]
    assert counts[0]["total_token_usage"] == counts[1]["total_token_usage"]


def test_a_compaction_keeps_the_same_entries_after_it_was_read():
    back = written_and_read(session_of(*COMPACTED))
    (compaction,) = [node for node in back.branch if isinstance(node, Compaction)]
    (kept,) = [node.message for node in back.branch if node.id == compaction.first_kept_entry_id and _is(node, Prompt)]
    assert (compaction.summary, kept.text) == ("What was done", "Kept")
    assert [node.message.text for node in back.branch if _is(node, Prompt)] == ["Old", "Kept", "New"]


def test_kept_items_are_whole_entries_of_the_branch():
    """A history that begins in the middle of a reply, or was rolled back, is not one that keeps entries."""
    summary, half = user("Sum")["payload"], answer("b")["payload"]
    compacted = line("compacted", {"message": "Sum", "replacement_history": [summary, half]})
    whole = imported(read(meta(), user("Hi"), answer("b"), compacted))
    cut = imported(read(meta(), user("Hi"), answer("a"), answer("b"), compacted))
    gone = imported(
        read(
            meta(),
            user("Hi"),
            answer("a"),
            user("Hm"),
            answer("b"),
            line("event_msg", {"type": "thread_rolled_back", "num_turns": 1}),
            compacted,
        )
    )
    found = [
        node.first_kept_entry_id is not None
        for session in (whole, cut, gone)
        for node in session.branch
        if isinstance(node, Compaction)
    ]
    assert found == [True, False, False]


def test_a_compaction_of_codex_is_written_as_it_was():
    """The model is given the prompts first, the summary last; messages of developers stay what they are."""
    told = item("message", role="developer", content=[{"type": "input_text", "text": "Rules"}])["payload"]
    history = [user("One")["payload"], told, user("Prefix\nSum")["payload"]]
    sealed = {"type": "compaction", "encrypted_content": "gAAA"}
    for replaced, summary in ((history, "Sum"), ([user("One")["payload"], sealed], "")):
        compacted = line("compacted", {"message": summary, "replacement_history": replaced, "window_number": 3})
        written = write_session(
            imported(read(meta(), turn_context(), user("One"), answer("1"), compacted, user("Two")))
        )
        (found,) = payloads(written, "compacted")
        plain = [
            {key: each[key] for key in ("type", "role", "content", "encrypted_content") if key in each}
            for each in found["replacement_history"]
        ]
        assert plain == replaced
        assert len(items(written)) == 3
