"""ST-9: the file that is written for Claude Code, record by record: what the tool needs, and what the account names."""

import json
import re
from collections import Counter

import pytest

from tests.exchange.claude_code_files import SESSION_WITH_A_HOOK, source
from tests.exchange.samples import entries_of
from tests.exchange.test_claude_code_round_trip import as_session, read_back
from wakelog.exchange.claude_code.reader import read_sessions
from wakelog.exchange.claude_code.writer import project_folder, write_session
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
from wakelog.log.entry import (
    Cancelled,
    Compaction,
    ContextEntry,
    Custom,
    Failed,
    FaultReport,
    Message,
    ModelChange,
    Setting,
)

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
USAGE = Usage(input_tokens=3, output_tokens=4, cache_read_tokens=5, cache_write_tokens=6)


def session(*nodes, head=None, **more):
    """Return a session; each node is under the one before it, unless it is a pair of the name of its parent and it.

    Nodes are named n1, n2 and so on.
    """
    placed = []
    for number, given in enumerate(nodes, 1):
        parent, node = given if isinstance(given, tuple) else (f"n{number - 1}" if number > 1 else "s", given)
        body = Message(message=node) if isinstance(node, Prompt | Reply | ToolResult | Note) else node
        fields = {name: getattr(body, name) for name in body.__struct_fields__}
        timestamp = f"2026-03-01T10:00:{number:02}.000Z"
        placed.append(type(body)(**{**fields, "id": f"n{number}", "parent_id": parent, "timestamp": timestamp}))
    end = head or (placed[-1].id if placed else "s")
    return SessionToWrite(
        session="s", agent="crab", started_ms=1_772_359_200_000, cwd="/work/app", nodes=tuple(placed), head=end, **more
    )


def records(*nodes, **more):
    return [json.loads(line) for line in write_session(session(*nodes, **more)).files[0].content.splitlines()]


def chained(found):
    return [record for record in found if "uuid" in record]


def losses(*nodes, **more):
    return [(loss.kind, loss.count) for loss in write_session(session(*nodes, **more)).losses]


def ask(text="hi"):
    return Prompt(content=text)


def call(call_id="c1", name="Bash", **given):
    return ToolCall(id=call_id, name=name, input=given)


def answer(reply, call_id="c1", text="done", **more):
    return ToolResult(content=text, tool_call_id=call_id, tool_name="Bash", reply_id=reply, **more)


def parents(found):
    """Return for each record the number of its parent; None for a record without one."""
    numbers = {record["uuid"]: number for number, record in enumerate(chained(found))}
    return [numbers.get(record["parentUuid"]) for record in chained(found)]


# ── records ──────────────────────────────────────────────────────────────────────────────────────


def test_a_reply_has_one_line_for_each_block():
    reply = Reply(
        content=(Thinking(thinking="hm", signature="sig"), Text(text="I look"), call(command="ls")),
        model="claude-opus-4-6",
        provider="anthropic",
        stop_reason="tools",
        usage=USAGE,
        request_id="req_1",
    )
    found = records(ask(), reply, answer("n2"))
    lines = [record for record in found if record["type"] == "assistant"]
    assert [line["message"]["content"] for line in lines] == [
        [{"type": "thinking", "thinking": "hm", "signature": "sig"}],
        [{"type": "text", "text": "I look"}],
        [{"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}],
    ]
    assert len({line["message"]["id"] for line in lines}) == 1
    assert [line["message"]["stop_reason"] for line in lines] == [None, None, "tool_use"]
    assert {line["requestId"] for line in lines} == {"req_1"}
    counted = {"input_tokens": 3, "cache_creation_input_tokens": 6, "cache_read_input_tokens": 5, "output_tokens": 4}
    assert [line["message"]["usage"] for line in lines] == [counted] * 3
    assert parents(found) == [None, 0, 1, 2, 3]
    result = chained(found)[-1]
    assert result["message"]["content"][0]["tool_use_id"] == "c1"
    assert result["sourceToolAssistantUUID"] == lines[-1]["uuid"]


def test_every_record_has_what_the_tool_needs():
    """Without uuid, parent or timestamp the tool finds no conversation, or sends its last record only."""
    written = write_session(session(ask(), Reply(content="yes"), title="A title"))
    assert UUID.fullmatch(written.id)
    assert written.files[0].path == f"projects/-work-app/{written.id}.jsonl"
    assert written.resume == ("claude", "--resume", written.id)
    found = [json.loads(line) for line in written.files[0].content.splitlines()]
    assert {record["sessionId"] for record in found} == {written.id}
    for record in chained(found):
        assert UUID.fullmatch(record["uuid"])
        assert (record["cwd"], record["isSidechain"]) == ("/work/app", False)
        assert "version" not in record
    assert [record["timestamp"] for record in chained(found)] == [
        "2026-03-01T10:00:01.000Z",
        "2026-03-01T10:00:02.000Z",
    ]
    assert found[-2:] == [
        {"type": "custom-title", "customTitle": "A title", "sessionId": written.id},
        {"type": "last-prompt", "lastPrompt": "hi", "leafUuid": found[-3]["uuid"], "sessionId": written.id},
    ]


def test_nothing_is_invented():
    """No usage, model or version is written that the session does not have."""
    (_, reply, _) = records(ask(), Reply(content="yes"))
    assert not {"usage", "model"} & reply["message"].keys()
    assert not {"version", "gitBranch", "requestId"} & reply.keys()


def test_a_session_that_has_gone_on_is_another_session_with_the_same_records():
    first, second = (write_session(session(ask(), *more)) for more in ((), (Reply(content="yes"),)))
    assert first.id != second.id
    earlier, later = (json.loads(each.files[0].content.splitlines()[0]) for each in (first, second))
    assert earlier["uuid"] == later["uuid"]


@pytest.mark.parametrize(
    ("cwd", "folder"),
    [
        ("/Users/a/b.c", "-Users-a-b-c"),
        ("/tmp/pr é_ß.x", "-tmp-pr-----x"),
        ("/tmp/p😀r", "-tmp-p--r"),
        ("", "-"),
        (LONG := "/tmp/long" + "/a-long-name-of-a-folder" * 10, LONG[:200].replace("/", "-") + "-oa168b"),
    ],
)
def test_folders_are_named_as_the_tool_names_them(cwd, folder):
    assert project_folder(cwd) == folder


def test_a_result_says_what_came_of_the_call():
    found = records(
        ask(),
        Reply(content=(call("c1"), call("c2"), call("c3"))),
        answer("n2", "c1", ""),
        answer("n2", "c2", "no", status="error", is_error=True),
        answer("n2", "c3", "half", status="interrupted"),
    )
    blocks = [record["message"]["content"][0] for record in chained(found)[4:]]
    assert [(block["tool_use_id"], block["content"], block["is_error"]) for block in blocks] == [
        ("c1", "", False),
        ("c2", "no", True),
        ("c3", "half", False),
    ]
    assert chained(found)[-1]["toolUseResult"]["interrupted"] is True


def test_ids_of_calls_are_unique_and_of_the_alphabet_of_the_api():
    """Ids are unique only within a reply here; the API refuses a conversation that has one twice."""
    found = records(
        ask(),
        Reply(content=(call("call|1.0"),)),
        answer("n2", "call|1.0"),
        Reply(content=(call("c1"),)),
        answer("n4"),
        Reply(content=(call("c1"),)),
        answer("n6"),
    )
    blocks = [block for record in chained(found)[1:] for block in record["message"]["content"]]
    made = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == made
    assert made[1] == "c1"
    assert len(set(made)) == 3
    assert all(re.fullmatch("[A-Za-z0-9_-]+", each) for each in made)


def test_an_open_call_stays_open():
    found = records(ask(), Reply(content=(call("c1"), call("c2"))), answer("n2", "c2"))
    assert [record["type"] for record in chained(found)] == ["user", "assistant", "assistant", "user"]


def test_media_are_blocks():
    image = Image(mime_type="image/png", data="cGl4ZWxz")
    prompt = Prompt(content=(Text(text="see"), image))
    found = records(prompt, Reply(content=(call(),)), ToolResult(content=(image,), tool_call_id="c1"))
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cGl4ZWxz"}}
    assert found[0]["message"]["content"] == [{"type": "text", "text": "see"}, block]
    assert found[2]["message"]["content"][0]["content"] == [block]


def test_an_interruption_and_an_error_are_those_of_the_tool():
    failed = Failed(reason="error", error=FaultReport(kind="overloaded", message="try again"))
    found = records(ask(), failed, Cancelled(reason="asked by a person", content="half a"))
    assert (found[1]["isApiErrorMessage"], found[1]["error"]) == (True, "overloaded")
    assert found[1]["message"]["model"] == "<synthetic>"
    assert found[2]["message"]["content"] == [{"type": "text", "text": "half a"}]
    assert found[3]["message"]["content"] == "[Request interrupted by user]"


# ── compactions ──────────────────────────────────────────────────────────────────────────────────


def test_a_compaction_is_a_boundary_that_names_what_is_kept():
    found = records(
        ask("old"),
        Reply(content="one"),
        ask("kept"),
        Reply(content="two"),
        Compaction(summary="Summary", first_kept_entry_id="n3", tokens_before=900, tokens_after=90, trigger="auto"),
        ask("next"),
    )
    uuids = [record["uuid"] for record in chained(found)]
    boundary, summary, after = chained(found)[4:]
    assert (boundary["parentUuid"], boundary["logicalParentUuid"]) == (None, uuids[3])
    assert boundary["compactMetadata"] == {
        "trigger": "auto",
        "preTokens": 900,
        "postTokens": 90,
        "preservedSegment": {"headUuid": uuids[2], "anchorUuid": uuids[5], "tailUuid": uuids[3]},
        "preservedMessages": {"anchorUuid": uuids[5], "uuids": uuids[2:4], "allUuids": uuids[2:4]},
    }
    assert (summary["parentUuid"], summary["isCompactSummary"]) == (uuids[4], True)
    assert summary["message"]["content"] == "Summary"
    assert after["parentUuid"] == uuids[5]


def test_what_is_kept_may_begin_before_an_earlier_compaction():
    """The chain of parents ends at the earlier boundary, so the tool needs the list."""
    first = Compaction(summary="one", first_kept_entry_id="n1")
    second = Compaction(summary="two", first_kept_entry_id="n1")
    found = chained(records(ask("a"), first, ask("b"), second, ask("c")))
    kept = found[4]["compactMetadata"]["preservedMessages"]["uuids"]
    assert kept == [found[0]["uuid"], found[3]["uuid"]]


def test_a_compaction_that_keeps_nothing_names_nothing():
    boundary = chained(records(ask(), Compaction(summary="Summary", trigger="unknown")))[1]
    assert boundary["compactMetadata"] == {}


def test_a_compaction_on_another_branch_has_no_boundary():
    """Of a large file the tool reads what follows the last boundary: the active branch would lose its beginning."""
    kept = Compaction(summary="Summary", first_kept_entry_id="n3", trigger="auto")
    nodes = ask("one"), Reply(content="1"), ask("two"), kept, ask("three"), ("n2", ask("four"))
    found = chained(records(*nodes))
    assert "system" not in {record["type"] for record in found}
    assert parents(found) == [None, 0, 1, 2, 3, 1]
    _, again = read_back(write_session(session(*nodes)))
    (read,) = [entry for entry in again if isinstance(entry, Compaction)]
    (second,) = [entry for entry in again if isinstance(entry, Message) and entry.message.text == "two"]
    assert (read.summary, read.trigger, read.first_kept_entry_id) == ("Summary", "auto", second.id)


# ── branches ─────────────────────────────────────────────────────────────────────────────────────


def test_a_rewind_is_a_second_child_and_the_active_branch_is_last():
    found = records(
        ask("one"), Reply(content="1"), ask("two"), Reply(content="2"), ("n2", ask("three")), Reply(content="3")
    )
    assert parents(found) == [None, 0, 1, 2, 1, 4]
    back = records(
        *(ask("one"), Reply(content="1"), ask("two"), Reply(content="2"), ("n2", ask("three")), Reply(content="3")),
        head="n4",
    )
    assert [record["message"]["content"] for record in chained(back)][2::2] == ["three", "two"]
    assert back[-1]["leafUuid"] == chained(back)[-1]["uuid"]
    assert back[-1]["lastPrompt"] == "two"


def test_several_beginnings_are_under_one_record_that_the_model_does_not_see():
    found = records(ask("one"), ("s", ask("two")))
    assert [record["type"] for record in chained(found)] == ["system", "user", "user"]
    assert parents(found) == [None, 0, 0]


def test_a_tool_that_ran_again_has_its_reply_once_more():
    """A call has one result. The copy has ids of its own, and no usage, which would be counted twice."""
    reply = Reply(content=(call(),), model="m", usage=USAGE)
    nodes = ask(), reply, answer("n2", text="first"), ("n2", answer("n2", text="second"))
    found = records(*nodes)
    assert parents(found) == [None, 0, 1, 0, 3]
    made = [record["message"] for record in chained(found) if record["type"] == "assistant"]
    assert ["usage" in message for message in made] == [False, True]
    assert made[0]["id"] != made[1]["id"]
    ids = [message["content"][0]["id"] for message in made]
    assert ids[1] == "c1" != ids[0]
    results = [record["message"]["content"][0] for record in chained(found)[2::2]]
    assert [(block["tool_use_id"], block["content"]) for block in results] == [(ids[0], "first"), ("c1", "second")]
    assert ("reply", 1) in losses(*nodes)


def test_the_end_of_the_session_is_a_leaf():
    """The tool continues at a leaf. What follows the head is on a branch of its own."""
    found = records(ask("one"), Reply(content="1"), ask("two"), head="n2")
    assert [record["message"]["content"] for record in chained(found)] == [
        "one",
        [{"type": "text", "text": "1"}],
        "two",
        [{"type": "text", "text": "1"}],
    ]
    assert parents(found) == [None, 0, 1, 0]


def test_a_session_that_is_at_its_beginning_cannot_be_continued():
    written = write_session(session(Setting(key="k"), ask(), head="n1"))
    assert written.resume == ()
    assert ("head", 1) in [(loss.kind, loss.count) for loss in written.losses]
    empty = write_session(session())
    assert (empty.resume, empty.losses, empty.files[0].content) == ((), (), b"")


# ── what the format cannot hold ──────────────────────────────────────────────────────────────────


def thought(provider, **more):
    return Reply(content=(Thinking(thinking="hm", **more), Text(text="yes")), model="m", provider=provider)


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        (ContextEntry(), "context"),
        (ModelChange(model="m"), "change of the model"),
        (Setting(key="k", value=1), "setting k"),
        (Custom(custom_type="app:state", data={}), "custom app:state"),
        (Custom(custom_type="app:state", in_context=True, content="seen"), "custom app:state"),
        (Note(content="memory", custom_type="app:memory"), "note"),
        (Note(content=" "), "note"),
        (Prompt(content=()), "prompt"),
        (Prompt(content="<command-name>/x</command-name>"), "prompt"),
        (Prompt(content=(Text(text="hear"), Audio(mime_type="audio/wav", data="eA=="))), "prompt"),
        (Prompt(content=(Text(text="see"), UnknownPart(part={"type": "tool_result"}))), "prompt"),
        (Reply(content=()), "reply"),
        (Reply(content=(Text(text="\n"), Text(text="yes"))), "reply"),
        (Reply(content=(Text(text="yes", bound={"id": "msg_1"}),), provider="openai"), "reply"),
        (Reply(content="yes", usage=Usage(cost_micros=5)), "reply"),
        (Reply(content=(ToolCall(id="c1", name="x", input="text"),)), "reply"),
        (thought("openai", signature="enc"), "reply"),
        (thought("anthropic"), "reply"),
        (answer("n7"), "toolresult"),
        (Compaction(summary=""), "compaction"),
        (Compaction(summary="s", usage=USAGE), "compaction"),
        (Failed(reason="retries", error=FaultReport(kind="k", message="m")), "failed"),
        (Cancelled(reason="asked by a person"), "cancelled"),
    ],
)
def test_what_is_left_out_or_changed_is_counted(node, kind):
    assert (kind, 1) in losses(ask(), node, ask())


@pytest.mark.parametrize(
    "result",
    [answer("n2", status="denied", is_error=True), answer("n2", duration_ms=5), answer("n2", truncated=True)],
)
def test_what_results_lack_is_counted(result):
    assert ("toolresult", 1) in losses(ask(), Reply(content=(call(),)), result)


def test_labels_are_counted():
    assert losses(ask(), labels={"n1": "good"}) == [("label", 1)]


@pytest.mark.parametrize(
    "node",
    [
        Reply(content="yes", model="m", usage=USAGE, stop_reason="stop"),
        Note(content="injected", custom_type="claude-code:meta"),
        Note(content="<bash-stdout>x</bash-stdout>", custom_type="claude-code:bash"),
        Compaction(summary="s"),
        Cancelled(reason="[Request interrupted by user]"),
        Failed(reason="error", error=FaultReport(kind="k", message="m")),
        thought("anthropic", signature="sig"),
        Reply(
            content=(Thinking(bound={"type": "redacted_thinking", "data": "x"}), Text(text="y")), provider="anthropic"
        ),
    ],
)
def test_what_is_written_whole_is_no_loss(node):
    assert losses(ask(), node, ask()) == []


def test_a_blank_summary_and_foreign_reasoning_do_not_reach_the_tool():
    """The API refuses both, and with them the whole conversation."""
    found = records(ask(), thought("openai", signature="enc"), Compaction(summary=" "))
    kinds = Counter(block["type"] for record in found[1:2] for block in record["message"]["content"])
    assert kinds == {"text": 1}
    assert found[-2]["message"]["content"].strip()


# ── sessions that came from the tool ─────────────────────────────────────────────────────────────


def test_an_imported_session_keeps_version_branch_and_attachments():
    (foreign,) = read_sessions(source(*SESSION_WITH_A_HOOK))
    written = write_session(as_session(foreign, entries_of(foreign)))
    found = chained([json.loads(line) for line in written.files[0].content.splitlines()])
    assert {(record["version"], record["gitBranch"]) for record in found} == {("2.1.36", "main")}
    (attachment,) = [record for record in found if record["type"] == "attachment"]
    assert attachment["rendered"] == [{"content": "from a hook"}]
    assert attachment["parentUuid"] == found[0]["uuid"]
    _, again = read_back(written)
    seen = [entry.content for entry in again if isinstance(entry, Custom) and entry.in_context]
    assert seen == [(Text(text="from a hook"),)]


def test_reasoning_of_an_imported_session_is_kept_whatever_its_model_is_called():
    (foreign,) = read_sessions(source(*SESSION_WITH_A_HOOK))
    written = write_session(as_session(foreign, entries_of(foreign)))
    assert b'{"type":"thinking","thinking":"hm","signature":"sig"}' in written.files[0].content
