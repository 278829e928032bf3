"""ST-9: sessions of Gemini CLI become entries, and every record is accounted for."""

import json

import pytest

from tests.exchange.gemini_records import (
    FOLDER,
    SESSION,
    answered,
    bodies,
    changed,
    check_session,
    context,
    conversation,
    function_call,
    metadata,
    model,
    read,
    response,
    stamp,
    user,
    uuid,
)
from tests.exchange.pi_records import context_texts, messages, only, tree_of
from tests.exchange.samples import MemoryFile, account_of, entries_of, jsonl
from wakelog.errors import UsageError
from wakelog.exchange.gemini import reader as gemini
from wakelog.exchange.places import usual_files
from wakelog.exchange.sessions import ImportedEntry, session_id
from wakelog.exchange.sync import import_files
from wakelog.log.content import Image, Note, Prompt, Reply, Text, Thinking, ToolCall, ToolResult, Usage
from wakelog.log.entry import Compaction, Custom, Head, Message, SessionRenamed, Spawned
from wakelog.stores.memory import MemoryStore

# ── detection ────────────────────────────────────────────────────────────────────────────────────

_LOGGED = {"sessionId": "s", "messageId": 0, "timestamp": stamp(0), "type": "user", "message": "Hi"}


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ([metadata()], True),
        ([{**metadata(), "messages": []}], True),
        ([{"torn": 1}, metadata()], True),
        ([user("u1", "Hi"), changed(lastUpdated=stamp(1))], True),
        ([_LOGGED, _LOGGED], True),
        ([[_LOGGED]], True),
        ([{**_LOGGED, "uuid": "u"}], False),
        ([{"sessionId": "s", "type": "user", "uuid": "u", "parentUuid": None}], False),
        ([{"sessionId": "s", "projectHash": 7}], False),
        ([{"$set": {}}, {"type": "session", "id": 1}, {"a": 1}], False),
        ([{"role": "user", "content": "Hi"}], False),
        ([user("u1", "Hi")], False),
        (["text"], False),
        ([], False),
    ],
)
def test_it_is_recognised_by_its_records(head, expected):
    assert gemini.is_gemini(head) is expected


# ── the session ──────────────────────────────────────────────────────────────────────────────────


def test_a_session_has_its_origin_its_folder_and_its_last_title():
    session = read(*conversation())
    assert (session.origin.tool, session.origin.id, session.origin.is_subagent) == ("gemini-cli", SESSION, False)
    assert (session.cwd, session.title, session.started_ms) == (FOLDER, "Second title", 1_777_629_600_000)
    titles = [entry.title for entry in entries_of(session) if isinstance(entry, SessionRenamed)]
    assert titles == ["First title", "Second title"]


def test_the_folder_is_that_of_the_project():
    others = {"../.project_root": b"/srv/other\n"}
    [session] = gemini.read_sessions(MemoryFile(jsonl(metadata(), user("u1", "Hi")), "chats/s.jsonl", others))
    assert session.cwd == "/srv/other"


def test_every_record_is_accounted_for():
    records = conversation()
    items = list(read(*records).items)
    check_session(items, jsonl(*records))
    kept = [item.body.custom_type for item in items if getattr(item, "is_verbatim", False)]
    kinds = ["session", "metadata", "session", "info", "record"]
    assert kept == [f"gemini-cli:{kind}" for kind in kinds]
    assert account_of(items) == {"mapped": 14, "verbatim": 4, "skipped": 7, "bad": 0}


def test_an_empty_file_has_no_session():
    assert list(gemini.read_sessions(MemoryFile(b""))) == []
    assert list(gemini.read_sessions(MemoryFile(b"not json\n"))) == []


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


def test_a_turn_with_a_tool():
    entries = bodies(*conversation()[:9])
    note, prompt, reply, result, answer = [entry for entry in entries if isinstance(entry, Message)]
    assert isinstance(note.message, Note)
    assert note.message.custom_type == "gemini-cli:session_context"
    assert (type(prompt.message), prompt.message.text) == (Prompt, "Look")
    assert reply.message.content == (
        Thinking(thinking="**Plan** List files"),
        Text(text="I look"),
        ToolCall(id="c1", name="run_shell_command", input={"command": "ls"}),
    )
    assert (reply.message.model, reply.message.provider) == ("gemini-2.5-flash", "google")
    assert reply.message.usage == Usage(input_tokens=60, output_tokens=25, cache_read_tokens=40)
    assert (result.message.reply_id, result.message.tool_call_id) == (reply.id, "c1")
    assert (result.message.text, result.message.status, result.timestamp) == ("a.txt", "ok", stamp(3))
    assert answer.message.text == "One file"


def test_the_calls_of_a_message_are_recorded_with_it_later():
    """The reply and its calls are one reply, which stands for both records."""
    first = model("r1", "I look")
    records = [metadata(), user("u1", "Look"), first, {**first, "toolCalls": [answered("c1")]}]
    items = [item for item in read(*records).items if isinstance(item, ImportedEntry)]
    [reply] = [item for item in items if isinstance(item.body, Message) and isinstance(item.body.message, Reply)]
    assert (reply.records, len(reply.body.message.tool_calls), reply.body.message.text) == (2, 1, "I look")


@pytest.mark.parametrize(
    ("status", "key", "expected"),
    [("success", "output", "ok"), ("error", "error", "error"), ("cancelled", "error", "interrupted")],
)
def test_results_have_their_status(status, key, expected):
    call = answered("c1", status=status, result=[response("c1", "text", key=key)])
    result = only(bodies(metadata(), user("u1", "Go"), model("r1", toolCalls=[call]))[3:4], Message).message
    assert (result.status, result.is_error, result.text) == (expected, expected != "ok", "text")


@pytest.mark.parametrize("status", ["validating", "scheduled", "executing", "awaiting_approval"])
def test_a_call_that_has_not_ended_is_open(status):
    found = bodies(metadata(), user("u1", "Go"), model("r1", toolCalls=[answered("c1", status=status)]))
    assert messages(found, Reply)[0].tool_calls[0].id == "c1"
    assert messages(found, ToolResult) == []


def test_a_result_is_taken_once_though_it_is_stored_twice():
    records = [
        metadata(),
        user("u1", "Go"),
        model("r1", toolCalls=[answered("c1")]),
        user("t1", [response("c1", "done")]),
    ]
    items = list(read(*records).items)
    assert len(messages([item.body for item in items if isinstance(item, ImportedEntry)], ToolResult)) == 1
    assert account_of(items)["skipped"] == 1


def test_a_result_that_is_only_a_message_belongs_to_its_call():
    found = bodies(metadata(), user("u1", "Go"), model("r1", [function_call("c1")]), user("t1", [response("c1", "x")]))
    [result] = messages(found, ToolResult)
    assert (result.reply_id, result.text) == (found[2].id, "x")


def test_a_result_without_a_call_is_kept_as_it_is():
    record = user("t1", [response("lost", "x")])
    kept = bodies(metadata(), user("u1", "Go"), record)[-1]
    assert (kept.custom_type, kept.data) == ("gemini-cli:tool_response", record)


def test_calls_of_one_message_with_the_same_id_have_their_own_results():
    calls = [answered("c1", "A", args={"command": "a"}), answered("c1", "B", args={"command": "b"})]
    found = bodies(metadata(), user("u1", "Go"), model("r1", toolCalls=calls), user("t1", "Next"))
    [reply] = messages(found, Reply)
    asked = {call.id: call.input["command"] for call in reply.tool_calls}
    assert [(asked[result.tool_call_id], result.text) for result in messages(found, ToolResult)] == [
        ("a", "A"),
        ("b", "B"),
    ]


def test_a_call_without_an_id_in_the_content_is_the_one_with_its_name_and_arguments():
    calls = [answered("x1", "A", args={"p": 1}), answered("x2", "B", args={"p": 2}), answered("x3", "C", args={"p": 1})]
    parts = [{"functionCall": {"name": "run_shell_command", "args": {"p": place}}} for place in (2, 1, 1, 3)]
    found = bodies(metadata(), user("u1", "Go"), model("r1", parts, toolCalls=calls))
    [reply] = messages(found, Reply)
    assert [call.id for call in reply.tool_calls] == ["x2", "x1", "x3", "call-4"]
    assert len(messages(found, ToolResult)) == 3


def test_media_of_a_result():
    media = {"inlineData": {"mimeType": "image/png", "data": "QQ=="}}
    beside = answered("c1", result=[response("c1", "see"), media])
    inside = answered(
        "c2", result=[{"functionResponse": {"id": "c2", "response": {"output": "see"}, "parts": [media]}}]
    )
    injected = answered(
        "c3", result=[{"functionResponse": {"id": "c3", "response": {"__binary_injection__": [media]}}}]
    )
    found = messages(bodies(metadata(), model("r1", toolCalls=[beside, inside, injected])), ToolResult)
    picture = Image(mime_type="image/png", data="QQ==")
    assert [result.content for result in found] == [
        (Text(text="see"), picture),
        (Text(text="see"), picture),
        (picture,),
    ]


def test_signatures_stay_with_their_parts():
    content = [
        {"text": "Hm", "thought": True, "thoughtSignature": "s1"},
        {"text": "So", "thoughtSignature": "s2"},
        {**function_call("c1"), "thoughtSignature": "s3"},
    ]
    [reply] = messages(bodies(metadata(), model("r1", content)), Reply)
    thought, text, call = reply.content
    assert (thought.signature, text.bound, call.bound) == (
        "s1",
        {"thoughtSignature": "s2"},
        {"thoughtSignature": "s3"},
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("<hook_context>Be brief</hook_context>", "hook_context"),
        ("Here is the user's editor context as a JSON object. This is for your information only.", "editor_context"),
        ("System: Please continue.", "system"),
        ("Please continue.", None),
    ],
)
def test_injected_context_is_not_a_prompt(text, kind):
    message = messages(bodies(metadata(), user("u1", text)))[0]
    expected = (Note, f"gemini-cli:{kind}") if kind else (Prompt, None)
    assert (type(message), getattr(message, "custom_type", None)) == expected


def test_an_empty_reply_says_that_a_call_is_lost():
    """Gemini CLI records a call when it has ended: a reply without text means that one was under way."""
    found = bodies(metadata(), user("u1", "Go"), model("r1"))
    assert messages(found, Reply)[0].usage == Usage(input_tokens=60, output_tokens=25, cache_read_tokens=40)
    assert (found[-1].custom_type, found[-1].in_context) == ("gemini-cli:lost_call", True)
    assert "may have run" in context_texts(found)[-1]


def test_fields_without_a_counterpart_are_kept():
    call = answered("c1", resultDisplay={"fileDiff": "+a"}, novel=1)
    found = bodies(
        metadata(), user("u1", "Go", displayContent=[{"text": "@a"}]), model("r1", toolCalls=[call], extra=2)
    )
    fields = [entry.data for entry in found if isinstance(entry, Custom) and entry.custom_type == "gemini-cli:fields"]
    assert fields == [
        {"displayContent": [{"text": "@a"}]},
        {"extra": 2, "toolCalls": {"c1": {"resultDisplay": {"fileDiff": "+a"}, "novel": 1}}},
    ]


def test_a_display_that_repeats_the_result_is_left_out():
    found = bodies(metadata(), model("r1", toolCalls=[answered("c1", "Output: a.txt", resultDisplay="a.txt")]))
    assert not any(isinstance(entry, Custom) and entry.custom_type.endswith(":fields") for entry in found)


# ── lists of messages ────────────────────────────────────────────────────────────────────────────


def test_a_resume_repeats_nothing():
    """All messages are recorded again, in another form; the new context stands before the next prompt."""
    entries = bodies(*conversation()[:15])
    assert [message.text for message in messages(entries, Prompt)] == ["Look", "Wrong"]
    assert len(messages(entries, ToolResult)) == 1
    days = [message.text.split(".")[0][-6:] for message in messages(entries, Note)]
    assert days == ["Friday", "Monday"]
    branch = [node.value.message.text for node in tree_of(entries).branch().nodes if isinstance(node.value, Message)]
    assert [text[:8] for text in branch] == ["<session", "Look", "I look", "a.txt", "One file", "<session", "Wrong"]


def test_a_rewind_moves_the_head():
    entries = bodies(*conversation()[:19])
    [head] = [entry for entry in entries if isinstance(entry, Head)]
    texts = context_texts(entries)
    assert "Wrong" not in texts
    assert texts[-2:] == ["More", "Ten lines"]
    assert head.target_id == next(e.parent_id for e in entries if isinstance(e, Message) and e.message.text == "Wrong")


def test_a_rewind_to_an_unknown_message_drops_everything():
    entries = bodies(metadata(), user("u1", "A"), model("r1", "B"), {"$rewindTo": "?"}, user("u2", "C"))
    assert context_texts(entries) == ["C"]


def test_a_compression_is_a_compaction():
    """The kept messages have other ids and no usage; they are recognised by their content."""
    entries = bodies(*conversation())
    compaction = only(entries, Compaction)
    [first_kept] = [entry for entry in entries if isinstance(entry, Message) and entry.message.text == "More"]
    assert (compaction.summary, compaction.first_kept_entry_id) == ("Summary", first_kept.id)
    texts = context_texts(entries)
    assert texts == ["Summary", "More", "Ten lines", "And this?", "A picture"]


def test_a_session_that_was_compressed_and_resumed():
    records = conversation()
    again = [*records[20]["$set"]["messages"], records[21], records[22]]
    entries = bodies(*records, changed(messages=[context("Monday")]), changed(messages=again), user("u5", "End", 15))
    assert len([entry for entry in entries if isinstance(entry, Compaction)]) == 1
    assert context_texts(entries)[-1] == "End"
    assert len(context_texts(entries)) == 6


def test_messages_that_are_dropped_without_a_summary_are_a_reset():
    kept = user("u2", "C", 3)
    entries = bodies(metadata(), user("u1", "A"), model("r1", "B"), kept, changed(messages=[kept]), model("r2", "D", 4))
    compaction = only(entries, Compaction)
    assert (compaction.summary, compaction.trigger) == ("", "reset")
    assert context_texts(entries) == ["C", "D"]


def test_an_open_call_is_closed_by_what_gemini_tells_the_model():
    """A call that wakelog wrote as open has a result for the model only; after a resume it is a message."""
    call = model("r1", toolCalls=[answered("c1", "Outcome unknown", status="executing")])
    again = [
        user("u1", "Go"),
        model("r1", [function_call("c1")]),
        {**user("x", [response("c1", "Outcome unknown")]), "id": "r"},
    ]
    before = bodies(metadata(), user("u1", "Go"), call)
    after = bodies(metadata(), user("u1", "Go"), call, changed(messages=again), user("u2", "And?", 5))
    assert messages(before, ToolResult) == []
    assert after[: len(before)] == before
    assert [result.text for result in messages(after, ToolResult)] == ["Outcome unknown"]
    assert context_texts(after)[-1] == "And?"


def test_messages_that_are_recorded_again_with_other_ids_are_known():
    """Masking results records all messages anew before it replaces the list."""
    first = [user("u1", "Look"), model("r1", toolCalls=[answered("c1", "long output")]), model("r2", "Seen", 4)]
    masked = [
        {**context(), "id": uuid("n0")},
        user("n1", "Look", 5),
        model("n2", [function_call("c1")], 5),
        user("n3", [response("c1", "[masked]")], 5),
        model("n4", [{"text": "Seen"}], 5),
    ]
    start = [metadata(), changed(messages=[context()])]
    entries = bodies(*start, *first, *masked, changed(messages=masked), user("u2", "Next", 6))
    assert [message.text for message in messages(entries, Prompt)] == ["Look", "Next"]
    assert [message.text for message in messages(entries, ToolResult)] == ["long output"]
    assert [entry.data for entry in entries if getattr(entry, "custom_type", "") == "gemini-cli:shortened_results"] == [
        {"c1": [response("c1", "[masked]")]}
    ]
    assert not any(isinstance(entry, Compaction | Head) for entry in entries)


def test_a_prompt_that_failed_is_left_when_the_next_one_comes():
    known = [context(), user("u1", "A"), model("r1", [{"text": "B"}])]
    records = [metadata(), changed(messages=known[:1]), *known[1:], user("u2", "Failed", 3), changed(messages=known)]
    assert context_texts(bodies(*records))[-1] == "Failed"
    assert context_texts(bodies(*records, user("u3", "C", 4)))[-2:] == ["B", "C"]


def test_files_that_resumes_leave_have_nothing_new():
    """Each resume in another minute begins a file of the same session. Its records must not become the head."""
    known = {entry.id for entry in bodies(*conversation())}
    warning = {"id": uuid("w1"), "timestamp": stamp(9), "type": "warning", "content": "Old version"}
    starts = [[metadata(startTime=stamp(second)), changed(messages=[context("Sunday")])] for second in (70, 80)]
    records = [*starts[0], warning, *starts[1], changed(summary="Third", memoryScratchpad={})]
    [left] = gemini.read_sessions(MemoryFile(jsonl(*records), "chats/session-y.jsonl"), known.__contains__)
    items = list(left.items)
    assert [item.body.id for item in items if isinstance(item, ImportedEntry)] == [bodies(*conversation())[0].id]
    assert sum(account_of(items).values()) == len(records)


def test_what_comes_before_the_first_message_is_kept():
    warning = {"id": uuid("w1"), "timestamp": stamp(1), "type": "warning", "content": "Old version"}
    alone, followed = bodies(metadata(), warning), bodies(metadata(), warning, user("u1", "Go"))
    assert [entry.custom_type for entry in alone] == ["gemini-cli:session", "gemini-cli:warning"]
    assert followed[:2] == alone


def test_ids_that_are_no_uuids_belong_to_their_session():
    one = bodies(metadata(), changed(messages=[context()]), user("u1", "A"))
    other = bodies(metadata(sessionId="other"), changed(messages=[context()]), user("u1", "A"))
    assert one[1].message == other[1].message
    assert one[1].id != other[1].id
    assert one[2].id == other[2].id


# ── other files ──────────────────────────────────────────────────────────────────────────────────


def _documented(*records, **fields):
    document = {**metadata(), **fields, "messages": list(records)}
    [session] = gemini.read_sessions(MemoryFile(json.dumps(document, indent=2).encode(), "chats/session-x.json"))
    return session


def test_a_json_document_has_the_entries_of_the_log():
    """Gemini CLI turns the former into the latter when it resumes a session."""
    records = [user("u1", "Go"), model("r1", "I look", toolCalls=[answered("c1")]), model("r2", "Done", 4)]
    session = _documented(*records, summary="Title")
    items = list(session.items)
    assert session.title == "Title"
    assert sum(account_of(items).values()) == 1 + len(records)
    kept = [item.body for item in items if isinstance(item, ImportedEntry)]
    assert kept == bodies(metadata(summary="Title"), *records)


def test_a_document_on_one_line_is_one_record():
    items = list(read({**metadata(), "messages": [user("u1", "Go"), "text", model("r1", "Done")]}).items)
    assert account_of(items) == {"mapped": 0, "verbatim": 1, "skipped": 0, "bad": 0}
    kept = [item.body for item in items if isinstance(item, ImportedEntry)]
    assert [message.text for message in messages(kept)] == ["Go", "Done"]
    assert kept[2].data == "text"


def test_strange_messages_of_a_document_are_kept():
    items = list(_documented("text", {"no": "id"}, {"id": "m1", "type": "model", "parts": []}).items)
    assert account_of(items) == {"mapped": 0, "verbatim": 4, "skipped": 0, "bad": 0}


def test_a_document_that_is_nested_too_deeply_is_refused():
    raw = b'{\n"sessionId": "s", "projectHash": "h", "messages": ' + b"[" * 300 + b"]" * 300 + b"}"
    with pytest.raises(UsageError, match="nested more than"):
        list(gemini.read_sessions(MemoryFile(raw, "chats/session-x.json")))


def test_a_document_with_half_a_character_is_read():
    raw = json.dumps({**metadata(), "messages": [user("u1", "half \ud83d")]}, indent=1).encode()
    [session] = gemini.read_sessions(MemoryFile(raw, "chats/session-x.json"))
    assert messages(entries_of(session), Prompt)[0].text.startswith("half ")


@pytest.mark.parametrize("text", ["<!--" * 100_000, "<!---->" * 50_000, "<!-" * 50_000 + "-->" * 50_000])
def test_comments_take_no_time(text):
    """The time is linear: a pattern that is tried at each place would take minutes."""
    entries = bodies(metadata(), user("u1", text), changed(messages=[user("u1", text)]), user("u2", "Next"))
    assert [message.text for message in messages(entries, Prompt)] == [text, "Next"]


def test_many_calls_take_no_time():
    calls = [function_call(f"c{number}") for number in range(4_000)]
    record = model("r1", calls, toolCalls=[answered(f"c{number}") for number in range(4_000)])
    assert len(messages(bodies(metadata(), record), ToolResult)) == 4_000


def test_sub_agents_are_sessions_of_their_own():
    child, other = uuid("child"), uuid("other")
    calls = [answered("c1", name="codebase_investigator", agentId=child), answered("c2", agentId=other)]
    raw = jsonl(metadata(), user("u1", "Go"), model("r1", toolCalls=calls))
    inner = jsonl(metadata(sessionId=child, kind="subagent"), user("s1", "Look"), model("s2", "Found"))
    others = {f"{SESSION}/{child}.jsonl": inner, f"{SESSION}/notes.txt": b"x", f"{SESSION}/bad.jsonl": b"no\n"}
    parent, found = gemini.read_sessions(MemoryFile(raw, "chats/session-x.jsonl", others))
    [spawned] = [entry for entry in entries_of(parent) if isinstance(entry, Spawned)]
    assert (spawned.child_session, spawned.tool_call_id) == (session_id("gemini-cli", child), "c1")
    origin = found.origin
    assert (origin.is_subagent, origin.parent, origin.parent_call) == (True, SESSION, "c1")
    [alone] = gemini.read_sessions(MemoryFile(inner, f"chats/{SESSION}/{child}.jsonl"))
    assert (alone.origin.parent, alone.origin.is_subagent) == (SESSION, True)
    assert entries_of(alone) == entries_of(found)


def test_prompts_of_sessions_without_a_file():
    logged = [{**_LOGGED, "sessionId": name, "messageId": n} for name in ("aaaaaaaa-1", "bbbbbbbb-2") for n in (0, 1)]
    raw = json.dumps([*logged, {"sessionId": "aaaaaaaa-1", "odd": 1}], indent=2).encode()
    others = {"chats/session-2026-05-01T10-00-bbbbbbbb.jsonl": b""}
    [session] = gemini.read_sessions(MemoryFile(raw, "tmp/p/logs.json", others))
    assert session.origin.id == "aaaaaaaa-1:prompts"
    items = list(session.items)
    assert account_of(items) == {"mapped": 2, "verbatim": 1, "skipped": 0, "bad": 0}


def test_prompts_of_sessions_that_are_stored(tmp_path):
    """Gemini CLI deletes old files in `chats` and keeps the prompts."""
    folder = tmp_path / ".gemini" / "tmp" / "p"
    chat = folder / "chats" / "session-2026-01-01T00-00-aaaaaaaa.jsonl"
    chat.parent.mkdir(parents=True)
    metadata = {"sessionId": "aaaaaaaa-1", "projectHash": "h", "startTime": "2026-01-01T00:00:00.000Z"}
    chat.write_bytes(jsonl(metadata, {"id": "m", "type": "user", "content": "Hi", "timestamp": "2026-01-01T00:00:00Z"}))
    logged = [{**_LOGGED, "sessionId": name} for name in ("aaaaaaaa-1", "bbbbbbbb-2")]
    (folder / "logs.json").write_text(json.dumps(logged, indent=2))
    store = MemoryStore()
    found = usual_files({"HOME": str(tmp_path)})["gemini-cli"]
    first = [session.origin.id for done in import_files(store, found) for session in done.sessions]
    chat.unlink()
    (second,) = import_files(store, [str(folder / "logs.json")])
    assert first == ["aaaaaaaa-1", "bbbbbbbb-2:prompts"]
    assert [session.origin.id for session in second.sessions] == ["bbbbbbbb-2:prompts"]
