"""Sessions of OpenClaw for tests: a parent with a sub-agent, in a folder and in a database."""

import json
import sqlite3

from tests.exchange.pi_records import Chain, call, header, stamp
from tests.exchange.samples import MemoryFile, jsonl
from wakelog.exchange import openclaw

CHILD = "agent:main:subagent:0001"


class SqliteSource:
    """A database as a reader gets it."""

    path = "openclaw-agent.sqlite"

    def __init__(self, connection):
        self._connection = connection

    def columns(self, table):
        return tuple(row[1] for row in self._connection.execute(f'PRAGMA table_info("{table}")'))

    def rows(self, table, columns, *, where=None, order=()):
        present = self.columns(table)
        if not present:
            return
        wanted = ", ".join(f'"{name}"' if name in present else "NULL" for name in columns)
        asked = " AND ".join(f'"{name}" = ?' for name in where or {})
        sql = f'SELECT {wanted} FROM "{table}"' + (f" WHERE {asked}" if asked else "")
        sql += f" ORDER BY {', '.join(order)}" if order else ""
        yield from self._connection.execute(sql, tuple((where or {}).values()))


def database(transcripts, nodes=(), windows=(), archives=()):
    """Return a database with transcripts by session, nodes (key, session, fields), windows (session, fields), archives.

    An archive is (session, encoding, content). A transcript whose fields say `has_row=False` has no window.
    """
    connection = sqlite3.connect(":memory:")
    connection.executescript(
        """
        CREATE TABLE session_nodes (session_key, current_session_id, entry_json, label, display_name, spawned_by);
        CREATE TABLE session_windows (session_id, session_key, previous_session_id, reason, created_at, started_at);
        CREATE TABLE transcript_events (session_id, seq, event_json, event_zstd, created_at);
        CREATE TABLE session_transcript_archives (session_id, generation, encoding, archive_blob, created_at);
        """
    )
    for key, session, fields in nodes:
        row = (key, session, "{}", fields.get("label"), None, fields.get("spawned_by"))
        connection.execute("INSERT INTO session_nodes VALUES (?, ?, ?, ?, ?, ?)", row)
    known = dict(windows)
    for number, (session, records) in enumerate(transcripts.items()):
        fields = known.get(session, {})
        window = (
            session,
            fields.get("key"),
            fields.get("previous"),
            fields.get("reason"),
            number,
            fields.get("started"),
        )
        if fields.get("has_row", True):
            connection.execute("INSERT INTO session_windows VALUES (?, ?, ?, ?, ?, ?)", window)
        for seq, record in enumerate(records):
            event = record if isinstance(record, str | bytes | None) else json.dumps(record)
            columns = (None, event) if isinstance(event, bytes) else (event, None)
            stored = (session, seq, *columns, 1_772_359_200_000 + seq)
            connection.execute("INSERT INTO transcript_events VALUES (?, ?, ?, ?, ?)", stored)
    for number, (session, encoding, content) in enumerate(archives):
        archive = (session, f"g{number}", encoding, content, number)
        connection.execute("INSERT INTO session_transcript_archives VALUES (?, ?, ?, ?, ?)", archive)
    return SqliteSource(connection)


def parent_records():
    chain = Chain(header(id="mom", version=4)).say("u1", "user", "Delegate")
    chain.say("r1", "assistant", [call("c1", "sessions_spawn", task="look")])
    started = {"status": "accepted", "childSessionKey": CHILD, "runId": "x"}
    chain.say("t1", "toolResult", json.dumps(started), toolCallId="c1", toolName="sessions_spawn", details=started)
    chain.say("r2", "assistant", "Started")
    return chain.records


def child_records():
    return Chain(header(id="kid", version=4, timestamp=stamp(30))).say("u1", "user", "look").records


INDEX = {
    "agent:main:main": {"sessionId": "mom", "updatedAt": 1, "label": "Mother"},
    CHILD: {"sessionId": "kid", "updatedAt": 2, "spawnedBy": "agent:main:main", "displayName": "Kid"},
}


def folder(name, **others):
    """Return a file of a folder with a parent, a child and an index."""
    files = {
        "sessions.json": json.dumps(INDEX, indent=2).encode(),
        "mom.jsonl": jsonl(*parent_records()),
        "kid.jsonl": jsonl(*child_records()),
        **others,
    }
    return MemoryFile(files.pop(name), f"/h/agents/main/sessions/{name}", files)


def by_id(source):
    return {session.origin.id: session for session in openclaw.read_sessions(source)}
