"""ST-9: a session written for Gemini CLI has the same messages, calls and results, and its losses say what it lacks."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.gemini_records import answered, conversation, metadata, model, read, response, user
from tests.exchange.generated_sessions import sessions_to_write
from tests.exchange.pi_records import mutated, tree_of
from tests.exchange.samples import EXPECTED, MemoryFile, entries_of, jsonl, needs_samples, sample
from wakelog.exchange.gemini.content import injected_kind, is_ignored
from wakelog.exchange.gemini.reader import is_gemini, read_sessions
from wakelog.exchange.gemini.writer import write_session
from wakelog.exchange.writing import SessionToWrite
from wakelog.log.content import Image, Note, Prompt, Reply, Text, Thinking, ToolCall, ToolResult, Usage
from wakelog.log.entry import Cancelled, Compaction, Custom, Message, Node

STARTED_MS = 1_777_629_600_000
MADE = "made-here/gemini-cli-0.61.0"


def _session(*nodes: Any, **fields: Any) -> SessionToWrite:
    """Return a session of nodes, each under the one before it; their ids are n1, n2 and so on."""
    placed: list[Any] = []
    for number, node in enumerate(nodes, 1):
        body = Message(message=node) if isinstance(node, Prompt | Reply | ToolResult | Note) else node
        time = f"2026-05-01T10:00:{number:02}.000Z"
        parent = placed[-1].id if placed else "s"
        placed.append(msgspec.structs.replace(body, id=f"n{number}", parent_id=parent, timestamp=time))
    head = placed[-1].id if placed else "s"
    fixed = {"session": "s", "agent": "a", "started_ms": STARTED_MS, "cwd": "/home/ada/My Project_2"}
    return SessionToWrite(**{**fixed, "nodes": tuple(placed), "head": head, **fields})


def _records(session: SessionToWrite) -> list[dict[str, Any]]:
    return [json.loads(line) for line in write_session(session).files[0].content.splitlines()]


def _losses(session: SessionToWrite) -> dict[tuple[str, str], int]:
    return {(loss.kind, loss.reason): loss.count for loss in write_session(session).losses}


# ── the same messages ────────────────────────────────────────────────────────────────────────────


def _said(node: Any) -> Any:
    """Return what a node is for the comparison: what Gemini CLI can hold of it; None if that is nothing."""
    match node:
        case Custom(in_context=True) if node.content:
            return "user", node.content if isinstance(node.content, str) else node.content[0].text, []
        case Cancelled(content=(Text(text=text),)):
            return "reply", None, [], text, []
        case Compaction():
            return "compaction", node.summary
        case Message(message=Prompt() | Note() as said):
            parts = [{"text": part.text} for part in said.parts if isinstance(part, Text)]
            kind = (injected_kind(parts) if isinstance(said, Note) else None) or "user"
            return kind, said.text, _media(said)
        case Message(message=Reply() as reply):
            thoughts = [part.thinking for part in reply.parts if isinstance(part, Thinking) and part.thinking]
            calls = [(call.id, call.name, call.input) for call in reply.tool_calls]
            return "reply", reply.model, thoughts, reply.text, calls
        case Message(message=ToolResult() as result):
            return "result", result.tool_call_id, result.text, result.effective_status == "ok", _media(result)
    return None


def _media(message: Any) -> list[Any]:
    return [(part.mime_type, part.data) for part in message.parts if isinstance(part, Image)]


def _conversation(nodes: Any) -> list[Any]:
    """Return what a branch says, with the place of the first message that each compaction keeps."""
    found: list[Any] = []
    places: dict[str, int] = {}
    for node in nodes:
        said = _said(node)
        if said is None:
            continue
        places[node.id] = len(found)
        if isinstance(node, Compaction):
            at = places.get(node.first_kept_entry_id or "")
            while at is not None and found[at][0] == "user" and is_ignored([{"text": found[at][1]}]):
                at += 1
            said = (*said, at if at is None or at < len(found) else None)
        found.append(said)
    return found


def _read_back(session: SessionToWrite) -> tuple[Any, list[Any]]:
    written = write_session(session)
    raw = written.files[0].content
    [found] = read_sessions(MemoryFile(raw, written.files[0].path))
    assert is_gemini([json.loads(line) for line in raw.split(b"\n")[:20] if line])
    assert found.origin.id == written.id
    entries = entries_of(found)
    return found, [node.value for node in tree_of(entries).branch().nodes]


def _check(session: SessionToWrite) -> None:
    found, branch = _read_back(session)
    assert _conversation(branch) == _conversation(session.branch)
    assert found.title == ((session.title or "").strip() or None)
    assert write_session(session) == write_session(session)


@given(sessions_to_write())
@settings(max_examples=120)
def test_what_is_written_is_read_again(session):
    _check(session)


@given(sessions_to_write(branches=True, repeated_call_ids=True))
@settings(max_examples=60)
def test_the_branch_of_the_head_is_written(session):
    _check(session)
    others = len(session.nodes) - len(session.branch)
    lost = {loss.reason: 0 for loss in write_session(session).losses}
    for loss in write_session(session).losses:
        lost[loss.reason] += loss.count
    assert lost.get("on another branch", 0) == others


@given(sessions_to_write())
@settings(max_examples=40)
def test_results_open_calls_and_lines(session):
    """Each call has exactly one result, open ones too, and nothing in a line ends it."""
    content = write_session(session).files[0].content.decode()
    assert not set(content) & {"\u2028", "\u2029"}
    for line in content.split("\n"):
        record = json.loads(line) if line else {}
        for call in record.get("toolCalls", ()):
            assert [part["functionResponse"]["id"] for part in call["result"] if "functionResponse" in part] == [
                call["id"]
            ]
        said = record.get("content", "")
        assert not any("functionResponse" in part for part in said if isinstance(part, dict))


# ── sessions of Gemini CLI ───────────────────────────────────────────────────────────────────────


def _imported(foreign: Any) -> SessionToWrite:
    """Return a foreign session as the writer gets it after an import."""
    entries = entries_of(foreign)
    tree = tree_of(entries)
    nodes = [node.value for node in tree.nodes.values() if isinstance(node.value, Node) and node.id != "s"]
    parents = {node.id: tree.parent(node.id) or "s" for node in nodes}
    placed = tuple(msgspec.structs.replace(node, parent_id=parents[node.id]) for node in nodes)
    facts = {"session": "s", "agent": "a", "started_ms": foreign.started_ms, "cwd": foreign.cwd, "title": foreign.title}
    return SessionToWrite(**facts, nodes=placed, head=tree.head or "s")


def test_an_imported_session_is_written_as_it_was():
    session = _imported(read(*conversation()))
    _check(session)
    assert [kind for kind, *_ in _conversation(_read_back(session)[1])].count("compaction") == 1


@given(mutated(conversation()))
@settings(max_examples=60)
def test_changed_sessions_are_written_as_they_were(records):
    raw = jsonl(metadata(), *records)
    for foreign in read_sessions(MemoryFile(raw, "chats/session-x.jsonl")):
        session = _imported(foreign)
        before, after = _conversation(session.branch), _conversation(_read_back(session)[1])
        assert [said[:2] for said in after if said[0] == "result"] == [
            said[:2] for said in before if said[0] == "result"
        ]
        assert [said[3:] for said in after if said[0] == "reply"] == [said[3:] for said in before if said[0] == "reply"]


@needs_samples
@pytest.mark.parametrize(
    "name",
    [
        *sorted(name for name in EXPECTED if name.startswith("gemini-cli/")),
        f"{MADE}/session-2026-11-16T18-19-bb744043.jsonl",
        f"{MADE}/crash-in-tool/session-2026-11-16T18-21-b97f5415.jsonl",
    ],
)
def test_samples_are_written_as_they_were(name):
    for foreign in read_sessions(sample(name)):
        _check(_imported(foreign))


def test_usage_and_signatures_of_gemini_are_kept():
    content = [
        {"text": "Hm", "thought": True, "thoughtSignature": "s1"},
        {"functionCall": {"id": "c1", "name": "ls", "args": {}}, "thoughtSignature": "s2"},
    ]
    records = metadata(), user("u1", "Go"), model("r1", content), user("t1", [response("c1", "x")])
    session = _imported(read(*records))
    [before], [after] = (
        [node.message for node in nodes if isinstance(node, Message) and isinstance(node.message, Reply)]
        for nodes in (session.branch, _read_back(session)[1])
    )
    assert after == before
    assert after.usage == Usage(input_tokens=60, output_tokens=25, cache_read_tokens=40)


def test_messages_that_are_only_shown_are_kept():
    shown = {"id": "i1", "timestamp": "2026-05-01T10:00:09.000Z", "type": "warning", "content": "Quota"}
    assert shown in _records(_imported(read(metadata(), user("u1", "Go"), shown)))


# ── the form that Gemini CLI reads ───────────────────────────────────────────────────────────────

_CALL = ToolCall(id="c1", name="shell", input={"command": "ls"})


def test_a_file_has_the_name_and_the_place_that_resuming_needs():
    session = _session(Prompt(content="Go"), title=" A title ")
    written = write_session(session)
    assert written.resume == ("gemini", "-r", written.id)
    path = f"tmp/my-project-2/chats/session-2026-05-01T10-00-{written.id[:8]}.jsonl"
    assert [file.path for file in written.files] == [path]
    header, prompt = _records(session)
    assert (header["sessionId"], header["kind"], header["summary"]) == (written.id, "main", "A title")
    assert (header["startTime"], header["lastUpdated"]) == ("2026-05-01T10:00:00.000Z", "2026-05-01T10:00:01.000Z")
    assert len(header["projectHash"]) == 64
    assert {**prompt, "id": ""} == {
        "id": "",
        "timestamp": "2026-05-01T10:00:01.000Z",
        "type": "user",
        "content": [{"text": "Go"}],
    }


def test_a_session_that_went_on_is_another_one():
    first, second = _session(Prompt(content="Go")), _session(Prompt(content="Go"), Reply(content="Done"))
    assert write_session(first).id != write_session(second).id
    assert _records(first)[1] == _records(second)[1]


def test_a_reply_is_written_as_gemini_writes_it():
    thinking = Thinking(thinking="**Plan** Look first")
    reply = Reply(
        content=(thinking, Text(text="I look"), _CALL), model="m", usage=Usage(input_tokens=3, cache_read_tokens=4)
    )
    result = ToolResult(content="a.txt", tool_call_id="c1", reply_id="n2", tool_name="shell", status="ok")
    record = _records(_session(Prompt(content="Go"), reply, result))[2]
    assert (record["content"], record["model"]) == ("I look", "m")
    assert record["tokens"] == {"input": 7, "output": 0, "cached": 4, "total": 7}
    assert [(each["subject"], each["description"]) for each in record["thoughts"]] == [("Plan", "Look first")]
    [call] = record["toolCalls"]
    assert call["result"] == [{"functionResponse": {"id": "c1", "name": "shell", "response": {"output": "a.txt"}}}]
    assert (call["args"], call["status"]) == ({"command": "ls"}, "success")


def test_results_in_another_order_than_the_calls():
    other = ToolCall(id="c2", name="shell", input={})
    results = [ToolResult(content=name, tool_call_id=name, reply_id="n1", status="ok") for name in ("c2", "c1")]
    session = _session(Reply(content=(_CALL, other)), *results)
    record = _records(session)[1]
    assert [part["functionCall"]["id"] for part in record["content"]] == ["c1", "c2"]
    assert [call["id"] for call in record["toolCalls"]] == ["c2", "c1"]
    _check(session)


def test_an_open_call_says_that_its_outcome_is_unknown():
    """Gemini CLI sends a call without a result as it is, and the API refuses it."""
    session = _session(Prompt(content="Go"), Reply(content=(_CALL,)))
    [call] = _records(session)[2]["toolCalls"]
    assert "Outcome unknown" in call["result"][0]["functionResponse"]["response"]["error"]
    assert _losses(session)["toolcall", "open: its result says that the outcome is unknown"] == 1
    assert not any(
        isinstance(node, Message) and isinstance(node.message, ToolResult) for node in _read_back(session)[1]
    )


def test_a_result_that_names_no_reply_is_that_of_its_call():
    result = ToolResult(content="out", tool_call_id="c1")
    session = _session(Prompt(content="Go"), Reply(content=(_CALL,)), result)
    assert [said[0] for said in _conversation(_read_back(session)[1])] == ["user", "reply", "result"]
    assert not any(kind in ("toolcall", "toolresult") for kind, _ in _losses(session))


def test_a_summary_that_begins_like_a_command_is_a_summary():
    for before in ([], [Prompt(content="Go"), Reply(content="Done")]):
        _check(_session(*before, Compaction(summary="/"), Prompt(content="Next")))


def test_a_compaction_that_keeps_a_result_keeps_its_call():
    session = _session(
        Prompt(content="Go"),
        Reply(content=(_CALL,)),
        ToolResult(content="out", tool_call_id="c1", reply_id="n2"),
        Compaction(summary="So far.", first_kept_entry_id="n3"),
        Prompt(content="Next"),
    )
    kept = _records(session)[-2]["$set"]["messages"]
    assert [each["toolCalls"][0]["id"] for each in kept if each.get("toolCalls")] == ["c1"]
    assert ("compaction", "keeps the reply with the call of its first result as well") in _losses(session)


def test_a_compaction_replaces_the_messages_and_keeps_the_older_ones_in_the_file():
    nodes = (
        Prompt(content="One"),
        Reply(content="Two"),
        Prompt(content="Three"),
        Compaction(summary="So far", first_kept_entry_id="n3"),
        Reply(content="Four"),
    )
    header, *older, listed, last = _records(_session(*nodes))
    assert [record["type"] for record in older] == ["user", "gemini", "user"]
    messages = listed["$set"]["messages"]
    assert [record["content"] for record in messages[:2]] == [
        [{"text": "So far"}],
        [{"text": "Got it. Thanks for the additional context!"}],
    ]
    assert messages[2] == older[2]
    assert last["content"] == "Four"
    assert "summary" not in header


def test_a_kept_reply_needs_no_answer_to_the_summary():
    nodes = Prompt(content="One"), Reply(content="Two"), Compaction(summary="So far", first_kept_entry_id="n2")
    listed = _records(_session(*nodes))[-1]["$set"]["messages"]
    assert [record["type"] for record in listed] == ["user", "gemini"]


def test_what_the_format_cannot_hold_is_told():
    signed = Thinking(thinking="Hm", signature="sig")
    session = _session(
        Prompt(content="/help"),
        Note(content="Note", custom_type="memory"),
        Reply(content=(signed, Text(text="Yes")), provider="anthropic", stop_reason="stop"),
        Custom(custom_type="app:state", data={"n": 1}),
        Reply(content=(_CALL,), usage=Usage(cost_micros=5)),
        Prompt(content="Between"),
        ToolResult(content="x", tool_call_id="c1", reply_id="n5", status="denied"),
        ToolResult(content="x", tool_call_id="lost", reply_id="n5"),
        Prompt(content="<session_context>pasted"),
        labels={"n1": "start"},
    )
    lost = _losses(session)
    assert set(lost) == {
        ("prompt", "begins like a command, which Gemini CLI does not send after a resume"),
        ("prompt", "begins like context of Gemini CLI, which it replaces by its own"),
        ("note", "written as a message of the user"),
        ("reply", "its provider"),
        ("reply", "why it ended, and the id of its request"),
        ("thinking", "its signature is for another provider"),
        ("custom app:state", "Gemini CLI has no such record"),
        ("usage", "the cost, and which part of the input was written to a cache"),
        ("toolresult", "stands directly behind its call"),
        ("toolresult", "its status is denied"),
        ("toolresult", "its call is not on the branch, or has another result"),
        ("label", "Gemini CLI has no labels"),
        ("folder", "Gemini CLI adds that in which it is resumed"),
    }
    assert not any("thoughtSignature" in json.dumps(record) for record in _records(session))


def test_a_line_has_no_separators_inside():
    raw = write_session(_session(Prompt(content="a\u2028b\u2029c"))).files[0].content
    assert b"a\\u2028b\\u2029c" in raw
    assert _read_back(_session(Prompt(content="a\u2028b\u2029c")))[1][-1].message.text == "a\u2028b\u2029c"


@pytest.mark.parametrize(
    ("folder", "name"), [("", "project"), ("/", "project"), ("/a/Ünï--X_", "n-x"), ("C:\\b\\", "b")]
)
def test_names_of_projects(folder, name):
    [file] = write_session(_session(Prompt(content="Go"), cwd=folder)).files
    assert file.path.startswith(f"tmp/{name}/chats/session-")


@given(st.text(max_size=20))
@settings(max_examples=40)
def test_any_folder_gives_a_path_below_the_data_folder(folder):
    [file] = write_session(_session(Prompt(content="Go"), cwd=folder.encode("utf-8", "replace").decode())).files
    assert file.path.count("/") == 3
    assert ".." not in file.path


def test_a_call_with_a_result_that_was_answered_in_gemini():
    session = _imported(read(metadata(), user("u1", "Go"), model("r1", toolCalls=[answered("c1", status="error")])))
    [call] = _records(session)[2]["toolCalls"]
    assert (call["status"], list(call["result"][0]["functionResponse"]["response"])) == ("error", ["error"])
