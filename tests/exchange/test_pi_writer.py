"""ST-9: a session that is written for pi is the same session when it is read again, tree, labels and title included."""

import json

import pytest
from hypothesis import given, settings

from tests.exchange.generated_sessions import STARTED_MS, sessions_to_write
from tests.exchange.pi_records import SESSION, Chain, call, conversation, first_version, header, mutated, read
from tests.exchange.pi_written import context_of, read_back, shape_of, shape_read, to_write, write_and_read
from tests.exchange.samples import MemoryFile, entries_of, jsonl, needs_samples, sample
from tests.exchange.test_pi import FACTS
from tests.exchange.test_pi_context import trees
from wakelog.exchange.exporting import session_to_write
from wakelog.exchange.importing import import_session
from wakelog.exchange.pi import reader
from wakelog.exchange.pi.writer import write_session
from wakelog.exchange.writing import SessionToWrite
from wakelog.log.content import Note, Prompt, Reply, Text, Thinking, ToolCall, ToolResult
from wakelog.log.entry import Compaction, Custom, Message
from wakelog.log.timestamps import iso_timestamp
from wakelog.stores.memory import MemoryStore


def chain(*bodies, head=None, **fields):
    """Return a session of one branch."""
    nodes, parent = [], "s"
    for number, body in enumerate(bodies, 1):
        stamped = {"id": f"n{number}", "parent_id": parent, "timestamp": iso_timestamp(STARTED_MS + number)}
        nodes.append(type(body)(**{name: getattr(body, name) for name in body.__struct_fields__} | stamped))
        parent = nodes[-1].id
    session = {"session": "s", "agent": "crab", "started_ms": STARTED_MS, "cwd": "/repo", "head": head or parent}
    return SessionToWrite(nodes=tuple(nodes), **{**session, **fields})


def records_of(written):
    return [json.loads(line) for line in written.files[0].content.splitlines()]


def losses_of(written):
    return {(loss.kind, loss.count) for loss in written.losses}


@settings(max_examples=60)
@given(sessions_to_write(branches=True))
def test_a_written_session_is_read_as_the_same(session):
    _, foreign, entries = write_and_read(session)
    expected, got = shape_of(session), shape_read(entries)
    assert got.branch == expected.branch
    assert got.tree == expected.tree
    assert got.labels == expected.labels
    assert (foreign.cwd, foreign.started_ms) == (session.cwd, session.started_ms)
    assert foreign.title == ((session.title or "").strip() or None)
    assert context_of(to_write(foreign, entries)) == context_of(session)


@settings(max_examples=40)
@given(trees())
def test_an_imported_tree_is_written_as_it_was(records):
    check_rewritten(read(*records))


@settings(max_examples=20)
@given(sessions_to_write(branches=True, repeated_call_ids=True))
def test_results_stay_with_their_calls_where_ids_repeat(session):
    _, _, entries = write_and_read(session)
    assert shape_read(entries).tree == shape_of(session).tree


@settings(max_examples=60)
@given(mutated(conversation()))
def test_strange_records_are_written_and_read(records):
    for foreign in reader.read_sessions(MemoryFile(jsonl(*records))):
        session = to_write(foreign, entries_of(foreign))
        written, again, entries = write_and_read(session)
        assert write_session(to_write(again, entries)).files[0].content.count(b"\n") >= 1
        assert written == write_session(session)


def check_rewritten(foreign):
    entries = entries_of(foreign)
    session = to_write(foreign, entries)
    written, again, second = write_and_read(session)
    expected, got = shape_of(session), shape_read(second)
    assert got.branch == expected.branch
    assert got.tree == expected.tree
    # A label of a title that is the first record: titles are not nodes, so it is about the header.
    of_header = {label for label in expected.labels if label[0][0] == 0}
    assert got.labels == expected.labels - of_header
    assert any(loss.kind == "label" for loss in written.losses) == bool(of_header)
    assert (again.title, again.cwd, again.started_ms) == (foreign.title, foreign.cwd, foreign.started_ms)
    assert context_of(to_write(again, second)) == context_of(session)


@pytest.mark.parametrize("records", [conversation(), first_version()], ids=["every type of record", "version 1"])
def test_an_imported_session_is_written_as_it_was(records):
    check_rewritten(read(*records))


@needs_samples
@pytest.mark.parametrize("name", FACTS)
def test_samples_are_written_as_they_were(name):
    check_rewritten(next(reader.read_sessions(sample(name))))


def test_records_keep_all_their_fields():
    """Import, store, export: every field of every record of pi comes back, but ids and what derives from them."""
    records = conversation()
    store = MemoryStore()
    imported = import_session(store, read(*records))
    assert imported.name is not None
    written = write_session(session_to_write(store, imported.name))
    got = records_of(written)
    bare = [_bare(record) for record in got]
    for record in records[1:]:
        if record["type"] not in ("label", "session_info") and record["id"] != "h1":
            assert _bare(record) in bare, record
    assert [record["name"] for record in got if record["type"] == "session_info"] == ["Second title"]
    assert [record["label"] for record in got if record["type"] == "label"] == ["start"]
    [hook] = [record for record in got if record.get("customType") == "lint"]
    assert (hook["type"], hook["content"]) == ("custom_message", [{"type": "text", "text": "From a hook"}])
    assert {kind for kind, _ in losses_of(written)} == {"custom wakelog:import", "usage"}


def _bare(record):
    """Return a record without ids and without fields that the writer has to fill in."""
    left_out = (
        "id",
        "parentId",
        "timestamp",
        "firstKeptEntryId",
        "usage",
        "api",
        "isError",
        "stopReason",
        "tokensBefore",
    )
    message = record.get("message", {})
    content = message.get("content", record.get("content")) or []
    return {
        **{key: record[key] for key in record if key not in (*left_out, "message", "content")},
        **{f"message.{key}": message[key] for key in message if key not in (*left_out, "content")},
        "content": [{"type": "text", "text": content}] if isinstance(content, str) else content,
    }


def test_the_last_record_is_the_head():
    """pi continues a session at its last record, wherever the head is."""
    nodes = [Message(message=Prompt(content=text)) for text in ("one", "two", "three")]
    session = chain(*nodes, head="n2")
    records = records_of(write_session(session))
    assert records[-1]["parentId"] == records[2]["id"]
    _, entries = read_back(write_session(session))
    assert [item[1][0].text for item in shape_read(entries).branch] == ["one", "two"]
    titled = records_of(write_session(chain(*nodes, head="n2", title="T")))
    assert [(record["type"], record.get("name")) for record in titled[-2:]] == [
        ("message", None),
        ("session_info", "T"),
    ]
    assert titled[-1]["parentId"] == titled[2]["id"]


def test_ids_file_name_and_bytes():
    session = chain(Message(message=Prompt(content="Hi \u2028")), cwd="/home/ada/a:b\\c")
    written, again = write_session(session), write_session(session)
    assert written == again
    [file] = written.files
    assert file.path == f"sessions/--home-ada-a-b-c--/2026-03-01T10-00-00-000Z_{written.id}.jsonl"
    assert b"\xe2\x80\xa8" not in file.content
    first, prompt = records_of(written)
    assert first == {
        "type": "session",
        "version": 3,
        "id": written.id,
        "timestamp": "2026-03-01T10:00:00.000Z",
        "cwd": session.cwd,
    }
    assert (len(prompt["id"]), prompt["parentId"], prompt["message"]["timestamp"]) == (8, None, STARTED_MS + 1)
    assert prompt["message"]["content"] == [{"type": "text", "text": "Hi \u2028"}]
    longer = chain(Message(message=Prompt(content="Hi")), Message(message=Prompt(content="More")))
    assert write_session(longer).id != written.id
    assert len(write_session(chain(cwd="/" + "ä" * 500)).files[0].path) < 255


def test_a_reply_has_the_fields_that_pi_needs():
    """pi fails on a reply without usage, so unknown usage is 0 and is counted as a loss."""
    written = write_session(chain(Message(message=Reply(content=(ToolCall(id="c", name="look"),), model="m"))))
    message = records_of(written)[1]["message"]
    zeros = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    assert message["usage"] == {**zeros, "totalTokens": 0, "cost": {**zeros, "total": 0}}
    assert (message["stopReason"], message["content"][0]["arguments"]) == ("toolUse", {})
    assert losses_of(written) == {("usage", 1)}


def test_reasoning_goes_back_to_the_api_that_sent_it():
    """Signatures, encrypted reasoning and ids of items are where pi keeps them."""
    summary = [{"type": "summary_text", "text": text} for text in ("One", "Two")]
    item = {"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": "enc"}
    thought = {"type": "thinking", "thinking": "One\n\nTwo", "thinkingSignature": json.dumps(item)}
    said = {"type": "text", "text": "Hi", "textSignature": '{"v":1,"id":"msg_1","phase":"commentary"}'}
    asked = {**call("c1|fc_1"), "arguments": {"a": 1}}
    chained = Chain(header()).say("r1", "assistant", [thought, said, asked], api="openai-responses", provider="openai")
    chained.say("t1", "toolResult", [], toolCallId="c1|fc_1", toolName="bash", isError=False)
    foreign = read(*chained.records)
    records = records_of(write_session(to_write(foreign, entries_of(foreign))))
    content = records[1]["message"]["content"]
    assert json.loads(content[0].pop("thinkingSignature")) == item
    assert content == [{"type": "thinking", "thinking": "One\n\nTwo"}, said, asked]
    assert records[2]["message"]["toolCallId"] == "c1|fc_1"
    hidden = Thinking(bound={"type": "redacted_thinking", "data": "x"})
    reply = records_of(write_session(chain(Message(message=Reply(content=(hidden,), provider="anthropic")))))[1]
    assert reply["message"]["content"] == [
        {"type": "thinking", "thinking": "", "thinkingSignature": "x", "redacted": True}
    ]


def test_a_result_that_does_not_follow_its_call_is_a_message():
    """pi would invent a result at the prompt and send the real one without its call, which providers refuse."""
    asking = Message(message=Reply(content=(ToolCall(id="c", name="look", input={}),)))
    late = Message(message=ToolResult(content="found", tool_call_id="c", tool_name="look", reply_id="n1"))
    written = write_session(chain(asking, Message(message=Prompt(content="And?")), late))
    last = records_of(written)[-1]
    assert (last["type"], last["content"][0]["text"]) == ("custom_message", "Result of look (c):\n")
    assert ("toolresult", 1) in losses_of(written)
    between = Custom(custom_type="x", data=1)
    followed = write_session(chain(asking, between, late))
    assert records_of(followed)[-1]["message"]["toolCallId"] == "c"


def test_what_pi_has_no_record_for_is_counted():
    seen = Custom(custom_type="x", in_context=True, content=(Text(text="Seen"),))
    denied = Message(message=ToolResult(tool_call_id="c", reply_id="n2", status="denied", is_error=True))
    asking = Message(message=Reply(content=(ToolCall(id="c", name="look", input="text"),), stop_reason="filtered"))
    written = write_session(chain(seen, asking, denied))
    assert losses_of(written) == {
        *(("custom x", 1), ("tool call", 1), ("stop reason", 1), ("usage", 1), ("toolresult", 1))
    }
    _, entries = read_back(written)
    notes = [entry.message for entry in entries if isinstance(entry, Message) and isinstance(entry.message, Note)]
    assert [note.text for note in notes] == ["Seen"]


def test_a_compaction_keeps_what_it_kept():
    bodies = [Message(message=Prompt(content=text)) for text in ("old", "kept")]
    session = chain(*bodies, Compaction(summary="S", first_kept_entry_id="n2", tokens_before=7))
    records = records_of(write_session(session))
    assert (records[3]["firstKeptEntryId"], records[3]["tokensBefore"]) == (records[2]["id"], 7)
    nothing = records_of(write_session(chain(*bodies, Compaction(summary="S"))))[3]
    assert ("firstKeptEntryId" in nothing, nothing["tokensBefore"]) == (False, 0)


def test_a_fork_names_the_file_of_its_parent():
    first = header(parentSession="/x/2026_abc.jsonl")
    foreign = read(first, *Chain().say("u1", "user", "Hi").records)
    written = write_session(to_write(foreign, entries_of(foreign)))
    assert records_of(written)[0]["parentSession"] == "/x/2026_abc.jsonl"
    [again] = reader.read_sessions(MemoryFile(written.files[0].content))
    assert (again.origin.parent, again.origin.id != SESSION) == ("abc", True)
