"""ST-9: messages of Claude Code: replies out of several lines, results, prompts and what only looks like one."""

import json

import msgspec
import pytest

from tests.exchange.claude_code_files import (
    SESSION,
    branch_points,
    call,
    chained,
    check_sessions,
    entries,
    line,
    messages,
    named,
    progress,
    result,
    source,
    text,
    user,
)
from tests.exchange.samples import MemoryFile, account_of, entries_of, jsonl
from wakelog.exchange.claude_code.reader import is_claude_code, read_sessions
from wakelog.exchange.records import BadRecord
from wakelog.exchange.sessions import SkippedRecords
from wakelog.log.content import Image, Note, Prompt, Reply, Text, Thinking, ToolCall, ToolResult, UnknownPart, Usage
from wakelog.log.entry import Cancelled, Custom, Failed, SessionRenamed


def _reply(*records):
    (entry,) = messages(entries(*records), Reply)
    return entry.message


# ── replies ──────────────────────────────────────────────────────────────────────────────────────


def test_the_lines_of_a_message_are_one_reply_with_the_usage_of_the_last_line():
    thinking = {"type": "thinking", "thinking": "hm", "signature": "sig=="}
    reply = _reply(
        user("u1", None, "hi"),
        line("a1", "u1", "m1", thinking, output_tokens=1),
        line("a2", "a1", "m1", text("Let me see."), output_tokens=1),
        line("a3", "a2", "m1", call("toolu_1", command="ls"), output_tokens=57, stop="tool_use"),
    )
    assert reply.content == (
        Thinking(thinking="hm", signature="sig=="),
        Text(text="Let me see."),
        ToolCall(id="toolu_1", name="Bash", input={"command": "ls"}),
    )
    assert reply.usage == Usage(input_tokens=3, output_tokens=57, cache_read_tokens=100, cache_write_tokens=20)
    assert (reply.model, reply.provider, reply.stop_reason, reply.request_id) == (
        "claude-opus-4-6",
        "anthropic",
        "tools",
        "req_m1",
    )


def test_a_reply_precedes_results_that_stand_between_its_lines():
    """Tools run while the model still writes: the result of the first call stands before the line of the second."""
    found = entries(
        user("u1", None, "hi"),
        line("a1", "u1", "m1", call("c1")),
        progress("p1", "a1"),
        result("r1", "a1", "c1"),
        line("a2", "r1", "m1", call("c2")),
        result("r2", "a2", "c2"),
        line("a3", "r2", "m2", text("done")),
    )
    assert named(found) == ["environment", "prompt", "reply", "progress:bash_progress", "result", "result", "reply"]
    first, _ = messages(found, Reply)
    assert [made.id for made in first.message.tool_calls] == ["c1", "c2"]
    assert {entry.message.reply_id for entry in messages(found, ToolResult)} == {first.id}
    assert branch_points(found) == []


def test_blocks_that_only_the_vendor_understands_are_bound():
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    cited = {"type": "text", "text": "so", "citations": [{"url": "https://example.invalid"}]}
    hidden = {"type": "redacted_thinking", "data": "opaque"}
    assert _reply(line("a1", None, "m1", search, cited, hidden)).content == (
        Text(text="", bound=search),
        Text(text="so", bound={"citations": cited["citations"]}),
        Thinking(bound=hidden),
    )


def test_a_reply_made_by_the_tool_itself_has_no_usage():
    record = line("a1", None, "m1", text("No response requested."))
    record["message"]["model"] = "<synthetic>"
    reply = _reply(record)
    assert (reply.model, reply.provider, reply.usage) == ("<synthetic>", None, None)


def test_an_error_of_the_api_is_a_failure_and_no_reply():
    record = line("a1", "u1", "m1", text("API Error: overloaded"), isApiErrorMessage=True, error="overloaded")
    (failed,) = [entry for entry in entries(user("u1", None, "hi"), record) if isinstance(entry, Failed)]
    assert (failed.error.kind, failed.error.message) == ("overloaded", "API Error: overloaded")


def test_the_usage_of_a_message_that_occurs_again_is_counted_once():
    """Some versions write messages that a compaction keeps again, with new uuids."""
    found = entries(
        user("u1", None, "hi"),
        line("a1", "u1", "m1", text("one")),
        line("a2", "a1", "m2", text("two")),
        line("a3", "a2", "m1", text("one")),
    )
    assert [entry.message.usage is not None for entry in messages(found, Reply)] == [True, True, False]


# ── results ──────────────────────────────────────────────────────────────────────────────────────


def _result(content="done", **more):
    found = entries(line("a1", None, "m1", call("c1")), result("r1", "a1", "c1", content, **more))
    (entry,) = messages(found, ToolResult)
    return entry.message


@pytest.mark.parametrize(
    ("content", "more", "status"),
    [
        ("fine", {}, "ok"),
        ("bad", {"is_error": True}, "error"),
        ("The user doesn't want to proceed with this tool use.", {"is_error": True}, "denied"),
        ("no", {"is_error": True, "toolDenialKind": "user-rejected"}, "denied"),
        ("[Request interrupted by user for tool use]", {"is_error": True}, "interrupted"),
        ("half", {"toolUseResult": {"stdout": "half", "interrupted": True}}, "interrupted"),
        ("[Tool call interrupted: its outcome is unknown]", {"is_error": True}, "unknown"),
    ],
)
def test_status_of_a_result(content, more, status):
    assert _result(content, **more).status == status


def test_a_result_has_its_tool_its_images_and_its_duration():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    found = _result([text("see"), image], toolUseResult={"durationMs": 120})
    assert (found.tool_name, found.duration_ms) == ("Bash", 120)
    assert found.content == (Text(text="see"), Image(mime_type="image/png", data="QUJD"))


def test_a_result_without_a_call_is_kept_verbatim():
    """A second result of the same call, too: every tool call has at most one result (law 7)."""
    second = result("r2", "r1", "c1", "again")
    found = entries(line("a1", None, "m1", call("c1")), result("r1", "a1", "c1"), second)
    assert named(found)[-2:] == ["result", "result-without-call"]
    assert found[-1].data == second


def test_a_record_with_results_and_text_becomes_several_entries():
    blocks = [
        {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
        {"type": "tool_result", "tool_use_id": "c2", "content": "two"},
        text("and go on"),
    ]
    file = source(line("a1", None, "m1", call("c1"), call("c2")), user("u2", "a1", blocks))
    ((_, items),) = check_sessions(file)
    assert account_of(items)["mapped"] == 2
    assert named(item.body for item in items) == ["environment", "reply", "result", "result", "prompt"]


def test_calls_with_equal_ids_in_one_reply_get_their_results_in_order():
    found = entries(
        line("a1", None, "m1", call("c1"), call("c1")),
        result("r1", "a1", "c1", "first"),
        result("r2", "a1", "c1", "second"),
    )
    results = [(entry.message.tool_call_id, entry.message.text) for entry in messages(found, ToolResult)]
    assert results == [("c1", "first"), ("c1.2", "second")]


def test_a_call_without_a_result_stays_open():
    """Rule 3: nothing is invented."""
    assert named(entries(user("u1", None, "hi"), line("a1", "u1", "m1", call("c1"))))[-1] == "reply"


_SPILLED = {"toolUseResult": {"persistedOutputPath": f"/home/x/.claude/projects/p/{SESSION}/tool-results/b1.txt"}}


def test_the_whole_output_of_a_tool_is_kept_behind_the_part_that_the_model_saw():
    records = (line("a1", None, "m1", call("c1")), result("r1", "a1", "c1", "<persisted-output>…", **_SPILLED))
    others = {f"{SESSION}/tool-results/b1.txt": "whole ü".encode()}
    *_, shown, whole = entries(*records, path=f"/p/{SESSION}.jsonl", others=others)
    assert (shown.message.text, shown.message.truncated) == ("<persisted-output>…", True)
    assert (whole.custom_type, whole.in_context) == ("claude-code:tool-output", False)
    assert whole.content == (Text(text="whole ü"),)
    assert whole.data == {"toolCallId": "c1"}


class _WatchedFile(MemoryFile):
    """A file that records which other files were asked for."""

    def __init__(self, raw, path):
        super().__init__(raw, path)
        self.asked = []

    def beside(self, relative):
        self.asked.append(relative)
        return super().beside(relative)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x.txt", "..", "tool-results/../../x.txt", "a\\..", "", 7])
def test_a_spilled_output_is_never_read_from_elsewhere(path):
    """Only a file in the session's own folder of results is asked for, whatever the record names."""
    spilled = {"toolUseResult": {"persistedOutputPath": path}}
    records = (line("a1", None, "m1", call("c1")), result("r1", "a1", "c1", **spilled))
    file = _WatchedFile(jsonl(*records), f"/p/{SESSION}.jsonl")
    assert named(entries_of(next(iter(read_sessions(file)))))[-1] == "result"
    assert set(file.asked) <= {f"{SESSION}/tool-results/passwd", f"{SESSION}/tool-results/x.txt"}


# ── messages in the user role ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("content", "more", "name"),
    [
        ("Fix it", {}, "prompt"),
        ([text("Fix it")], {}, "prompt"),
        ("<b>bold</b> words", {}, "prompt"),
        ("Base directory for this skill", {"isMeta": True}, "claude-code:meta"),
        ("<command-name>/exit</command-name>", {}, "claude-code:command"),
        ("<command-message>x</command-message>\n<command-name>/x</command-name>", {}, "claude-code:command"),
        ("<local-command-stdout>Bye!</local-command-stdout>", {}, "claude-code:local-command"),
        ("<local-command-caveat>Caveat</local-command-caveat>", {"isMeta": True}, "claude-code:local-command"),
        ("Caveat: The messages below were generated by the user while running local commands.", {}, "local"),
        ("<bash-input>ls</bash-input>", {}, "claude-code:bash"),
        ("<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>", {}, "claude-code:bash"),
        ("<system-reminder>\nx</system-reminder>", {}, "claude-code:reminder"),
        ("<task-notification>x</task-notification>", {}, "claude-code:task"),
        ("only shown", {"isVisibleInTranscriptOnly": True}, "user"),
        ("[Request interrupted by user]", {}, "cancelled"),
        ([text("[Request interrupted by user for tool use]")], {}, "cancelled"),
    ],
)
def test_a_prompt_is_always_the_turn_of_a_person(content, more, name):
    found = entries(user("u1", None, content, **more))
    assert named(found)[-1] in (name, "claude-code:local-command" if name == "local" else name)
    assert bool(messages(found, Prompt)) == (name == "prompt")


def test_an_interruption_keeps_its_words():
    (entry,) = [entry for entry in entries(user("u1", None, "[Request interrupted by user]")) if entry.type != "custom"]
    assert isinstance(entry, Cancelled)
    assert entry.reason == "[Request interrupted by user]"


def test_a_message_typed_while_the_model_worked_is_a_prompt():
    queued = {"type": "queued_command", "prompt": "and the docs", "commandMode": "prompt"}
    notified = {"type": "queued_command", "prompt": "<task-notification>", "commandMode": "task-notification"}
    found = entries(
        chained("attachment", "q1", None, attachment=queued), chained("attachment", "q2", "q1", attachment=notified)
    )
    assert named(found) == ["environment", "prompt", "attachment:queued_command"]
    assert found[1].message.text == "and the docs"


def test_an_attachment_is_in_the_context_if_the_record_says_what_the_model_saw():
    shown = chained("attachment", "t1", None, attachment={"type": "date"}, rendered=[{"content": "Today is Monday."}])
    hidden = chained("attachment", "t2", "t1", attachment={"type": "hook_success"})
    *_, seen, unseen = entries(shown, hidden)
    assert (seen.in_context, seen.content, seen.data) == (True, (Text(text="Today is Monday."),), shown)
    assert (unseen.in_context, unseen.content, unseen.data) == (False, (), hidden)


def test_records_of_unknown_types_are_kept_verbatim():
    record = {"type": "new-thing", "sessionId": SESSION, "list": [1, {"a": None}]}
    found = entries(user("u1", None, "hi"), record, chained("system", "s1", "u1", subtype="microcompact_boundary"))
    assert named(found)[-2:] == ["new-thing", "system:microcompact_boundary"]
    assert found[-2].data == record


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def _renamed(found):
    return [entry.title for entry in found if isinstance(entry, SessionRenamed)]


def _title(kind, field, title):
    return {"type": kind, field: title, "sessionId": SESSION}


def test_titles_by_precedence():
    records = [
        user("u1", None, "hi"),
        {"type": "summary", "summary": "of another session", "leafUuid": "elsewhere"},
        {"type": "summary", "summary": "Old title", "leafUuid": "u1"},
        _title("ai-title", "aiTitle", "Made title"),
        _title("ai-title", "aiTitle", "Made title"),
        _title("custom-title", "customTitle", "Given title"),
        _title("ai-title", "aiTitle", "Made later"),
    ]
    (session,) = read_sessions(source(*records))
    assert session.title == "Given title"
    assert _renamed(entries_of(session)) == ["Old title", "Made title", "Given title"]
    for known, title in ((0, None), (2, None), (3, "Old title"), (4, "Made title")):
        assert next(iter(read_sessions(source(*records[:known])))).title == title


def test_a_summary_at_the_top_of_a_file_names_a_later_record():
    summary = {"type": "summary", "summary": "Old title", "leafUuid": "a1"}
    (session,) = read_sessions(source(summary, user("u1", None, "hi"), line("a1", "u1", "m1", text("hello"))))
    assert session.title == "Old title"
    assert named(entries_of(session))[0] == "summary"


def test_changes_of_version_folder_and_session_are_kept():
    """One file may hold records of several versions, folders, git branches and sessions."""
    records = [
        user("u1", None, "hi"),
        user("u2", "u1", "ho", version="2.1.37", gitBranch="fix"),
        user("u3", "u2", "hu", cwd="/other", version="2.1.37", gitBranch="fix", sessionId="before"),
    ]
    (session,) = read_sessions(source(*records))
    assert (session.origin.id, session.origin.version, session.cwd) == (SESSION, "2.1.36", "/repo")
    kept = [entry.data for entry in entries_of(session) if isinstance(entry, Custom)]
    assert kept == [
        {"version": "2.1.36", "cwd": "/repo", "gitBranch": "main"},
        {"version": "2.1.37", "cwd": "/repo", "gitBranch": "fix"},
        {"version": "2.1.37", "cwd": "/other", "gitBranch": "fix", "sessionId": "before"},
    ]


def test_bad_and_glued_lines():
    """A torn record, a whole one glued to it, two on one line, and a value that is no object."""
    whole = [jsonl(record).strip() for record in (user("u1", None, "a"), user("u2", "u1", "b"), user("u3", "u2", "c"))]
    raw = b'{"type":"user","uuid":"x' + whole[0] + b"\n" + whole[1] + whole[2] + b"\n42\n"
    ((_, items),) = check_sessions(MemoryFile(raw))
    assert [item.line for item in items if isinstance(item, BadRecord)] == [1, 3]
    assert [entry.body.message.text for entry in items if getattr(entry, "records", 0)] == ["a", "b", "c"]


def test_a_record_that_is_written_twice_counts_once():
    """Resuming in another version has written the last record again, with a new version."""
    again = line("a1", "u1", "m1", text("hello"), version="2.1.37", output_tokens=9)
    ((_, items),) = check_sessions(source(user("u1", None, "hi"), line("a1", "u1", "m1", text("hello")), again))
    assert [item for item in items if isinstance(item, SkippedRecords)] == [
        SkippedRecords("assistant", 1, "repeats an earlier record")
    ]


def test_records_with_equal_uuids_and_different_content_are_all_kept():
    ((_, items),) = check_sessions(
        source(user("u1", None, "hi"), user("u1", None, "ho"), chained("system", "u1", None))
    )
    assert account_of(items) == {"mapped": 2, "verbatim": 1, "skipped": 0, "bad": 0}


def test_the_json_of_the_web_api():
    records = [
        {"type": "user", "timestamp": "2026-01-01T10:00:00.000Z", "message": {"role": "user", "content": "hi"}},
        {"type": "assistant", "message": {"role": "assistant", "content": [call("c1")]}},
        {"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1"}]}},
        7,
    ]
    raw = msgspec.json.format(msgspec.json.encode({"loglines": records}), indent=2)
    ((session, items),) = check_sessions(MemoryFile(raw, "export.json"))
    assert account_of(items) == {"mapped": 3, "verbatim": 0, "skipped": 0, "bad": 1}
    assert named(item.body for item in items[:3]) == ["prompt", "reply", "result"]
    assert session.started_ms == 1_767_261_600_000


def test_the_id_of_a_session_is_the_name_of_its_file_or_its_first_session_id():
    """A moved file is the same session; a renamed one too, unless its new name is an id of its own."""
    ids = [
        next(iter(read_sessions(source(user("u1", None, "hi"), path=path)))).origin.id
        for path in (f"/a/{SESSION}.jsonl", f"/b/{SESSION}.jsonl", "/b/copy.jsonl", f"/a/{'0' * 8}{SESSION[8:]}.jsonl")
    ]
    assert ids == [SESSION, SESSION, SESSION, "0" * 8 + SESSION[8:]]


def test_a_fork_that_copied_a_prefix_has_the_same_entry_ids():
    prefix = [user("u1", None, "hi"), line("a1", "u1", "m1", text("a")), line("a2", "a1", "m1", call("c1"))]
    fork = [{**record, "sessionId": "fork"} for record in prefix]
    copied = entries(*fork, user("u9", "a2", "other way"), path="fork.jsonl")
    assert [entry.id for entry in copied[:3]] == [entry.id for entry in entries(*prefix)]


@pytest.mark.parametrize(
    ("head", "is_own"),
    [
        ([{"type": "mode", "mode": "normal", "sessionId": SESSION}], True),
        ([{"type": "summary", "summary": "x", "leafUuid": "y"}], True),
        ([{"type": "unheard-of"}, user("u1", None, "hi")], True),
        ([{"loglines": []}], True),
        ([{"type": "session", "id": "x", "version": 3}], False),
        ([{"type": "event_msg", "payload": {}, "timestamp": "x"}], False),
        ([{"sessionId": "x", "projectHash": "y", "type": "user"}], False),
        ([{"type": "user", "content": "x"}, "text", 7, None], False),
        ([], False),
    ],
)
def test_detection(head, is_own):
    assert is_claude_code(head) is is_own


def test_notes_are_sent_to_the_model_as_they_were():
    (note,) = messages(entries(user("u1", None, "skill text", isMeta=True)), Note)
    assert note.message.content == (Text(text="skill text"),)


# ── content of unusual forms ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ({"type": "text", "text": "hello"}, Text(text="hello")),
        ({"type": "invented"}, UnknownPart(part={"type": "invented"})),
        (5, UnknownPart(part=5)),
        ("hello", Text(text="hello")),
    ],
)
def test_a_result_of_an_unusual_form_is_kept(content, part):
    found = entries(user("u1", None, "hi"), line("a1", "u1", "m1", call("t1")), result("r1", "a1", "t1", content))
    assert messages(found, ToolResult)[0].message.content == (part,)


@pytest.mark.parametrize("indent", [None, 1])
def test_the_records_of_the_web_api_are_found_behind_anything(indent):
    document = {"title": "x" * 5_000, "loglines": [user("u1", None, "hi"), line("a1", "u1", "m1", text("yes"))]}
    raw = json.dumps(document, indent=indent).encode()
    found = entries_of(next(iter(read_sessions(MemoryFile(raw, "web.json")))))
    assert named(found) == ["environment", "prompt", "reply"]


def test_what_a_tool_keeps_of_its_result_is_reported_once():
    """Such as the patch of an edit; the record itself is mapped, so it is not counted again."""
    asked = (user("u1", None, "hi"), line("a1", "u1", "m1", call("t1"), call("t2"), call("t3")))
    found = [result(f"r{at}", "a1", f"t{at}", toolUseResult={"structuredPatch": []}) for at in (1, 2)]
    plain = result("r3", "a1", "t3", toolUseResult={"durationMs": 5})
    (session,) = read_sessions(source(*asked, *found, plain))
    items = list(session.items)
    (report,) = [item for item in items if isinstance(item, SkippedRecords)]
    assert (report.kind, report.count) == ("field toolUseResult", 0)
    assert "2 records" in report.reason
    assert sum(account_of(items).values()) == 5


def test_the_last_piece_of_a_reply_has_the_id_of_the_whole():
    """So the usage of a reply that was imported in pieces is not counted again for a fork that has it whole."""
    lines = (line("a1", "u1", "m1", text("x"), output_tokens=5), line("a2", "a1", "m1", call("t1"), output_tokens=50))
    file = source(user("u1", None, "go"), *lines)
    first = messages(entries(user("u1", None, "go"), lines[0]), Reply)
    (whole,) = messages(entries_of(next(iter(read_sessions(file)))), Reply)
    pieces = messages(entries_of(next(iter(read_sessions(file, {first[0].id}.__contains__)))), Reply)
    assert [piece.id for piece in pieces] == [first[0].id, whole.id]
