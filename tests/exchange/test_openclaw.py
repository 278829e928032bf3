"""ST-9: sessions of OpenClaw, in files and in its database, become entries; every record is accounted for."""

import json
import sqlite3

import pytest
import zstandard
from hypothesis import given, settings

from tests.exchange.openclaw_records import (
    CHILD,
    INDEX,
    SqliteSource,
    by_id,
    child_records,
    database,
    folder,
    parent_records,
)
from tests.exchange.pi_records import (
    Chain,
    check_entries,
    check_session,
    context_texts,
    conversation,
    header,
    messages,
    mutated,
    tree_of,
)
from tests.exchange.samples import EXPECTED, SAMPLES, MemoryFile, account_of, entries_of, jsonl, needs_samples, sample
from wakelog.exchange import openclaw
from wakelog.exchange.places import session_files, usual_files
from wakelog.exchange.sessions import session_id
from wakelog.exchange.sync import import_files
from wakelog.log.content import Note, Prompt, Reply, ToolResult
from wakelog.log.entry import Compaction, Custom, Spawned
from wakelog.stores.memory import MemoryStore

# ── detection ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ([header(version=4)], True),
        ([header(), {"type": "custom", "customType": "model-snapshot"}], True),
        ([header(), {"type": "custom_message", "customType": "openclaw.runtime-context"}], True),
        ([header(), {"type": "message", "message": {"role": "user", "__openclaw": {}}}], True),
        ([header(), {"type": "custom", "customType": "todo"}], False),
        ([{"type": "custom", "customType": "openclaw:prompt-error"}], False),
        ([header(version=4, seq=0)], False),
        ([], False),
    ],
)
def test_a_transcript_is_recognised_by_its_marks(head, expected):
    assert openclaw.is_openclaw(head) is expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (INDEX, True),
        ({}, False),
        ([], False),
        ({"agent:a": {"sessionId": 1}}, False),
        ({"a": {"sessionId": "x"}}, False),
    ],
)
def test_an_index_is_recognised(document, expected):
    assert openclaw.is_openclaw_index(document) is expected


def test_a_database_is_recognised_by_its_columns():
    assert openclaw.is_openclaw_database(database({}))
    assert not openclaw.is_openclaw_database(SqliteSource(sqlite3.connect(":memory:")))


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def test_the_index_gives_titles_and_sub_agents():
    sessions = by_id(folder("sessions.json"))
    assert {name: session.title for name, session in sessions.items()} == {"mom": "Mother", "kid": "Kid"}
    kid, mom = sessions["kid"].origin, sessions["mom"].origin
    assert (kid.is_subagent, kid.parent, kid.parent_call) == (True, "mom", "c1")
    assert (mom.is_subagent, mom.parent, mom.parent_call, mom.version) == (False, "", "", "4")


@pytest.mark.parametrize("name", ["mom.jsonl", "sessions.json"])
def test_a_parent_names_the_session_of_its_sub_agent(name):
    sessions = by_id(folder(name))
    entries = entries_of(sessions["mom"])
    [spawned] = [entry for entry in entries if isinstance(entry, Spawned)]
    assert spawned.child_session == session_id("openclaw", "kid")
    assert (spawned.parent_id, spawned.reply_id, spawned.tool_call_id) == (entries[2].id, entries[2].id, "c1")
    check_entries(entries)
    assert tree_of(entries).damage == []


def test_a_parent_without_a_transcript_of_its_sub_agent():
    source = MemoryFile(jsonl(*parent_records()), "mom.jsonl", {"sessions.json": json.dumps(INDEX).encode()})
    assert not any(isinstance(entry, Spawned) for entry in entries_of(by_id(source)["mom"]))


def test_archives_and_copies_are_sessions_but_traces_are_not():
    """A reset or deleted transcript is a session; a copy from before a compaction has the ids of its original."""
    old = Chain(header(id="old", version=3)).say("u1", "user", "Long ago").records
    source = folder(
        "sessions.json",
        **{
            "old.jsonl.reset.2026-03-01T10-00-00.000Z": jsonl(*old),
            "mom.checkpoint.0001.jsonl": jsonl(*parent_records()[:3]),
            "mom.trajectory.jsonl": jsonl({"type": "trace"}),
            "mom.jsonl.lock": b'{"pid": 1}',
            "gone.jsonl.deleted.2026": jsonl(*Chain(header(id="gone")).say("u1", "user", "Away").records),
        },
    )
    sessions = list(openclaw.read_sessions(source))
    assert sorted(session.origin.id for session in sessions) == ["gone", "kid", "mom", "mom", "old"]
    copy, whole = (entries_of(session) for session in sessions if session.origin.id == "mom")
    assert copy == whole[: len(copy)]


@pytest.mark.parametrize("way", ["usual place", "folder", "index"])
def test_a_folder_of_openclaw_is_imported_with_its_archives(way, tmp_path):
    """ST-9: resets and deletions leave sessions; transcripts without a mark are known by the index beside them."""
    folder = tmp_path / ".openclaw" / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    (folder / "sessions.json").write_text(json.dumps({"agent:main:main": {"sessionId": "now", "label": "Today"}}))
    ends = {"now": ".jsonl", "old": ".jsonl.reset.2026-03-01T10-00-00.000Z", "gone": ".jsonl.deleted.2026"}
    for name, ending in ends.items():
        (folder / f"{name}{ending}").write_bytes(
            jsonl(*Chain(header(id=name, version=3)).say("u1", "user", "A").records)
        )
    archive = Chain(header(id="small", version=4)).say("u1", "user", "A").records
    (folder / "small.jsonl.reset.2026.zst").write_bytes(zstandard.compress(jsonl(*archive)))
    ways = {
        "usual place": usual_files({"HOME": str(tmp_path)}).get("openclaw", []),
        "folder": list(session_files([str(tmp_path)])),
        "index": [str(folder / "sessions.json")],
    }
    done = list(import_files(MemoryStore(), ways[way]))
    sessions = [session for file in done for session in file.sessions]
    assert {file.tool for file in done} == {"openclaw"}
    assert sorted(session.origin.id for session in sessions) == ["gone", "now", "old", "small"]


def test_a_transcript_without_an_index():
    [session] = openclaw.read_sessions(MemoryFile(jsonl(*conversation())))
    assert (session.origin.tool, session.title, session.agent) == ("openclaw", "Second title", "openclaw")


@pytest.mark.parametrize("index", [b"", b"[]", b"{", b'{"a": {"sessionId": "../../x"}}', b"\xff", b"null\n" * 3])
def test_a_strange_index_is_ignored(index):
    source = MemoryFile(jsonl(*parent_records()), "mom.jsonl", {"sessions.json": index})
    [session] = openclaw.read_sessions(source)
    check_session(list(session.items), jsonl(*parent_records()))


# ── records ──────────────────────────────────────────────────────────────────────────────────────


def test_what_another_session_sends_is_not_a_prompt():
    chain = Chain(header(version=4)).say("u1", "user", "Hi", __openclaw={"senderIsOwner": True}, idempotencyKey="k")
    chain.say("u2", "user", "Done", provenance={"kind": "inter_session", "sourceSessionKey": CHILD})
    chain.say("u3", "user", "Me", provenance={"kind": "external_user"})
    entries = entries_of(by_id(MemoryFile(jsonl(*chain.records))).popitem()[1])
    assert [message.text for message in messages(entries, Prompt)] == ["Hi", "Me"]
    assert [note.custom_type for note in messages(entries, Note)] == ["openclaw:inter_session"]
    kept = [entry.data for entry in entries if isinstance(entry, Custom) and entry.custom_type == "openclaw:fields"]
    assert kept[0] == {"__openclaw": {"senderIsOwner": True}}


def test_context_of_the_runtime_is_a_note():
    chain = Chain(header()).add("custom_message", "n", customType="openclaw.runtime-context", content="It is Monday")
    entries = entries_of(by_id(MemoryFile(jsonl(*chain.records))).popitem()[1])
    assert messages(entries, Note)[0].custom_type == "openclaw:openclaw.runtime-context"


def test_a_reset_empties_the_context():
    chain = Chain(header(version=4)).say("u1", "user", "A").add("reset", "x", reason="daily").say("u2", "user", "B")
    entries = entries_of(by_id(MemoryFile(jsonl(*chain.records))).popitem()[1])
    assert context_texts(entries) == ["B"]
    assert [entry.trigger for entry in entries if isinstance(entry, Compaction)] == ["reset"]


@pytest.mark.parametrize("parents", [("r1", "s1"), ("r1", "r1"), ("u1", "s1")])
def test_records_at_the_side_never_become_the_active_branch(parents):
    chain = Chain(header(version=4)).say("u1", "user", "A").say("r1", "assistant", "B")
    for name, parent in zip(("s1", "s2"), parents, strict=True):
        chain.say(name, "assistant", "Aside", parent=parent)
        chain.records[-1]["appendMode"] = "side"
    entries = entries_of(by_id(MemoryFile(jsonl(*chain.records))).popitem()[1])
    assert context_texts(entries) == ["A", "B"]
    chain.say("u2", "user", "C", parent="r1")
    entries = entries_of(by_id(MemoryFile(jsonl(*chain.records))).popitem()[1])
    assert context_texts(entries) == ["A", "B", "C"]


# ── anything at all ──────────────────────────────────────────────────────────────────────────────


@given(mutated(parent_records() + conversation()[1:]))
@settings(max_examples=80)
def test_strange_records_never_raise_and_are_accounted_for(records):
    raw = jsonl(*records)
    others = {"sessions.json": json.dumps(INDEX).encode(), "kid.jsonl": jsonl(*child_records())}
    for session in openclaw.read_sessions(MemoryFile(raw, "mom.jsonl", others)):
        check_session(list(session.items), raw)
    for session in openclaw.read_sessions(database({"mom": records})):
        items = list(session.items)
        assert sum(account_of(items).values()) == len(records)


@given(mutated([INDEX]))
@settings(max_examples=60)
def test_a_damaged_index_never_raises(documents):
    for document in documents:
        source = MemoryFile(jsonl(*parent_records()), "mom.jsonl", {"sessions.json": json.dumps(document).encode()})
        assert [session.origin.id for session in openclaw.read_sessions(source)] == ["mom"]


def test_a_grown_transcript_gives_the_same_entries_and_new_ones():
    records = parent_records()
    whole = entries_of(by_id(folder("mom.jsonl"))["mom"])
    for size in range(1, len(records)):
        part = entries_of(by_id(folder("mom.jsonl", **{"mom.jsonl": jsonl(*records[:size])}))["mom"])
        assert part == whole[: len(part)]


# ── samples ──────────────────────────────────────────────────────────────────────────────────────

FILES = {name: EXPECTED[name] for name in EXPECTED if name.startswith("openclaw/") and name.endswith(".jsonl")} | {
    f"made-here/openclaw-2026.9.6/{name}": {"records": records, "tool_calls": 1, "tool_results": results}
    for name, records, results in (
        ("transcript-events.jsonl", 12, 1),
        ("crash-in-tool-transcript-events.jsonl", 6, 0),
    )
}


@needs_samples
@pytest.mark.parametrize("name", FILES)
def test_samples_have_the_counted_facts(name):
    source, facts = sample(name), FILES[name]
    [session] = openclaw.read_sessions(source)
    items = list(session.items)
    check_session(items, source.content())
    entries = [item.body for item in items]
    calls = sum(len(reply.tool_calls) for reply in messages(entries, Reply))
    results = messages(entries, ToolResult)
    assert sum(account_of(items).values()) == facts["records"]
    assert (calls, len(results)) == (facts["tool_calls"], facts["tool_results"])
    assert calls - len({(each.reply_id, each.tool_call_id) for each in results}) == facts.get(
        "dangling_calls", calls - len(results)
    )
    assert tree_of(entries).damage == []


@needs_samples
def test_the_transcripts_of_the_real_tool_are_recognised():
    for name in FILES:
        head = [json.loads(line) for line in sample(name).content().splitlines()[:20]]
        # The small fixture has no mark of OpenClaw: only its place says what it is.
        assert openclaw.is_openclaw(head) is ("small" not in name)


@needs_samples
@pytest.mark.parametrize(
    "name", [name for name in EXPECTED if name.startswith("openclaw/") and name.endswith(".sqlite")]
)
def test_sample_databases_have_the_counted_rows(name):
    connection = sqlite3.connect(f"file:{SAMPLES / name}?mode=ro&immutable=1", uri=True)
    source = SqliteSource(connection)
    assert openclaw.is_openclaw_database(source)
    sessions = list(openclaw.read_sessions(source))
    accounts = [account_of(session.items) for session in sessions]
    assert sum(sum(account.values()) for account in accounts) == EXPECTED[name]["rows"]["transcript_events"]
    assert all(session.title for session in sessions)
    connection.close()
