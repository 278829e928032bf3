"""ST-9: databases of Goose in all schemas, sub-agents, threads and token counts; its files, and the samples."""

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.exchange.goose_records import (
    NAME,
    SCHEMAS,
    SEEN,
    SESSION,
    START_S,
    Database,
    bodies,
    compacted,
    conversation,
    export,
    export_file,
    legacy_file,
    message,
    request,
    response,
    text,
)
from tests.exchange.pi_records import check_entries, context_texts, messages
from tests.exchange.samples import (
    EXPECTED,
    MemoryDatabase,
    MemoryFile,
    account_of,
    entries_of,
    needs_samples,
    sample,
    sample_database,
)
from wakelog.errors import UsageError, WakelogError
from wakelog.exchange.exporting import session_to_write, write_session
from wakelog.exchange.goose import reader as goose
from wakelog.exchange.importing import import_session
from wakelog.exchange.records import LINE_BYTES_MAX, BadRecord
from wakelog.exchange.sessions import ImportedEntry, session_id
from wakelog.log.content import Prompt, Reply, Text, ToolResult
from wakelog.log.entry import Compaction, Custom, Message, ModelChange, Spawned
from wakelog.reading import read_log
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore

DIFFERENCES: dict[str, str] = {}
"""Samples whose figures differ from the counted facts, with the reason. There are none."""


# ── databases ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_schema_gives_the_entries_of_the_export(schema):
    database = Database(schema)
    database.add_session(conversation())
    assert goose.is_goose_database(database.source)
    [session] = database.read()
    assert (session.origin.id, session.origin.version, session.title) == (NAME, str(schema), "A name")
    assert (session.cwd, session.started_ms) == ("/repo", START_S * 1000)
    expected = [body for body in bodies(conversation()) if isinstance(body, Message)]
    found = [body for body in entries_of(session) if isinstance(body, Message)]
    if schema >= 7:
        assert found == expected
    elif schema >= 3:
        # Without the ids of messages, the id of the provider is not known.
        assert [body.id for body in found] == [body.id for body in expected]
    assert [body.message.text for body in found if isinstance(body.message, ToolResult)] == ["a.txt", "no", "in a.txt"]
    if schema >= 6:
        assert (session.provider, session.model) == ("anthropic", "claude-4")


def test_other_databases_are_refused():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE sessions (id TEXT, working_dir TEXT)")
    connection.execute("CREATE TABLE messages (session_id TEXT, role TEXT, content TEXT)")
    source = MemoryDatabase(connection)
    assert not goose.is_goose_database(source)
    with pytest.raises(UsageError, match="not a database of Goose"):
        list(goose.read_sessions(source))


def test_rows_are_read_in_the_order_in_which_they_were_written():
    """`goose term` stores times in milliseconds, by which Goose sorts a command behind all that follows it."""
    database = Database()
    database.add_session([message(0, "user", "Hi")])
    row = {"session_id": SESSION, "role": "user", "created_timestamp": START_S * 1000 + 500}
    hidden = '{"userVisible": true, "agentVisible": false}'
    database.insert("messages", content_json='[{"type": "text", "text": "ls -l"}]', metadata_json=hidden, **row)
    before = database.bodies()
    database.add_messages([message(2, "assistant", "Ho")])
    after = database.bodies()
    assert after[: len(before)] == before
    assert [body.custom_type for body in after if isinstance(body, Custom)] == ["goose:session", "goose:hidden"]
    assert after[2].timestamp == "2026-03-01T10:00:00.500Z"


def test_damaged_rows_are_reported():
    database = Database()
    database.add_session([message(0, "user", "Hi")])
    row = {"session_id": SESSION, "role": "user", "created_timestamp": START_S}
    database.insert("messages", content_json="[{", **row)
    database.insert("messages", content_json='[], "x": 1', **row)
    database.insert("messages", content_json="[]", metadata_json="no json", **row)
    database.insert("messages", content_json='"text"', **{**row, "role": "system"})
    [session] = database.read()
    items = list(session.items)
    assert account_of(items) == {"mapped": 2, "verbatim": 2, "skipped": 0, "bad": 2}
    assert [item.reason.partition(":")[0] for item in items if isinstance(item, BadRecord)] == [
        "row 2 of messages",
        "row 3 of messages",
    ]
    assert {"metadata_json": "no json"} in [getattr(item.body, "data", None) for item in items if hasattr(item, "body")]


def test_a_row_that_is_too_large_is_not_decoded():
    database = Database()
    row = {"session_id": SESSION, "role": "user", "created_timestamp": START_S}
    database.add_session([])
    database.insert("messages", content_json=f'[{{"type": "text", "text": "{"x" * (LINE_BYTES_MAX)}"}}]', **row)
    [_, bad] = database.read()[0].items
    assert bad.reason == "row 1 of messages: longer than 32 MB"


class _Unreadable(MemoryDatabase):
    """A database with one cell that cannot be read: it is null."""

    def rows(self, table: str, columns: Sequence[str], **more: Any) -> Iterator[tuple[Any, ...]]:
        for row in super().rows(table, columns, **more):
            yield tuple(None if isinstance(cell, str) and "unreadable" in cell else cell for cell in row)


def test_a_cell_that_cannot_be_read_is_one_bad_record():
    """Also where the calls that started sub-agents are looked for."""
    database = Database()
    database.add_session([*_delegation("20260301_2"), message(8, "user", "unreadable"), message(9, "user", "Last")])
    database.add_session([message(5, "user", "Look")], "20260301_2", session_type="sub_agent")
    found = goose.read_sessions(_Unreadable(database.connection, "sessions.db"))
    parent, child = [(session, list(session.items)) for session in found]
    [bad] = [item for item in parent[1] if isinstance(item, BadRecord)]
    assert bad.reason == "row 6 of messages: no text that can be read"
    assert context_texts([item.body for item in parent[1] if isinstance(item, ImportedEntry)])[-1] == "Last"
    assert child[0].origin.parent == NAME


def test_messages_without_a_session_are_read():
    database = Database()
    database.add_messages([message(0, "user", "Hi")], "lost")
    [session] = database.read()
    assert session.origin.id == "lost"
    assert account_of(session.items) == {"mapped": 1, "verbatim": 0, "skipped": 0, "bad": 0}


def test_a_fork_has_the_entries_that_it_copied():
    database = Database()
    database.add_session(conversation())
    database.add_session([*conversation(), message(30, "user", "Another way")], "20260301_2")
    first, second = (entries_of(session) for session in database.read())
    assert [body.id for body in second[1 : len(first)]] == [body.id for body in first[1:]]
    assert first[0].id != second[0].id


def test_a_thread_of_schema_10_is_a_session():
    database = Database(10)
    database.insert("threads", id="thread-1", name="Talk", working_dir="/repo", created_at="2026-03-01 10:00:00")
    database.insert("threads", id="thread-2", name="Empty")
    database.add_messages([message(0, "user", "Hi")], table="thread_messages", thread_id="thread-1")
    [session] = database.read()
    assert (session.origin.id, session.title, session.started_ms) == ("thread-1", "Talk", START_S * 1000)
    assert account_of(session.items) == {"mapped": 1, "verbatim": 1, "skipped": 0, "bad": 0}


def test_the_usage_ledger_is_kept_where_goose_wrote_it():
    database = Database(15)
    database.add_session([message(0, "user", "Hi")])
    usage = {"session_id": SESSION, "model": "claude-4", "input_tokens": 10, "cost": 0.5}
    database.insert("usage_ledger", created_timestamp=START_S + 2, **usage)
    before = database.bodies()
    database.add_messages([message(3, "assistant", "Ho"), message(5, "user", "More")])
    database.insert("usage_ledger", created_timestamp=(START_S + 6) * 1000, **usage)
    after = database.bodies()
    assert after[: len(before)] == before
    kinds = [body.custom_type if isinstance(body, Custom) else type(body.message).__name__ for body in after]
    assert kinds == ["goose:session", "Prompt", "goose:usage", "Reply", "Prompt", "goose:usage"]
    assert after[2].data == {
        "id": 1,
        "created_timestamp": START_S + 2,
        "model": "claude-4",
        "input_tokens": 10,
        "cost": 0.5,
    }


# ── sub-agents ───────────────────────────────────────────────────────────────────────────────────


def _delegation(child: str) -> list[dict[str, Any]]:
    return [
        message(0, "user", "Delegate it"),
        message(1, "assistant", request("c1", "delegate", {"instructions": "Look"})),
        message(2, "user", response("c1", text("Found."), _meta={"subagent_session_id": child})),
        message(3, "assistant", request("c2", "load", {"source": child})),
        message(4, "user", response("c2", text("Found."), _meta={"subagent_session_id": child})),
    ]


def test_a_sub_agent_is_found_by_the_result_of_its_call():
    database = Database()
    database.add_session(_delegation("20260301_2"))
    database.add_session([message(1, "user", "Look")], "20260301_2", session_type="sub_agent", name="Delegated task")
    parent, child = database.read()
    entries = entries_of(parent)
    [spawned] = [body for body in entries if isinstance(body, Spawned)]
    [reply] = [body.id for body in entries if isinstance(body, Message) and body.id == spawned.reply_id]
    assert (spawned.child_session, spawned.parent_id) == (session_id("goose", child.origin.id), reply)
    assert spawned.tool_call_id == "c1"
    assert child.origin.is_subagent
    assert (child.origin.parent, child.origin.parent_call) == (NAME, "c1")
    assert not parent.origin.is_subagent


def test_a_sub_agent_that_the_source_lacks_is_not_named():
    assert not [body for body in bodies(_delegation("20260301_2")) if isinstance(body, Spawned)]


def test_schema_15_names_the_parent():
    database = Database(15)
    database.add_session([message(0, "user", "Hi")])
    child = {"session_type": "sub_agent", "parent_session_id": SESSION}
    database.add_session([message(1, "user", "Look")], "20260301_2", **child)
    _, found = database.read()
    assert (found.origin.parent, found.origin.parent_call, found.origin.is_subagent) == (NAME, "", True)


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def test_a_legacy_file_is_read_line_by_line():
    history = [message(0, "user", "Hi"), message(1, "assistant", "Ho")]
    source = legacy_file(history)
    [session] = goose.read_sessions(source)
    assert (session.origin.id, session.title, session.cwd) == ("20250301_100000", "Old name", "/repo")
    assert [each.text for each in messages(entries_of(session))] == ["Hi", "Ho"]


def test_a_legacy_file_without_a_header_and_with_a_torn_line():
    lines = [json.dumps(message(0, "user", "Hi")), '{"role": "assis', json.dumps({"odd": 1})]
    [session] = goose.read_sessions(MemoryFile("\n".join(lines).encode(), "/data/sessions/mine.jsonl"))
    assert session.origin.id == "mine"
    items = list(session.items)
    assert account_of(items) == {"mapped": 1, "verbatim": 1, "skipped": 0, "bad": 1}


def test_a_legacy_file_has_the_ids_of_the_database_that_took_it_over():
    history = [message(0, "user", "Hi"), message(1, "assistant", request("c1")), message(2, "user", response("c1"))]
    [old] = goose.read_sessions(legacy_file(history, path="20250301_100000.jsonl"))
    taken_over = [{**each, "id": f"msg_{SESSION}_random{at}"} for at, each in enumerate(history)]
    new = bodies(taken_over, id="20250301_100000")
    assert [body.id for body in entries_of(old)] == [body.id for body in new]


@pytest.mark.parametrize("spaces", [None, 2])
def test_an_export_in_any_layout(spaces):
    document = json.dumps(export([message(0, "user", "Hi")]), indent=spaces)
    expected = bodies([message(0, "user", "Hi")])
    for layout in (document, document.replace("{\n", "{ ", 1), f"[{document}]", f"[\n{document}]"):
        [session] = goose.read_sessions(MemoryFile(layout.encode(), "export.json"))
        assert entries_of(session) == expected


def test_a_list_of_exports_has_a_session_for_each():
    documents = [export([message(0, "user", "Hi")]), export([], id="20260301_2")]
    found = goose.read_sessions(export_file(documents))
    assert [session.origin.id for session in found] == [NAME, "20260301_2@2026-03-01T10:00:00Z"]


def test_a_document_without_a_session_is_refused():
    header = {"working_dir": "/repo", "description": "x", "message_count": 2, "total_tokens": None}
    with pytest.raises(UsageError, match="no session of Goose"):
        list(goose.read_sessions(export_file(header)))


def test_a_file_without_records_has_no_session():
    assert list(goose.read_sessions(MemoryFile(b"\n\n"))) == []
    assert list(goose.read_sessions(MemoryFile(b"{\nnot json"))) == []


# ── importing again ──────────────────────────────────────────────────────────────────────────────


def test_a_session_that_was_compacted_since_is_brought_up_to_date():
    """LOG-8: importing again adds only what is new, also after Goose has rewritten the session."""
    store = MemoryStore()
    database = Database()
    database.add_session(conversation())
    [session] = database.read()
    first = import_session(store, session)
    rewritten = Database()
    rewritten.add_session(compacted(conversation(), "So far.", 20))
    [session] = rewritten.read()
    second = import_session(store, session)
    assert (first.session, second.is_new, second.added) == (second.session, False, 3)
    tree = read_log(store, first.session).tree
    nodes = [entry.value for entry in tree.branch().nodes]
    assert sum(isinstance(node, Compaction) for node in nodes) == 1
    prompts = [node.message.text for node in nodes if isinstance(node, Message) and isinstance(node.message, Prompt)]
    assert prompts.count("Look at it") == 1
    assert import_session(store, rewritten.read()[0]).added == 0


def test_an_edited_session_is_a_branch():
    """LOG-8: Goose deletes what follows an edited prompt; the log keeps it beside what came instead."""
    store = MemoryStore()
    database = Database()
    database.add_session([message(0, "user", "Hi"), message(1, "assistant", "Ho"), message(2, "user", "Old")])
    imported = import_session(store, database.read()[0])
    database.connection.execute("DELETE FROM messages WHERE created_timestamp >= ?", (START_S + 2,))
    database.add_messages([message(5, "user", "New"), message(6, "assistant", "Yes.")])
    assert import_session(store, database.read()[0]).added == 2
    tree = read_log(store, imported.session).tree
    [last] = [node.id for node in tree.nodes.values() if getattr(node.value, "message", None) == YES]
    said = [node.value.message.text for node in tree.branch(last).nodes if isinstance(node.value, Message)]
    assert said == ["Hi", "Ho", "New", "Yes."]
    assert "Old" in [node.value.message.text for node in tree.nodes.values() if isinstance(node.value, Message)]


def _import(store: MemoryStore, database: Database) -> Any:
    """Import the session of a database, with what is stored of it."""
    identity = session_id("goose", NAME)
    known: set[str] = set()
    with contextlib.suppress(WakelogError):
        known = {entry.id for entry in Session(store, store.name(identity)).entries()}
    [foreign] = goose.read_sessions(database.source, known.__contains__)
    return import_session(store, foreign)


def test_the_record_of_a_session_is_kept_again_with_new_messages():
    """Its token counts, its provider and its model are those of the last import that found messages."""
    store, database = MemoryStore(), Database()
    database.add_session([message(0, "user", "Hi"), message(1, "assistant", "Ho")], total_tokens=5)
    _import(store, database)
    assert _import(store, database).added == 0
    for tokens, model in ((10, "claude-4"), (20, "claude-5")):
        config = json.dumps({"model_name": model})
        database.connection.execute("UPDATE sessions SET total_tokens = ?, model_config_json = ?", (tokens, config))
        answer = message(tokens, "assistant", "More", metadata={**SEEN, "inference": {"requestedModel": "claude-4"}})
        database.add_messages([answer])
        assert _import(store, database).added == 2 + (model == "claude-5")
        assert _import(store, database).added == 0
    nodes = [entry.value for entry in read_log(store, session_id("goose", NAME)).tree.branch().nodes]
    kept = [node.data["total_tokens"] for node in nodes if getattr(node, "custom_type", "") == "goose:session"]
    assert kept == [5, 10, 20]
    assert [node.model for node in nodes if isinstance(node, ModelChange)] == ["claude-5"]
    document = json.loads(write_session(session_to_write(store, session_id("goose", NAME)), "goose").files[0].content)
    assert (document["total_tokens"], document["model_config"]["model_name"]) == (20, "claude-5")


YES = Reply(content=(Text(text="Yes."),))


# ── samples ──────────────────────────────────────────────────────────────────────────────────────

_DATABASES = [name for name in EXPECTED if name.startswith("goose/") and name.endswith(".db")]
_MADE_HERE = "made-here/goose-1.34.0"


@needs_samples
@pytest.mark.parametrize("name", _DATABASES)
def test_sample_databases_have_the_counted_rows(name):
    rows = EXPECTED[name]["rows"]
    sessions = list(goose.read_sessions(sample_database(name)))
    assert len(sessions) == rows["sessions"]
    assert {session.origin.version for session in sessions} == {str(rows["schema_version"])}
    accounts = [account_of(session.items) for session in sessions]
    assert sum(account["mapped"] for account in accounts) == rows["messages"]
    assert sum(account["verbatim"] for account in accounts) == rows["sessions"] + rows.get("usage_ledger", 0)
    assert DIFFERENCES == {}


@needs_samples
def test_a_sample_of_a_sub_agent():
    _, child = goose.read_sessions(sample_database("goose/rs-s-go-03-parent-subagent-sessions.db"))
    assert child.origin.is_subagent
    assert child.origin.parent == "go030301-0301-4301-8301-030303030301"


@needs_samples
def test_a_sample_of_an_export_has_the_counted_content():
    name = "goose/goose-export-20260403_20.json"
    [session] = goose.read_sessions(sample(name))
    items = list(session.items)
    assert account_of(items) == {"mapped": EXPECTED[name]["messages"], "verbatim": 1, "skipped": 0, "bad": 0}
    entries = [item.body for item in items if isinstance(item, ImportedEntry)]
    check_entries(entries)
    counted = EXPECTED[name]["content"]
    replies, results = messages(entries, Reply), messages(entries, ToolResult)
    assert sum(len(reply.tool_calls) for reply in replies) == counted["toolRequest"]
    assert len(results) == counted["toolResponse"]
    parts = [part for each in (*replies, *messages(entries, Prompt)) for part in each.parts]
    assert [type(part).__name__ for part in parts].count("Thinking") == counted["thinking"]
    assert [type(part).__name__ for part in parts].count("Text") == counted["text"]


@needs_samples
def test_a_sample_of_a_legacy_file():
    name = "goose/tk-sample_session.jsonl"
    [session] = goose.read_sessions(sample(name))
    items = list(session.items)
    assert sum(account_of(items).values()) == EXPECTED[name]["records"]
    entries = [item.body for item in items if isinstance(item, ImportedEntry)]
    assert [type(each).__name__ for each in messages(entries)] == ["Prompt", "Reply", "ToolResult", "Reply"]


@needs_samples
def test_sessions_of_the_real_tool():
    first, fork = (entries_of(session) for session in goose.read_sessions(sample_database(f"{_MADE_HERE}/sessions.db")))
    for entries, prompts, replies in ((first, 2, 3), (fork, 3, 4)):
        check_entries(entries)
        assert len(messages(entries, Prompt)) == prompts
        assert len(messages(entries, Reply)) == replies
        assert [result.text for result in messages(entries, ToolResult)] == ["hello-from-tool"]
    [session] = goose.read_sessions(sample(f"{_MADE_HERE}/export-20261116_1.json"))
    exported = entries_of(session)
    assert [body.id for body in exported] == [body.id for body in first]
    assert context_texts(exported) == context_texts(first)


@needs_samples
@pytest.mark.parametrize("name", ["export-crash-in-tool.json", "export-crash-in-stream.json"])
def test_a_killed_goose_leaves_only_the_prompt(name):
    source = sample(f"{_MADE_HERE}/{name}")
    [session] = goose.read_sessions(source)
    assert [type(each).__name__ for each in messages(entries_of(session))] == ["Prompt"]


def test_an_export_without_an_id_is_named_by_its_file():
    [session] = goose.read_sessions(export_file({"working_dir": "/", "name": "x", "conversation": []}, "a/b.json"))
    assert session.origin.id == "b"
