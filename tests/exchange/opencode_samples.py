"""Small sessions of OpenCode made in code: messages and parts, and the databases, trees and exports that hold them."""

import json
import sqlite3

from tests.exchange.samples import MemoryDatabase, MemoryFile, entries_of
from wakelog.exchange.opencode.reader import read_sessions
from wakelog.log.entry import Message

SESSION = {
    "id": "ses_1",
    "slug": "calm-river",
    "projectID": "proj",
    "directory": "/repo",
    "title": "A title",
    "version": "1.18.33",
    "time": {"created": 1_770_000_000_000, "updated": 1_770_000_000_000},
}
CHILD = {
    **SESSION,
    "id": "ses_2",
    "parentID": "ses_1",
    "title": "Search (@explore subagent)",
    "time": {"created": 1_770_000_002_000, "updated": 1_770_000_002_000},
}
_TOKENS = {"input": 100, "output": 27, "reasoning": 0, "cache": {"read": 50, "write": 5}}
_TABLES = (
    """session (id TEXT PRIMARY KEY, project_id, workspace_id, parent_id, slug, directory, title, version, revert,
    agent, model, time_created, time_updated, time_archived)""",
    "message (id TEXT PRIMARY KEY, session_id, time_created, time_updated, data)",
    "part (id TEXT PRIMARY KEY, message_id, session_id, time_created, time_updated, data)",
    "session_message (id TEXT PRIMARY KEY, session_id, type, seq, time_created, time_updated, data)",
    "event (id TEXT PRIMARY KEY, aggregate_id, seq, type, data)",
    "todo (session_id, content)",
)


def part(part_id, kind, **values):
    """Return a part."""
    return {"id": part_id, "type": kind, **values}


def text(part_id, words, **values):
    """Return a text part."""
    return part(part_id, "text", text=words, **values)


def tool(part_id, call_id, *, status="completed", **state):
    """Return a tool part."""
    times = {"start": 1_770_000_003_000, "end": 1_770_000_003_250}
    whole = {"status": status, "input": {"command": "ls"}, "time": times, **state}
    return part(part_id, "tool", callID=call_id, tool="bash", state=whole)


def reply_parts(message_id, *parts):
    """Return the parts of a finished model step."""
    return (part(f"{message_id}-start", "step-start"), *parts, part(f"{message_id}-finish", "step-finish"))


def _message(info, parts, session):
    filled = [{**each, "sessionID": session, "messageID": info["id"]} for each in parts]
    return {"info": {**info, "sessionID": session}, "parts": filled}


_ORDER = {"u1": 1, "k1": 1, "a1": 3, "a2": 5, "u2": 6, "a5": 7, "u3": 8, "a3": 9, "u9": 10, "a9": 11}


def _created(message_id):
    return 1_770_000_000_000 + 1_000 * _ORDER.get(message_id, 20)


def user(message_id, *parts, session="ses_1", **info):
    """Return a message of a person."""
    return _message(
        {"id": message_id, "role": "user", "time": {"created": _created(message_id)}, **info}, parts, session
    )


def assistant(message_id, *parts, session="ses_1", **info):
    """Return a message of the model."""
    whole = {
        "id": message_id,
        "role": "assistant",
        "modelID": "m-1",
        "providerID": "acme",
        "time": {"created": _created(message_id), "completed": _created(message_id) + 500},
        "tokens": _TOKENS,
        "cost": 0.0015,
        **info,
    }
    return _message(whole, parts, session)


def compaction(user_id, assistant_id, *, auto, tail=None, **info):
    """Return the two messages of a compaction."""
    marker = part(f"{user_id}-mark", "compaction", auto=auto, **({} if tail is None else {"tail_start_id": tail}))
    summary = assistant(
        assistant_id, text(f"{assistant_id}-text", "All of it"), summary=True, parentID=user_id, finish="stop", **info
    )
    return user(user_id, marker, **info), summary


def export(*messages, **info):
    """Return an export."""
    return json.dumps({"info": {**SESSION, **info}, "messages": messages}, indent=2).encode()


class OpenCodeDatabase(MemoryDatabase):
    """A database in memory that tests fill and damage."""

    def __init__(self):
        self.connection = sqlite3.connect(":memory:")
        for table in _TABLES:
            self.connection.execute(f"CREATE TABLE {table}")
        super().__init__(self.connection)
        self._messages = []

    def execute(self, statement, values=()):
        return self.connection.execute(statement, values)

    def insert(self, info, *messages):
        """Insert a session with its messages."""
        time, revert = info["time"], info.get("revert")
        values = (info["id"], info["projectID"], info.get("parentID"), info["slug"], info["directory"], info["title"])
        self.execute(
            "INSERT INTO session (id, project_id, parent_id, slug, directory, title, version, revert, time_created)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, info["version"], None if revert is None else json.dumps(revert), time["created"]),
        )
        self.insert_rows(messages, info["id"])

    def insert_rows(self, messages, session="ses_1"):
        """Insert messages and parts as rows: ids are columns and not in the data."""
        self._messages.extend(messages)
        for at, message in enumerate(messages):
            info = dict(message["info"])
            created = info["time"].get("created") if isinstance(info.get("time"), dict) else at
            created = created if isinstance(created, int) and abs(created) < 1 << 62 else at
            message_id = info.pop("id", None)
            message_id = message_id if isinstance(message_id, str) else f"row{at}"
            info.pop("sessionID", None)
            self.execute(
                "INSERT OR IGNORE INTO message VALUES (?, ?, ?, 0, ?)", (message_id, session, created, json.dumps(info))
            )
            for place, each in enumerate(message["parts"]):
                data = {key: value for key, value in each.items() if key not in ("id", "sessionID", "messageID")}
                part_id = each.get("id") if isinstance(each.get("id"), str) else f"{message_id}-{place}"
                row = (part_id, message_id, session, json.dumps(data))
                self.execute("INSERT OR IGNORE INTO part VALUES (?, ?, ?, 0, 0, ?)", row)

    def insert_new(self, kind, **data):
        """Insert a row of the newer table."""
        (seq,) = self.execute("SELECT count(*) FROM session_message").fetchone()
        data = {"time": {"created": 1_770_000_001_000 + seq}, **data}
        row = (f"msg_{seq}", SESSION["id"], kind, seq, data["time"]["created"], json.dumps(data))
        self.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, 0, ?)", row)

    def log_events(self):
        """Write the event log that leads to the rows."""
        events = [("session.created.1", {"sessionID": SESSION["id"], "info": SESSION})]
        for message in self._messages:
            events.append(("message.updated.1", {"sessionID": SESSION["id"], "info": message["info"]}))
            events += [
                ("message.part.updated.1", {"sessionID": SESSION["id"], "part": each}) for each in message["parts"]
            ]
        for seq, (kind, data) in enumerate(events):
            self.execute(
                "INSERT INTO event VALUES (?, ?, ?, ?, ?)", (f"evt_{seq}", SESSION["id"], seq, kind, json.dumps(data))
            )

    def count_of(self, session):
        """Return the number of rows of a session."""
        tables = ("message", "part", "session_message", "todo")
        counts = [
            self.execute(f"SELECT count(*) FROM {table} WHERE session_id = ?", (session,)).fetchone()[0]
            for table in tables
        ]
        return sum(counts) + self.execute("SELECT count(*) FROM session WHERE id = ?", (session,)).fetchone()[0]


def database(info=None, *messages):
    """Return a database with one session, or without any."""
    found = OpenCodeDatabase()
    if info is not None:
        found.insert(info, *messages)
    return found


def tree(info, *messages, others=(), is_early=False):
    """Return the session file of a file tree; `is_early` is the layout before the first migration."""
    files = {}
    for owner, owned in ((info, messages), *others):
        if owner is not info:
            files[f"{owner['id']}.json"] = json.dumps(owner).encode()
        for message in owned:
            name, session = message["info"]["id"], owner["id"]
            up = "../" if is_early else "../../"
            folder = f"{up}part/{session}/{name}" if is_early else f"{up}part/{name}"
            files[f"{up}message/{session}/{name}.json"] = json.dumps(message["info"], indent=2).encode()
            for place, each in enumerate(message["parts"]):
                files[f"{folder}/{place:03}.json"] = json.dumps(each, indent=2).encode()
    return MemoryFile(json.dumps(info, indent=2).encode(), f"/data/session/proj/{info['id']}.json", files)


def only(source):
    """Return the one session of a source."""
    (session,) = read_sessions(source)
    return session


def messages_of(session):
    """Return the messages of a session."""
    return [body.message for body in entries_of(session) if isinstance(body, Message)]


def types_of(entries):
    """Return the class names of messages and of other entries."""
    return [type(body.message if isinstance(body, Message) else body).__name__ for body in entries]


def turn():
    """Return a prompt, a reply with a tool call, and a reply to its result."""
    return (
        user("u1", text("p1", "List the files")),
        assistant("a1", *reply_parts("a1", text("p2", "Sure"), tool("p3", "c1", output="a.txt")), finish="tool-calls"),
        assistant("a2", *reply_parts("a2", text("p4", "One file")), finish="stop"),
    )
