"""ST-9: the database of an agent of OpenClaw: windows, sub-agents, compressed events and archives."""

import json
import sqlite3
import sys

import pytest
import zstandard

from tests.exchange.openclaw_records import (
    CHILD,
    by_id,
    child_records,
    database,
    folder,
    parent_records,
)
from tests.exchange.pi_records import (
    Chain,
    check_entries,
    header,
    stamp,
)
from tests.exchange.samples import MemoryDatabase, account_of, entries_of, jsonl
from wakelog.errors import UsageError
from wakelog.exchange import openclaw, openclaw_archives
from wakelog.exchange.sessions import SkippedRecords

# ── the database ─────────────────────────────────────────────────────────────────────────────────


def family():
    return database(
        {
            "mom": parent_records(),
            "kid": child_records(),
            "next": Chain(header(id="next")).say("u", "user", "x").records,
        },
        [("agent:main:main", "mom", {"label": "Mother"}), (CHILD, "kid", {"spawned_by": "agent:main:main"})],
        [
            ("mom", {"key": "agent:main:main", "reason": "initial"}),
            ("next", {"key": "agent:main:main", "previous": "mom", "reason": "fork"}),
        ],
    )


def test_the_database_gives_the_entries_of_the_files():
    """A session that was imported from files is the same session after OpenClaw moved it into its database."""
    stored, files = by_id(family()), by_id(folder("sessions.json"))
    for name in ("mom", "kid"):
        assert stored[name].started_ms == files[name].started_ms
        assert entries_of(stored[name]) == entries_of(files[name])
    assert (stored["mom"].title, stored["kid"].origin.parent_call) == ("Mother", "c1")
    assert stored["next"].origin.parent == "mom"


def test_rows_that_are_no_records_are_reported():
    rows = [header(id="a"), "{", "", None, "[1]", {"type": "message", "message": {"role": "user", "content": "x"}}]
    [session] = openclaw.read_sessions(database({"a": rows}))
    assert account_of(session.items) == {"mapped": 1, "verbatim": 1, "skipped": 0, "bad": 4}


def test_a_transcript_without_a_header():
    rows = [{"type": "message", "role": "user", "text": "x"}, {"type": "compaction", "summary": "S"}]
    [session] = openclaw.read_sessions(database({"a": rows}, (), [("a", {"started": 1_700_000_000_000})]))
    assert (session.origin.id, session.started_ms) == ("a", 1_700_000_000_000)
    entries = entries_of(session)
    check_entries(entries)
    assert entries[0].timestamp == stamp(0)


def test_a_window_without_records_is_no_session():
    assert list(openclaw.read_sessions(database({"a": []}))) == []


def test_a_sub_agent_that_was_continued_belongs_to_the_session_that_started_it():
    kids = {name: Chain(header(id=name, version=4)).say("u1", "user", "look").records for name in ("kid", "kid2")}
    source = database(
        {"mom": parent_records(), **kids},
        [("agent:main:main", "mom", {}), (CHILD, "kid2", {"spawned_by": "agent:main:main"})],
        [
            ("mom", {"key": "agent:main:main"}),
            ("kid", {"key": CHILD, "reason": "initial"}),
            ("kid2", {"key": CHILD, "previous": "kid", "reason": "compaction"}),
        ],
    )
    origins = {name: session.origin for name, session in by_id(source).items()}
    assert [(origins[name].parent, origins[name].parent_call) for name in kids] == [("mom", "c1")] * 2


def test_records_without_a_window_are_a_session():
    source = database({"mom": parent_records()}, (), [("mom", {"has_row": False})])
    assert len(entries_of(by_id(source)["mom"])) == len(entries_of(by_id(folder("mom.jsonl"))["mom"])) - 1


def test_a_parent_is_searched_once_for_all_its_sub_agents(monkeypatch):
    searched = []
    real = openclaw._spawned_in

    def counted(transcript):
        searched.append(transcript)
        return real(transcript)

    monkeypatch.setattr(openclaw, "_spawned_in", counted)
    keys = [f"agent:main:subagent:{number}" for number in range(30)]
    kids = {f"kid{at}": Chain(header(id=f"kid{at}", version=4)).records for at in range(len(keys))}
    nodes = [(key, f"kid{at}", {"spawned_by": "agent:main:main"}) for at, key in enumerate(keys)]
    source = database({"mom": parent_records(), **kids}, [("agent:main:main", "mom", {}), *nodes])
    assert len(by_id(source)) == 31
    assert len(searched) == 1


def test_compressed_events_are_read():
    records = parent_records()
    small = [*records[:-1], zstandard.compress(json.dumps(records[-1]).encode())]
    assert entries_of(by_id(database({"mom": small}))["mom"]) == entries_of(by_id(database({"mom": records}))["mom"])
    [session] = openclaw.read_sessions(database({"mom": [*records, b"no zstd"]}))
    assert account_of(session.items)["bad"] == 1


# ── archives of the database ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("encoding", ["zstd", "identity"])
def test_an_archive_is_the_session_that_it_was(encoding):
    raw = jsonl(*parent_records())
    content = zstandard.compress(raw) if encoding == "zstd" else raw
    archived = by_id(database({}, archives=[("mom", encoding, content)]))
    assert entries_of(archived["mom"]) == entries_of(by_id(database({"mom": parent_records()}))["mom"])


def test_an_archive_of_a_session_with_records_is_not_read_again():
    raw = jsonl(*parent_records())
    sessions = list(openclaw.read_sessions(database({"mom": parent_records()}, archives=[("mom", "identity", raw)])))
    assert [session.origin.id for session in sessions] == ["mom"]


def test_archives_that_cannot_be_read_are_counted_with_the_first_session(monkeypatch):
    raw = zstandard.compress(jsonl(*parent_records()))
    archives = [("a", "zstd", b"no zstd"), ("b", "zstd", raw), ("c", "identity", None)]
    source = database({"kid": child_records()}, archives=archives)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    [session] = openclaw.read_sessions(source)
    skipped = [item for item in session.items if isinstance(item, SkippedRecords)]
    assert [(item.kind, item.count, "extra `exchange`" in item.reason) for item in skipped] == [
        ("archive", 1, True),
        ("archive", 1, True),
        ("archive", 1, False),
    ]
    with pytest.raises(UsageError, match="extra `exchange`"):
        list(openclaw.read_sessions(database({}, archives=archives)))


def test_sessions_in_cold_storage_are_counted():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE session_windows (session_id TEXT)")
    connection.execute("CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT)")
    connection.execute("CREATE TABLE session_transcript_cold_archives (session_id TEXT, event_count INTEGER)")
    connection.execute("INSERT INTO session_windows VALUES ('kid')")
    rows = [("kid", at, json.dumps(record)) for at, record in enumerate(child_records())]
    connection.executemany("INSERT INTO transcript_events VALUES (?, ?, ?)", rows)
    connection.execute("INSERT INTO session_transcript_cold_archives VALUES ('old', 41)")
    [session] = openclaw.read_sessions(MemoryDatabase(connection))
    assert [item.count for item in session.items if isinstance(item, SkippedRecords)] == [41]


def test_an_archive_that_grows_too_large_is_cut(monkeypatch):
    monkeypatch.setattr(openclaw_archives, "_INFLATED_MAX", 3_000)
    chain = Chain(header(id="big", version=4)).say("u1", "user", "A")
    for number in range(50):
        chain.say(f"x{number}", "user", "B" * 100)
    raw = zstandard.compress(jsonl(*chain.records))
    [session] = openclaw.read_sessions(database({}, archives=[("big", "zstd", raw)]))
    account = account_of(session.items)
    assert (account["bad"], 1 < account["mapped"] < 50) == (1, True)


@pytest.mark.parametrize("size", [50, 100])
def test_a_torn_archive_gives_what_is_in_it(size):
    raw = jsonl(*parent_records())
    blob = zstandard.compress(raw)
    sessions = database({}, archives=[("mom", "zstd", blob[: len(blob) * size // 100]), ("x", "identity", raw[:-9])])
    for session in openclaw.read_sessions(sessions):
        assert sum(account_of(session.items).values()) >= 1


def test_a_long_line_of_an_archive_is_reported(monkeypatch):
    monkeypatch.setattr(openclaw_archives, "LINE_BYTES_MAX", 400)
    raw = jsonl(*Chain(header(id="a", version=4)).say("u1", "user", "B" * 900).say("u2", "user", "C").records)
    [session] = openclaw.read_sessions(database({}, archives=[("a", "identity", raw)]))
    assert account_of(session.items) == {"mapped": 1, "verbatim": 1, "skipped": 0, "bad": 1}
