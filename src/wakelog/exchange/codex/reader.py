"""Reader of Codex sessions: rollouts of every version, the index of names, and the state database.

`lines.py` reads the lines of all versions in one form, `items.py` maps response items to parts, and
`session.py` makes entries of the lines; its first lines say how replies are put together, which ids entries have,
and what may change when a file has grown.

- A file is one session; a sub-agent has a file of its own and names its parent. A `Spawned` entry in the parent names
  the session of the child, whose id derives from that of its thread.
- A fork that copied its history begins with its own header and goes on with that of its ancestor; copied items have the
  same ids in both. A fork by `history_base` begins with the entries of the file that it names.
- A rollback moves the head before the dropped prompts; these stay as a branch.
- A compaction of Codex keeps nothing before it. The history that replaces it follows as notes and replies; the summary
  is then the first of them, not the last. Without such a history Codex also repeats the prompts before the compaction
  to the model; here these are before the compaction only. If the history is a summary and the last items before the
  compaction, as `writer.py` writes it, the entries of these items are kept, and nothing follows.
- A reverted thread has two files with the same id: two sources of one session.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from wakelog.errors import UsageError
from wakelog.exchange.codex.items import TOOL, text_of
from wakelog.exchange.codex.lines import (
    Header,
    LineItem,
    document_lines,
    find_header,
    is_document,
    read_document,
    session_lines,
)
from wakelog.exchange.codex.session import Transcript
from wakelog.exchange.records import Record, SourceDatabase, SourceFile, json_records
from wakelog.exchange.sessions import ForeignSession, SessionOrigin
from wakelog.log.content import JsonObject
from wakelog.log.timestamps import iso_timestamp

__all__ = [
    "TOOL",
    "is_codex",
    "is_state_database",
    "read_sessions",
    "titles_from_index",
    "titles_from_state",
    "why_refused",
]

TAKES_KNOWN_ENTRIES = True
"""`read_sessions` must be told which entries are stored, so that a reply that has grown continues in a new one."""

_KINDS = frozenset(
    {
        "compacted",
        "event_msg",
        "inter_agent_communication",
        "inter_agent_communication_metadata",
        "response_item",
        "security_risk_score",
        "session_meta",
        "token_usage_record",
        "turn_context",
        "world_state",
    }
)
_HISTORY_KEYS = {"session_id", "ts", "text"}
_HEAD_RECORDS = 20


# ── detection ────────────────────────────────────────────────────────────────────────────────────


def is_codex(head: Sequence[Any]) -> bool:
    """Return whether records, the first 20 or so of a file, are those of a Codex session of any version."""
    return any(_is_codex_record(record) for record in head if isinstance(record, dict))


def _is_codex_record(record: JsonObject) -> bool:
    match record:
        case {"type": str(kind), "payload": dict()}:
            return kind in _KINDS
        case {"id": str(), "timestamp": str(), "instructions": _}:
            return "type" not in record
        case {"record_type": "state"}:
            return True
    return is_document(record) and isinstance(record["session"].get("id"), str)


def why_refused(head: Sequence[Any]) -> str | None:
    """Return why a file of Codex with these first records is not read; None if it is not such a file."""
    records = [record for record in head if isinstance(record, dict)]
    if records and all(record.keys() >= _HISTORY_KEYS and "type" not in record for record in records):
        return "this is history.jsonl of Codex, a list of prompts: not a transcript"
    return None


def is_state_database(tables: Mapping[str, Sequence[str]]) -> bool:
    """Return whether a database, given as its tables and their columns, is the index of Codex: not a transcript."""
    return {"id", "rollout_path"} <= set(tables.get("threads", ()))


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────


def read_sessions(source: SourceFile, is_known: Callable[[str], bool] | None = None) -> Iterator[ForeignSession]:
    """Yield the session of a rollout; `UsageError` for `history.jsonl`, which is not a transcript.

    `is_known` says which entries an earlier import of the same session has made: a reply ends where it ended then.
    """
    if reason := why_refused(_head(source)):
        raise UsageError(f"{source.path}: {reason}", hint="import the rollouts in the folder sessions")
    document = read_document(source)
    header = find_header(source, document)
    lines: Iterable[LineItem] = session_lines(source, header) if document is None else document_lines(document, header)
    meta, title, model = header.meta, None, None
    if document is None:
        title, model = _title_and_model(source, header)
    origin = _origin(source, header)
    yield ForeignSession(
        origin=origin,
        items=Transcript(header.id, iso_timestamp(header.started_ms), is_known).read(lines),
        started_ms=header.started_ms,
        agent=_agent(meta) if origin.is_subagent else TOOL,
        cwd=text_of(meta.get("cwd")),
        title=title,
        provider=text_of(meta.get("model_provider")) or None,
        model=model,
    )


def _head(source: SourceFile) -> list[Any]:
    head: list[Any] = []
    for record in json_records(source.lines()):
        if isinstance(record, Record):
            head.append(record.value)
        if len(head) == _HEAD_RECORDS:
            break
    return head


def _origin(source: SourceFile, header: Header) -> SessionOrigin:
    meta = header.meta
    given = meta.get("source")
    is_subagent = isinstance(given, dict) and "subagent" in given
    return SessionOrigin(
        tool=TOOL,
        id=header.id,
        path=source.path,
        version=text_of(meta.get("cli_version")),
        parent=_parent_thread(meta) if is_subagent else text_of(meta.get("forked_from_id")),
        is_subagent=is_subagent,
    )


def _parent_thread(meta: JsonObject) -> str:
    match meta:
        case {"parent_thread_id": str(parent)} if parent:
            return parent
        case {"source": {"subagent": {"thread_spawn": {"parent_thread_id": str(parent)}}}}:
            return parent
    return text_of(meta.get("forked_from_id"))


def _agent(meta: JsonObject) -> str:
    """Return the name of a sub-agent: its nickname, its role, or its kind."""
    inner = meta["source"]["subagent"]
    spawn = inner.get("thread_spawn") if isinstance(inner, dict) else None
    for named in (meta, spawn):
        for key in ("agent_nickname", "agent_role", "agent_type"):
            if isinstance(named, dict) and text_of(named.get(key)):
                return text_of(named[key])
    return text_of(inner) or TOOL


def _title_and_model(source: SourceFile, header: Header) -> tuple[str | None, str | None]:
    """Return the last name of a thread and its first model. Only the lines that may hold them are decoded."""
    title: str | None = None
    model: str | None = None
    for line in source.lines():
        raw = line.raw or b""
        if not (b"thread_name_updated" in raw or (model is None and b"turn_context" in raw)):
            continue
        for record in json_records((line,)):
            match record.value if isinstance(record, Record) else None:
                case {
                    "type": "event_msg",
                    "payload": {"type": "thread_name_updated", "thread_name": str(name)} as event,
                }:
                    title = name if name and event.get("thread_id") == header.id else title
                case {"type": "turn_context", "payload": {"model": str(name)}}:
                    model = model or name or None
    return title, model


# ── names beside the rollouts ────────────────────────────────────────────────────────────────────


def titles_from_index(records: Iterable[Any]) -> dict[str, str]:
    """Return the names of threads by id, from the records of `session_index.jsonl`; the newest counts."""
    titles: dict[str, str] = {}
    for record in records:
        match record:
            case {"id": str(thread_id), "thread_name": str(name)}:
                titles[thread_id] = name
    return {thread_id: name for thread_id, name in titles.items() if name}


def titles_from_state(database: SourceDatabase) -> dict[str, str]:
    """Return the titles of the threads in `state_N.sqlite` that were given one, which is not their first prompt."""
    if "id" not in database.columns("threads"):
        return {}
    columns = ("id", "name", "title", "first_user_message")
    return {
        thread_id: given
        for thread_id, name, title, first in database.rows("threads", columns, order=("id",))
        if isinstance(thread_id, str) and (given := _given_title(name, title, first))
    }


def _given_title(name: Any, title: Any, first_message: Any) -> str:
    return text_of(name) or (text_of(title) if title != first_message else "")
