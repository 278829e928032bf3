"""Sessions of Goose (aaif-goose/goose): its database, its exports, and the JSONL files of versions before 1.10.

What becomes what:
- The record of a session is kept verbatim as the first entry, with Goose's token counts: they are sums, which no
  message refers to. It gives the title, folder, provider and model. If a later import finds new messages, it is kept
  again behind them, as it is then. Rows of the usage ledger are kept verbatim.
- A user message becomes a prompt, or tool results, or both. One that only the model is shown becomes a note.
- An assistant message becomes a reply. Goose stores each tool call of a reply as a message of its own, with its result
  behind it, and nothing says which calls belong together: each is a reply.
- Messages for the display alone (notifications, questions for approval) are kept verbatim.
- What is left of a message, such as the structured form of a tool result, is in an entry `goose:fields` behind it.
- `entries.py` says how visibility and compactions are read, `records.py` what identifies a message.
- A sub-agent has a session of its own. Its parent is named by the session, else found by the result of the call.
- A fork is a copy without a reference. Its messages have the ids of those that it copied.
"""

import posixpath
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from wakelog.errors import UsageError
from wakelog.exchange.goose.records import TOOL, decoded, string_of, time_ms
from wakelog.exchange.goose.sources import (
    SUBAGENT,
    DatabaseReader,
    StoredSession,
    export_session,
    legacy_session,
    model_of,
    session_items,
)
from wakelog.exchange.records import BadRecord, Record, SourceDatabase, SourceFile, json_records
from wakelog.exchange.sessions import ForeignSession, SessionOrigin

__all__ = ["TOOL", "is_goose", "is_goose_database", "read_sessions"]

IsKnown = Callable[[str], bool]
TAKES_KNOWN_ENTRIES = True
"""`read_sessions` must be told which entries are stored, so that it keeps the record of a session with new messages."""

_PLACEHOLDERS = frozenset(("CLI Session", "New Chat", "New session", "ACP Session", "Imported session"))
"""Names that Goose gives a session until it has a better one."""


def is_goose(head: Sequence[Any]) -> bool:
    """Return whether a file is of Goose, by its first JSON values: an export, or the first lines of a legacy file."""
    if not head or not all(isinstance(value, dict) for value in head):
        return False
    if all(map(_is_export, head)):
        return True
    return _is_legacy_header(head[0]) or (any(map(_is_legacy_message, head)) and all(map(_may_be_legacy, head[1:])))


def _is_export(value: dict[str, Any]) -> bool:
    is_named = isinstance(value.get("working_dir"), str) and ("name" in value or "description" in value)
    return is_named and isinstance(value.get("conversation"), list | None) and "conversation" in value


def _is_legacy_header(value: dict[str, Any]) -> bool:
    return "description" in value and "message_count" in value and ("working_dir" in value or "total_tokens" in value)


def _is_legacy_message(value: dict[str, Any]) -> bool:
    match value:
        case {"role": "user" | "assistant", "created": int(), "content": [{"type": str()}, *_]}:
            return "type" not in value
    return False


def _may_be_legacy(value: dict[str, Any]) -> bool:
    return "role" in value and "created" in value


def is_goose_database(source: SourceDatabase) -> bool:
    """Return whether a database is of Goose, by the columns of its tables."""
    needed = {"sessions": {"id", "working_dir"}, "messages": {"session_id", "role", "content_json"}}
    is_known = all(columns <= set(source.columns(table)) for table, columns in needed.items())
    return is_known and "version" in source.columns("schema_version")


def read_sessions(source: SourceFile | SourceDatabase, is_known: IsKnown | None = None) -> Iterator[ForeignSession]:
    """Yield the sessions of a database; those of an export or a legacy file. `UsageError` if it is none of these.

    `is_known` says which entries an earlier import has made.
    """
    for session in _stored_sessions(source):
        yield _foreign(session, source.path, is_known or (lambda _: False))


def _stored_sessions(source: SourceFile | SourceDatabase) -> Iterator[StoredSession]:
    if not hasattr(source, "rows"):
        return _file_sessions(source)
    database = cast("SourceDatabase", source)
    if not is_goose_database(database):
        raise UsageError(f"{database.path} is not a database of Goose")
    return DatabaseReader(database).sessions()


def _file_sessions(source: SourceFile) -> Iterator[StoredSession]:
    """Yield the session of a file, or those of a list of exports; nothing if no record in it can be read."""
    name = posixpath.splitext(posixpath.basename(source.path.replace("\\", "/")))[0]
    documents = _documents(source)
    if documents and all(isinstance(each, dict) and _is_export(each) for each in documents):
        for at, document in enumerate(documents):
            yield export_session(document, name if at == 0 else f"{name}-{at + 1}")
        return
    header = next((found.value for found in json_records(source.lines()) if isinstance(found, Record)), None)
    if header is not None:
        yield legacy_session(header, json_records(source.lines()), name)
    elif documents:
        raise UsageError(f"{source.path} has no session of Goose in it")


def _documents(source: SourceFile) -> list[Any]:
    """Return the documents of a file: one over many lines or on the first line, or a list of them."""
    first = next((line.raw.strip() for line in source.lines() if line.raw is not None and line.raw.strip()), b"")
    document = decoded(first, source.path)
    if isinstance(document, BadRecord) and first[:1] in (b"{", b"["):
        try:
            document = decoded(source.content(), source.path)
        except UsageError:
            # A file of lines may be larger.
            return []
    if isinstance(document, BadRecord):
        return []
    return document if isinstance(document, list) else [document]


def _foreign(session: StoredSession, path: str, is_known: IsKnown) -> ForeignSession:
    info = session.info
    name = string_of(info.get("name")) or string_of(info.get("description"))
    is_placeholder = name in _PLACEHOLDERS and not info.get("user_set_name")
    is_subagent = info.get("session_type") == SUBAGENT
    return ForeignSession(
        origin=SessionOrigin(
            tool=TOOL,
            id=session.name,
            path=path,
            version=session.version,
            parent=session.parent if is_subagent else "",
            parent_call=session.parent_call,
            is_subagent=is_subagent,
        ),
        items=session_items(session, is_known),
        started_ms=time_ms(info.get("created_at")),
        agent=TOOL,
        cwd=string_of(info.get("working_dir")),
        title=None if is_placeholder else name.strip() or None,
        provider=string_of(info.get("provider_name")) or None,
        model=model_of(info) or None,
    )
