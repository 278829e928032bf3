"""ST-9, rule 1 to 3 of `exchange.sessions`: sessions of OpenCode out of its database, files, exports and events."""

import json
import sqlite3

import pytest

from tests.exchange.opencode_samples import (
    CHILD,
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
from tests.exchange.samples import MemoryDatabase, MemoryFile, entries_of
from wakelog.errors import UsageError
from wakelog.exchange.opencode.reader import TOOL, is_opencode, is_opencode_database, read_sessions, refusal
from wakelog.exchange.sessions import session_id
from wakelog.log.content import Image, Prompt, Reply, Text, Thinking, ToolCall, ToolResult, Usage
from wakelog.log.entry import Compaction, Failed, Head, Message, Node, Spawned


def _of_type(entries, kind):
    return [body for body in entries if isinstance(body, kind)]


def _exported(*messages, **info):
    return only(MemoryFile(export(*messages, **info), "export.json"))


# ── detection ────────────────────────────────────────────────────────────────────────────────────


def test_documents_and_events_are_known_by_their_content():
    events = [{"type": "session.created", "properties": {"info": SESSION}}]
    assert is_opencode([json.loads(export(user("u1", text("p1", "Hello"))))])
    assert is_opencode([SESSION])
    assert is_opencode(events)
    assert is_opencode([events])


@pytest.mark.parametrize(
    "head",
    [
        [],
        [{"type": "session", "id": "x"}],
        [{"info": {}, "messages": []}],
        [{"info": {"id": "a"}, "messages": [{"role": "user"}]}],
        [{"type": "user", "uuid": "x", "message": {}}],
        [{"type": "session_meta", "payload": {}}],
        [{"type": "server.heartbeat", "properties": {}}],
        [7],
        [[]],
    ],
)
def test_other_files_are_not_taken_for_opencode(head):
    assert not is_opencode(head)


def test_the_other_opencode_is_refused_by_name():
    """ST-9: a database that only looks alike says what it is."""
    connection = sqlite3.connect(":memory:")
    for table in ("goose_db_version", "sessions", "files", "messages"):
        connection.execute(f"CREATE TABLE {table} (id TEXT)")
    source = MemoryDatabase(connection)
    assert not is_opencode_database(source)
    assert "opencode-ai/opencode" in (refusal(source) or "")
    with pytest.raises(UsageError, match="opencode-ai/opencode"):
        list(read_sessions(source))
    assert refusal(database()) is None
    assert is_opencode_database(database())


@pytest.mark.parametrize("raw", [b"{", b'{"a":1}', b'{"info":{"id":"x"}}', b"x"])
def test_a_file_of_another_kind_is_a_usage_error(raw):
    with pytest.raises(UsageError, match="not a session of OpenCode"):
        list(read_sessions(MemoryFile(raw)))


@pytest.mark.parametrize("raw", [b"", b"[]", b"[{", b"[7]"])
def test_a_file_without_events_holds_no_session(raw):
    assert list(read_sessions(MemoryFile(raw))) == []


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


def test_a_turn_with_a_tool():
    session = _exported(*turn())
    prompt, reply, result, last = messages_of(session)
    assert prompt == Prompt(content=(Text(text="List the files"),))
    assert reply == Reply(
        content=(Text(text="Sure"), ToolCall(id="c1", name="bash", input={"command": "ls"})),
        model="m-1",
        provider="acme",
        stop_reason="tools",
        usage=Usage(input_tokens=100, output_tokens=27, cache_read_tokens=50, cache_write_tokens=5, cost_micros=1_500),
    )
    assert (result.tool_call_id, result.tool_name, result.status, result.duration_ms) == ("c1", "bash", "ok", 250)
    assert result.text == "a.txt"
    assert (last.text, last.stop_reason) == ("One file", "stop")


def test_nodes_follow_each_other():
    entries = entries_of(_exported(*turn()))
    nodes = _of_type(entries, Node)
    assert [node.parent_id for node in nodes] == [None, *(node.id for node in nodes[:-1])]
    assert len({body.id for body in entries}) == len(entries)


def test_result_refers_to_the_entry_of_its_reply():
    entries = entries_of(_exported(*turn()))
    (result,) = [body.message for body in entries if isinstance(body, Message) and isinstance(body.message, ToolResult)]
    (owner,) = [body for body in entries if body.id == result.reply_id]
    assert [call.id for call in owner.message.tool_calls] == ["c1"]


def test_every_source_of_a_session_gives_the_same_entries():
    """Rule 2: ids derive from the origin, not from the kind of file it was read from."""
    messages = (*turn(), user("u2", text("p8", "note", synthetic=True), part("p9", "patch", hash="h")))
    exported = entries_of(_exported(*messages))
    assert entries_of(only(database(SESSION, *messages))) == exported
    assert entries_of(only(tree(SESSION, *messages))) == exported
    assert entries_of(only(tree(SESSION, *messages, is_early=True))) == exported


def test_header_values():
    session = _exported(*turn(), title="Files", version="1.18.33", directory="/repo")
    assert (session.title, session.cwd, session.origin.version, session.agent) == ("Files", "/repo", "1.18.33", TOOL)
    assert (session.started_ms, session.origin.id) == (1_770_000_000_000, "ses_1")
    assert _exported(title="New session - 2026-11-16T18:18:24.366Z").title is None


def test_the_record_of_a_session_is_kept_without_what_changes_and_without_secrets():
    session = _exported(share={"url": "https://secret"}, slug="tidy-sailor", cost=1, title="T")
    (root,) = entries_of(session)
    assert root.custom_type == "opencode:session"
    assert root.data["slug"] == "tidy-sailor"
    assert not {"share", "cost", "title"} & set(root.data)


def test_added_texts_are_notes_and_unseen_parts_are_verbatim():
    """A prompt is always a person's turn."""
    message = user(
        "u1",
        part("p0", "text", text="<reminder>", synthetic=True),
        text("p1", "Look"),
        part("p2", "file", mime="image/png", url="data:image/png;base64,AAAA"),
        part("p3", "file", mime="text/plain", url="file:///a.txt"),
        part("p4", "text", text="only for people", ignored=True),
        part("p5", "agent", name="explore"),
    )
    entries = entries_of(_exported(message))[1:]
    assert types_of(entries) == ["Note", "Prompt", "Custom", "Custom", "Custom"]
    assert entries[0].message.custom_type == "opencode:synthetic"
    assert entries[1].message.content == (Text(text="Look"), Image(mime_type="image/png", data="AAAA"))
    assert [body.custom_type for body in entries[2:]] == ["opencode:file", "opencode:text", "opencode:agent"]
    assert entries[3].data["text"] == "only for people"


def test_a_message_of_a_person_without_words_is_kept_whole():
    (_, body) = entries_of(_exported(user("u1", part("p1", "subtask", prompt="do", agent="x"))))
    assert (body.custom_type, body.data["parts"][0]["prompt"]) == ("opencode:message", "do")


@pytest.mark.parametrize(
    ("state", "status", "words"),
    [
        ({"status": "completed", "output": "out"}, "ok", "out"),
        ({"status": "error", "error": "boom"}, "error", "boom"),
        ({"status": "error", "error": "aborted", "metadata": {"interrupted": True}}, "interrupted", "aborted"),
        (
            {"status": "error", "error": "cut", "metadata": {"interrupted": True, "output": "half "}},
            "interrupted",
            "half cut",
        ),
        (
            {"status": "error", "error": "The user rejected permission to use this specific tool call."},
            "denied",
            "The user rejected permission to use this specific tool call.",
        ),
        ({"output": "old"}, "ok", "old"),
    ],
)
def test_results(state, status, words):
    session = _exported(assistant("a1", part("p1", "tool", callID="c", tool="bash", state=state)))
    (result,) = [message for message in messages_of(session) if isinstance(message, ToolResult)]
    assert (result.status, result.text, result.is_error) == (status, words, status != "ok")


@pytest.mark.parametrize("state", [{"status": "pending", "input": {}, "raw": '{"a'}, {"status": "running"}, {}])
def test_a_call_without_a_result_stays_open(state):
    """Rule 3: nothing is invented."""
    session = _exported(assistant("a1", part("p1", "tool", callID="c", tool="bash", state=state)))
    (reply,) = messages_of(session)
    assert [call.id for call in reply.tool_calls] == ["c"]


def test_images_of_a_tool_are_in_its_result():
    image = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,QQ=="}
    session = _exported(assistant("a1", tool("p1", "c1", output="", attachments=[image])))
    assert messages_of(session)[1].content == (Image(mime_type="image/png", data="QQ=="),)


def test_a_pruned_output_is_kept():
    """`time.compacted` may be set after the first import, so the result must not depend on it."""
    pruned = tool("p1", "c1", output="long", time={"start": 1, "end": 2, "compacted": 3})
    kept = tool("p1", "c1", output="long", time={"start": 1, "end": 2})
    assert entries_of(_exported(assistant("a1", pruned))) == entries_of(_exported(assistant("a1", kept)))


def test_equal_call_ids_in_one_reply_are_told_apart():
    session = _exported(assistant("a1", tool("p1", "c", output="1"), tool("p2", "c", output="2")))
    reply, *results = messages_of(session)
    assert [call.id for call in reply.tool_calls] == ["c", "p2"]
    assert [(result.tool_call_id, result.text) for result in results] == [("c", "1"), ("p2", "2")]


def test_reasoning_goes_back_to_its_vendor():
    """Signed and encrypted reasoning is kept so that the same API takes it back."""
    parts = (
        part("p1", "reasoning", text="Hm", metadata={"anthropic": {"signature": "sig"}}),
        part("p2", "reasoning", text="", metadata={"anthropic": {"redactedData": "xyz"}}),
        part("p3", "reasoning", text="", metadata={}),
        part("p4", "reasoning", text="So", metadata={"google": {"thoughtSignature": "t"}}),
    )
    (reply,) = messages_of(_exported(assistant("a1", *parts)))
    assert reply.content == (
        Thinking(thinking="Hm", signature="sig"),
        Thinking(thinking="", bound={"type": "redacted_thinking", "data": "xyz"}),
        Thinking(thinking="So", bound={"google": {"thoughtSignature": "t"}}),
    )


def test_the_parts_of_one_openai_summary_are_one_thought():
    sealed = {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "enc"}}
    (reply, _) = messages_of(
        _exported(
            assistant(
                "a1",
                part("p1", "reasoning", text="One", metadata={"openai": {"itemId": "rs_1"}}),
                part("p2", "reasoning", text="Two", metadata=sealed),
                {**tool("p3", "c1", output="x"), "metadata": {"openai": {"itemId": "fc_1"}}},
            )
        )
    )
    assert reply.content[0] == Thinking(thinking="One\n\nTwo", signature="enc", bound={"id": "rs_1", "summary": [3, 3]})
    assert reply.content[1].bound == {"id": "fc_1", "after": "rs_1"}


def test_steps_of_an_early_version_are_replies_of_their_own():
    """Versions of 2025 kept all model steps of a turn in one message; results stand between the steps."""
    finish = {"tokens": {"input": 7, "output": 1}, "reason": "tool-calls"}
    session = _exported(
        assistant(
            "a1",
            part("p1", "step-start"),
            tool("p2", "c1", output="x"),
            part("p3", "step-finish", **finish),
            part("p4", "step-start"),
            text("p5", "Done"),
            part("p6", "step-finish", tokens={"input": 9, "output": 2}, reason="stop"),
            finish="stop",
        )
    )
    first, result, second = messages_of(session)
    assert isinstance(result, ToolResult)
    assert [(reply.usage.input_tokens, reply.stop_reason) for reply in (first, second)] == [(7, "tools"), (9, "stop")]


def test_faults():
    failed = assistant(
        "a1", text("p1", "Half"), error={"name": "APIError", "data": {"message": "no", "isRetryable": True}}
    )
    stopped = assistant("a2", text("p2", "Ha"), error={"name": "MessageAbortedError", "data": {"message": "x"}})
    empty = assistant("a3", error={"name": "APIError", "data": {}}, tokens={})
    entries = entries_of(_exported(failed, stopped, empty))[1:]
    assert types_of(entries) == ["Reply", "Failed", "Reply", "Cancelled", "Failed"]
    assert (entries[1].error.kind, entries[1].error.message, entries[1].error.retryable) == ("APIError", "no", True)
    assert [body.message.stop_reason for body in entries[0:3:2]] == ["error", "aborted"]


# ── compaction, reverts, sub-agents ──────────────────────────────────────────────────────────────


def test_compaction_keeps_the_messages_from_the_tail_on():
    session = _exported(*turn(), user("u2", text("p9", "Next")), *compaction("u3", "a3", auto=True, tail="u2"))
    entries = entries_of(session)
    (found,) = _of_type(entries, Compaction)
    (kept,) = [body for body in entries if isinstance(body, Message) and body.message.text == "Next"]
    assert (found.summary, found.trigger, found.first_kept_entry_id) == ("All of it", "auto", kept.id)
    assert found.tokens_before == 155
    assert found.state is None
    assert types_of(entries)[-3:] == ["Prompt", "Custom", "Compaction"]


def test_compaction_without_a_tail_keeps_nothing():
    (found,) = _of_type(entries_of(_exported(*turn(), *compaction("u3", "a3", auto=False))), Compaction)
    assert (found.first_kept_entry_id, found.trigger) == (None, "manual")


def test_an_empty_summary_is_a_compaction():
    """OpenCode leaves out what is before it, too."""
    marker, summary = compaction("u3", "a3", auto=True)
    summary["parts"] = []
    (found,) = _of_type(entries_of(_exported(*turn(), marker, summary)), Compaction)
    assert (found.summary, found.first_kept_entry_id) == ("", None)


def test_a_failed_summary_is_no_compaction():
    marker, summary = compaction("u3", "a3", auto=True)
    summary["info"]["error"] = {"name": "APIError", "data": {}}
    entries = entries_of(_exported(*turn(), marker, summary))
    assert not _of_type(entries, Compaction)
    assert _of_type(entries, Failed)


def test_reverted_messages_are_a_branch_and_the_head_is_before_them():
    later = (user("u2", text("p8", "Bad idea")), assistant("a5", text("p9", "Done")))
    entries = entries_of(_exported(*turn(), *later, revert={"messageID": "u2"}))
    assert entries[:-1] == entries_of(_exported(*turn(), *later))
    head = entries[-1]
    assert isinstance(head, Head)
    (target,) = [body for body in entries if body.id == head.target_id]
    assert target.message.text == "One file"


def test_the_next_prompt_continues_before_reverted_messages():
    """OpenCode deletes hidden messages when a person goes on; the branch imported before stays."""
    reverted = _exported(*turn(), user("u2", text("p8", "Bad")), revert={"messageID": "u2"})
    head = entries_of(reverted)[-1]
    after = entries_of(_exported(*turn(), user("u3", text("p9", "Better"))))
    assert after[-1].parent_id == head.target_id


def test_a_revert_inside_a_message_hides_the_step():
    entries = entries_of(_exported(*turn(), revert={"messageID": "a1", "partID": "p3"}))
    (target,) = [body for body in entries if body.id == entries[-1].target_id]
    assert target.message.text == "List the files"


def test_a_revert_of_everything_points_at_the_record_of_the_session():
    entries = entries_of(_exported(*turn(), revert={"messageID": "u1"}))
    assert entries[-1].target_id == entries[0].id


def _with_child():
    link = {"metadata": {"sessionId": "ses_2", "parentSessionId": "ses_1"}, "output": "found"}
    spawner = assistant("a1", part("p3", "tool", callID="c9", tool="task", state={"status": "completed", **link}))
    return (user("u1", text("p1", "Go")), spawner), (user("k1", text("k2", "Search"), session="ses_2"),)


def _check_child(parent, child):
    (spawned,) = _of_type(entries_of(parent), Spawned)
    assert spawned.child_session == session_id(TOOL, "ses_2")
    assert (spawned.tool_call_id, spawned.reply_id) == ("c9", spawned.parent_id)
    assert (child.origin.parent, child.origin.parent_call, child.origin.is_subagent) == ("ses_1", "c9", True)
    assert child.agent == "explore"


def test_a_sub_agent_is_a_session_of_its_own_and_linked_both_ways():
    own, childs = _with_child()
    source = database(SESSION, *own)
    source.insert(CHILD, *childs)
    _check_child(*read_sessions(source))


def test_a_sub_agent_in_the_file_tree():
    own, childs = _with_child()
    _check_child(
        only(tree(SESSION, *own, others=[(CHILD, childs)])), only(tree(CHILD, *childs, others=[(SESSION, own)]))
    )


def test_a_sub_agent_that_the_source_lacks_is_not_linked():
    own, _ = _with_child()
    assert not _of_type(entries_of(_exported(*own)), Spawned)


def test_an_archived_session():
    entries = entries_of(_exported(*turn(), time={"created": 1_770_000_000_000, "archived": 1_770_000_900_000}))
    assert (entries[-1].type, entries[-1].parent_id) == ("session_archived", entries[0].id)
