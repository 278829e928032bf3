"""Sessions of OpenCode (anomalyco/opencode): its database, its JSON file tree, its exports, and captured events.

What becomes what:
- The record of a session becomes a `custom` entry with what OpenCode never changes in it, and the title, folder, model
  and archive mark of the session.
- A user message becomes a prompt of its texts and media. Texts that OpenCode added for the model (`synthetic`) become
  notes, one each. Parts that the model never saw (`ignored` texts, references to files, agents, sub-tasks) are kept
  verbatim where they stand.
- An assistant message becomes one reply for each model step (versions of 2025 had several in one message). A tool part
  is a call and, if it is completed or failed, a result behind the reply; a pending or running one is an open call.
  `step-start` and `step-finish` are counted with the reply; patches, snapshots and retries are kept verbatim behind it.
  A failed reply is followed by `failed`, one that a person stopped by `cancelled`.
- A summary becomes a compaction. Its first kept entry is that of the message which the marker before it names. The
  marker itself, a user message with a `compaction` part, is kept verbatim.
- Messages hidden by a revert, or deleted by one and known from events, are a branch; the head is moved back before
  them. If the revert begins inside a message, the whole model step is hidden.
- A session with a parent is a sub-agent. The reply with the call that started it gets a `spawned` annotation, if the
  source holds the sub-agent too. Forks are copies with new ids and no reference: they are sessions of their own.
- Rows of the table `session_message` are read behind those of `message`; where both hold a message, the latter counts.

Fields that have no counterpart are in an entry behind their message, or behind the result of their tool (`fields.py`).

Records of the database are updated in place while OpenCode runs. What is imported of them is therefore final. Exports
and file trees are taken as they are: nothing more may ever come.
- A reply is open if it has not ended, no later reply follows it, and its texts say when they began (those before August
  2025 do not). It is taken only if it holds a tool call, without texts that still grow, calls whose input is incomplete
  and verbatim parts; `SkippedRecords` counts what is left out. Messages behind it, such as prompts that wait, are taken
  when it has ended: their place is behind all of it.
- The result of an open call arrives later as a new entry behind the same reply; results stand in the order in which
  the tools ended. The reply keeps its id and content; its usage and stop reason are known only from then on.
- If the message has more texts or calls by then, it is another reply: the key of a reply is made of the message and its
  parts. The shorter one stays as a branch under the same parent. The same holds for a prompt.
- A part that OpenCode adds to an older message becomes an entry under the same parent as the entry behind it.
- `head` and `session_archived` come last; in a later import they stand behind the new messages.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from wakelog.errors import UsageError
from wakelog.exchange.opencode.entries import session_items
from wakelog.exchange.opencode.records import TOOL, StoredSession, decoded, object_of, started_ms, text_of
from wakelog.exchange.opencode.sources import (
    DatabaseReader,
    TreeReader,
    event_sessions,
    events_in,
    export_session,
    listed_sessions,
)
from wakelog.exchange.records import BadRecord, SourceDatabase, SourceFile
from wakelog.exchange.sessions import ForeignSession, SessionOrigin

__all__ = ["TOOL", "is_opencode", "is_opencode_database", "read_sessions", "refusal"]

_EVENT_TYPE = re.compile(r"[a-z][a-z_-]*(\.[a-z0-9_-]+)+", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"(New|Child) session - \d{4}-\d\d-\d\dT[\d:.]+Z")
_SUBAGENT = re.compile(r"\(@([\w.-]+) subagent\)\Z")
_GO_DATABASE = (
    "a database of the Go program opencode-ai/opencode (now Crush), a different program than OpenCode "
    "(anomalyco/opencode); its format is not supported"
)


def is_opencode(head: Sequence[Any]) -> bool:
    """Return whether a file is of OpenCode, by its first JSON values.

    A whole document is one value: an export, the file of a session in the file tree, or an array of events. Events on
    lines, or the elements of the array, are several.
    """
    values = head[0] if len(head) == 1 and isinstance(head[0], list) else head
    if _is_message_list(values):
        return True
    if len(values) == 1 and isinstance(values[0], dict) and (_is_export(values[0]) or _is_session(values[0])):
        return True
    events = [value for value in values if _is_event(value)]
    return any(str(event["type"]).startswith(("session.", "message.")) for event in events) and len(events) == len(
        values
    )


def _is_export(value: dict[str, Any]) -> bool:
    messages = value.get("messages")
    if not isinstance(value.get("info"), dict) or not isinstance(messages, list):
        return False
    is_known = all(isinstance(each, dict) and "info" in each and "parts" in each for each in messages[:20])
    return is_known and isinstance(value["info"].get("id"), str)


def _is_message_list(values: Sequence[Any]) -> bool:
    """Return whether values are the messages of a session, as the server of OpenCode lists them."""
    return bool(values) and all(map(_is_listed_message, values))


def _is_listed_message(value: object) -> bool:
    match value:
        case {"info": {"id": str(), "sessionID": str(), "role": str()}, "parts": list()}:
            return True
    return False


def _is_session(value: dict[str, Any]) -> bool:
    """Return whether a value is the record of a session. Those before September 2025 do not say the folder."""
    is_named = all(isinstance(value.get(key), str) for key in ("id", "title"))
    time = object_of(value.get("time"))
    return is_named and all(isinstance(time.get(key), int) for key in ("created", "updated"))


def _is_event(value: object) -> bool:
    match value:
        case {"type": str(kind), "properties": dict() | list()}:
            return _EVENT_TYPE.fullmatch(kind) is not None
    return False


def is_opencode_database(source: SourceDatabase) -> bool:
    """Return whether a database is of OpenCode, by the columns of its tables."""
    needed = {"session": {"id"}, "message": {"id", "session_id", "data"}, "part": {"id", "message_id", "data"}}
    return all(columns <= set(source.columns(table)) for table, columns in needed.items())


def refusal(source: SourceDatabase) -> str | None:
    """Return what a database is that only has the name of one of OpenCode; None if it is not known to be another."""
    is_go = source.columns("goose_db_version") and source.columns("files") and source.columns("messages")
    return _GO_DATABASE if is_go and not is_opencode_database(source) else None


def read_sessions(source: SourceFile | SourceDatabase) -> Iterator[ForeignSession]:
    """Yield the sessions of a database; of an export, a session file of the file tree, or captured events.

    A session file must be opened so that the folders `message` and `part`, beside its `session`, can be read through
    it. `UsageError` if the source is none of these.
    """
    for session in _stored_sessions(source):
        yield _foreign(session, source.path)


def _stored_sessions(source: SourceFile | SourceDatabase) -> Iterator[StoredSession]:
    if not hasattr(source, "rows"):
        return _file_sessions(source)
    database = cast("SourceDatabase", source)
    if not is_opencode_database(database):
        raise UsageError(f"{database.path} is {refusal(database) or 'not a database of OpenCode'}")
    return DatabaseReader(database).sessions()


def _file_sessions(source: SourceFile) -> Iterator[StoredSession]:
    first = next((line.raw for line in source.lines() if line.raw is None or line.raw.strip()), None)
    if first is not None and not first.lstrip().startswith(b"[") and not _is_event_line(first):
        document = decoded(source.content(), source.path)
        if isinstance(document, BadRecord):
            raise UsageError(f"not a session of OpenCode: {document.reason}")
        if _is_export(document.value):
            yield export_session(document.value)
            return
        if _is_session(document.value):
            yield TreeReader(source, document.value).session()
            return
        raise UsageError(f"not a session of OpenCode: {source.path}")
    values = list(events_in(source)) if first is not None and first.lstrip().startswith(b"[") else []
    if _is_message_list(values):
        yield from listed_sessions([value for value in values if isinstance(value, dict)])
    else:
        yield from event_sessions(values or events_in(source))


def _is_event_line(raw: bytes) -> bool:
    found = decoded(raw, "")
    return not isinstance(found, BadRecord) and _is_event(found.value)


def _foreign(session: StoredSession, path: str) -> ForeignSession:
    info = session.info
    parent, model, title = text_of(info.get("parentID")), object_of(info.get("model")), text_of(info.get("title"))
    named = _SUBAGENT.search(title)
    agent = (text_of(info.get("agent")) or (named[1] if named else "")) if parent else ""
    return ForeignSession(
        origin=SessionOrigin(
            tool=TOOL,
            id=session.id,
            path=path,
            version=text_of(info.get("version")),
            parent=parent,
            parent_call=session.parent_call,
            is_subagent=bool(parent),
        ),
        items=session_items(session),
        started_ms=started_ms(info),
        agent=agent or TOOL,
        cwd=text_of(info.get("directory")) or session.cwd,
        title=None if not title or _PLACEHOLDER.fullmatch(title) else title,
        provider=text_of(model.get("providerID")) or None,
        model=text_of(model.get("id")) or text_of(model.get("modelID")) or None,
    )
