"""Sessions of Claude Code: `projects/<folder>/<session>.jsonl` with its sub-agents, and the JSON of the web API.

A first pass over a file (`Plan`) finds what must be known before entries are made: where each message ends, which
records belong to sub-agents inside the file, title, folder and version. A second pass makes the entries
(`entries.py`). Only ids and offsets are kept in between.

Sub-agents are sessions of their own. Their records are in `<session>/subagents/agent-<id>.jsonl`, in older versions in
`agent-<id>.jsonl` beside the session, and before that in the session's own file, marked `isSidechain`.

The id of a session is the name of its file if that is a UUID, as for the tool itself, else the first `sessionId` in it.
Records keep their uuids when a fork copies them, so their entries have the same ids in both sessions.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.errors import UsageError
from wakelog.exchange.claude_code.content import object_of, text_of
from wakelog.exchange.claude_code.entries import TOOL, Conversation
from wakelog.exchange.claude_code.plan import Facts, Plan, Sidechain
from wakelog.exchange.claude_code.records import Child, Surroundings
from wakelog.exchange.claude_code.sidechains import SidechainLines
from wakelog.exchange.records import JsonRecord, Record, SourceFile, SourceLine, decode_document, json_records
from wakelog.exchange.sessions import ForeignSession, ImportedItem, SessionOrigin, session_id
from wakelog.log.content import JsonObject

__all__ = ["TOOL", "is_claude_code", "read_sessions"]

IsKnown = Callable[[str], bool]
TAKES_KNOWN_ENTRIES = True
"""`read_sessions` must be told which entries are stored, so that a reply that has grown continues in a new one."""

_CHAINED_TYPES = frozenset({"user", "assistant", "system", "attachment", "progress", "summary"})
_UNCHAINED_TYPES = frozenset(
    {
        *("summary", "custom-title", "ai-title", "agent-name", "last-prompt", "queue-operation", "pr-link", "mode"),
        *(
            "file-history-snapshot",
            "file-history-delta",
            "permission-mode",
            "worktree-state",
            "relocated",
            "frame-link",
        ),
        *("bridge-session", "atis-latch", "tools-used", "cost-state"),
        *("api-request", "api-request-shape", "api-request-blob"),
    }
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_AGENT_FILE = re.compile(r"agent-([A-Za-z0-9_-]{1,80})\.jsonl")
_WORKFLOW_FILE = re.compile(r"(wf_[A-Za-z0-9_-]{1,80})\.json")


def is_claude_code(head: Iterable[Any]) -> bool:
    """Return whether the first records of a file (about 20 decoded values) are Claude Code's.

    A value that has `loglines` is the whole JSON of the web API.
    """
    return any(isinstance(value, dict) and _is_own(value) for value in head)


def _is_own(value: JsonObject) -> bool:
    if isinstance(value.get("loglines"), list):
        return True
    kind = value.get("type")
    if not isinstance(kind, str) or "payload" in value or "projectHash" in value:
        return False
    if kind in _CHAINED_TYPES and "uuid" in value and "parentUuid" in value:
        return True
    return kind in _UNCHAINED_TYPES and any(name in value for name in ("sessionId", "leafUuid", "messageId"))


def read_sessions(source: SourceFile, is_known: IsKnown | None = None) -> Iterator[ForeignSession]:
    """Yield the session of a file, and the sessions of its sub-agents.

    `is_known` says which entries an earlier import of the same file has made. With it, the entries of a file that has
    grown begin with those of the earlier import. Without it they may differ in one place: the last message of the
    earlier import, if further lines of the same message have been added to it since.
    """
    yield from _File(source, is_known).sessions()


# ── files ────────────────────────────────────────────────────────────────────────────────────────


class _File:
    """A file with a session, or with a sub-agent."""

    def __init__(self, source: SourceFile, is_known: IsKnown | None) -> None:
        self._source = source
        self._is_known = is_known
        self._name = _name_of(source)
        self._folder = self._name.removesuffix(".jsonl")
        self._web_lines = _web_lines(source)
        named = _AGENT_FILE.fullmatch(self._name)
        self.plan = Plan(self._records(), named[1] if named is not None else "")

        self._sidechain_lines = SidechainLines(self.plan.sidechains, self._lines)

    def _lines(self) -> Iterable[SourceLine]:
        return self._source.lines() if self._web_lines is None else self._web_lines

    def _records(self) -> Iterator[JsonRecord]:
        return json_records(self._lines())

    def sessions(self) -> Iterator[ForeignSession]:
        """Yield the session of the file and those of its sub-agents."""
        facts = self.plan.facts
        if facts.is_agent:
            yield self._session(_agent_id(facts), parent=facts.session, children={}, agent="subagent")
            return
        identity = self._folder if _UUID.fullmatch(self._folder) else facts.session
        identity = identity or f"{TOOL}-{facts.digest}"
        files = self._agent_files()
        children = {agent.id: agent.as_child() for agent in files}
        yield self._session(identity, parent="", children=children, agent=TOOL)
        for number, sidechain in enumerate(self.plan.sidechains):
            yield self._sidechain_session(number, sidechain, identity)
        sessions = {agent.id: agent.session for agent in files}
        for agent in files:
            parent = sessions.get(agent.parent, identity)
            yield agent.file.agent_session(agent, parent, children, self._spilled)

    def _session(
        self, identity: str, *, parent: str, children: Mapping[str, Child], agent: str, call: str = ""
    ) -> ForeignSession:
        around = Surroundings(
            session=identity,
            message_ends=self.plan.message_ends.ends,
            kept_heads=self.plan.kept_heads,
            children=children,
            sidechains={
                sidechain.offset: Child(session_id(TOOL, sidechain.id), sidechain.call)
                for sidechain in self.plan.sidechains
            },
            spilled=self._spilled,
            is_known=self._is_known,
        )
        return self._foreign_session(identity, self._main_items(around), parent=parent, call=call, agent=agent)

    def agent_session(
        self,
        agent: "_AgentFile",
        parent: str,
        children: Mapping[str, Child],
        spilled: Callable[[str], SourceFile | None],
    ) -> ForeignSession:
        """Return the session of a sub-agent's file, with what its parent knows about it."""
        around = Surroundings(
            session=agent.session,
            message_ends=self.plan.message_ends.ends,
            kept_heads=self.plan.kept_heads,
            children={name: child for name, child in children.items() if name != agent.id},
            spilled=spilled,
            is_known=self._is_known,
        )
        items = self._main_items(around)
        return self._foreign_session(agent.session, items, parent=parent, call=agent.call, agent=agent.type)

    def _main_items(self, around: Surroundings) -> Iterator[ImportedItem]:
        return Conversation(around).items(
            record
            for record in self._records()
            if not isinstance(record, Record)
            or record.offset in around.sidechains
            or self.plan.sidechain_of(record.value) is None
        )

    def _foreign_session(
        self, identity: str, items: Iterable[ImportedItem], *, parent: str, call: str, agent: str
    ) -> ForeignSession:
        facts = self.plan.facts
        return ForeignSession(
            origin=SessionOrigin(
                tool=TOOL,
                id=identity,
                path=self._source.path,
                version=facts.version,
                parent=parent,
                parent_call=call,
                is_subagent=bool(parent),
            ),
            items=items,
            started_ms=facts.started_ms,
            agent=agent,
            cwd=facts.cwd,
            title=self.plan.title,
            model=facts.model or None,
        )

    def _sidechain_session(self, number: int, sidechain: Sidechain, parent: str) -> ForeignSession:
        around = Surroundings(
            session=sidechain.id,
            message_ends=sidechain.message_ends.ends,
            kept_heads=self.plan.kept_heads,
            is_known=self._is_known,
        )
        records = (
            record
            for record in json_records(self._sidechain_lines.of(number))
            if isinstance(record, Record) and self.plan.sidechain_of(record.value) == number
        )
        return ForeignSession(
            origin=SessionOrigin(
                tool=TOOL,
                id=sidechain.id,
                path=self._source.path,
                version=self.plan.facts.version,
                parent=parent,
                parent_call=sidechain.call,
                is_subagent=True,
            ),
            items=Conversation(around).items(records),
            started_ms=sidechain.started_ms,
            agent="subagent",
            cwd=self.plan.facts.cwd,
        )

    def _spilled(self, name: str) -> SourceFile | None:
        return self._source.beside(f"{self._folder}/tool-results/{name}")

    def _agent_files(self) -> "list[_AgentFile]":
        """Return the files of the session's sub-agents, also of those that the session does not mention."""
        own = [(found, folder) for folder in self._agent_folders() for found in self._source.list_beside(folder)]
        named = sorted(self.plan.calls_by_agent)
        beside = [(self._source.beside(f"agent-{name}.jsonl"), "") for name in named if _is_agent_name(name)]
        files: dict[str, _AgentFile] = {}
        for found, folder in (*own, *beside):
            name = _AGENT_FILE.fullmatch(_name_of(found)) if found is not None else None
            if found is None or name is None or name[1] in files:
                continue
            meta = _json_of(self._source.beside(f"{folder}/agent-{name[1]}.meta.json") if folder else None)
            file = _File(found, self._is_known)
            files[name[1]] = _AgentFile(file, name[1], meta, self.plan.calls_by_agent)
        return list(files.values())

    def _agent_folders(self) -> Iterator[str]:
        """Yield the folders with files of sub-agents: that of the session, and those of its workflows."""
        yield f"{self._folder}/subagents"
        for found in self._source.list_beside(f"{self._folder}/workflows"):
            if (name := _WORKFLOW_FILE.fullmatch(_name_of(found))) is not None:
                yield f"{self._folder}/subagents/workflows/{name[1]}"


class _AgentFile:
    """The file of a sub-agent, and what its session knows about it."""

    def __init__(self, file: _File, name: str, meta: JsonObject, calls: Mapping[str, str]) -> None:
        self.file = file
        self.id = name
        facts = file.plan.facts
        self.session = _agent_id(facts) if facts.agent_id else f"{facts.session}:agent-{name}"
        self.type = text_of(meta.get("agentType")) or "subagent"
        self.parent = text_of(meta.get("parentAgentId"))
        self._meta_call = text_of(meta.get("toolUseId"))
        self.call = self._meta_call or calls.get(name, "")

    def as_child(self) -> Child:
        """Return the sub-agent for the entries of its parent, with the call only if the sub-agent's files name it."""
        return Child(session_id(TOOL, self.session), self._meta_call)


def _agent_id(facts: Facts) -> str:
    return f"{facts.session}:agent-{facts.agent_id}"


def _name_of(source: SourceFile) -> str:
    return re.split(r"[/\\]", source.path)[-1]


def _is_agent_name(name: str) -> bool:
    return _AGENT_FILE.fullmatch(f"agent-{name}.jsonl") is not None


def _json_of(source: SourceFile | None) -> JsonObject:
    """Return the object in a small file; an empty one if there is no such file or no object in it."""
    if source is None:
        return {}
    try:
        return object_of(msgspec.json.decode(source.content(1 << 20)))
    except (UsageError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _web_lines(source: SourceFile) -> Sequence[SourceLine] | None:
    """Return the records of the JSON of the web API as lines; None if the file is not such JSON."""
    first = next((line for line in source.lines() if line.raw is None or line.raw.strip()), None)
    if first is None or first.raw is None or not first.raw.lstrip().startswith(b"{"):
        return None
    document = decode_document(first.raw)
    if document is None:
        # Not a record on a line of its own: a document over many lines, or a damaged line.
        try:
            document = decode_document(source.content())
        except UsageError:
            return None
    found = object_of(document).get("loglines")
    if not isinstance(found, list):
        return None
    raw = [msgspec.json.encode(value) for value in found]
    return [SourceLine(at + 1, at, line, len(line)) for at, line in enumerate(raw)]
