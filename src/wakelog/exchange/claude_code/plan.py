"""The first pass over a file of Claude Code: facts about the session, the ends of its messages, its sub-agents.

A line of a message does not say whether another one follows, and a sub-agent inside a file is known only by the uuids
of its records. Only ids, offsets and line numbers are kept.
"""

from collections.abc import Iterable

from wakelog.exchange.claude_code.content import blocks_of, joined_text, object_of, text_of, user_parts
from wakelog.exchange.claude_code.records import Titles, digest_of_record, is_reply_line, kept_head, message_id_of
from wakelog.exchange.records import JsonRecord, Record
from wakelog.exchange.sessions import timestamp_of
from wakelog.log.content import JsonObject
from wakelog.log.timestamps import parse_ms

_AGENT_TOOLS = ("Task", "Agent")
# Records between two lines of a message are held back. Lines that are further apart become two replies.
_HELD_BYTES = 16 * 1024 * 1024


class MessageEnds:
    """Where the messages of one conversation end: the offset of the last line, by that of the first."""

    def __init__(self) -> None:
        self.ends: dict[int, int] = {}
        self._message = ""
        self._first = 0

    def add(self, record: Record) -> None:
        """Take note of the next record of the conversation."""
        value = record.value
        if is_reply_line(value):
            message = message_id_of(value)
            if message and message == self._message and record.offset - self._first <= _HELD_BYTES:
                self.ends[self._first] = record.offset
            else:
                self._message, self._first = message, record.offset
        elif value.get("subtype") == "compact_boundary" or value.get("isCompactSummary") is True:
            self._message = ""


class Sidechain:
    """A sub-agent whose records are in the file of its session."""

    def __init__(self, root: Record, timestamp: str, call: str) -> None:
        self.offset = root.offset
        self.id = f"{text_of(root.value.get('sessionId'))}:sidechain-{root.value['uuid']}"
        self.started_ms = parse_ms(timestamp) or 0
        self.call = call
        self.lines: set[int] = set()
        self.size = 0
        """About how many bytes of the file it has."""
        self.message_ends = MessageEnds()


class Facts:
    """What the records say about their session: its id, beginning, folder, version, model, agent."""

    def __init__(self, agent: str = "") -> None:
        self.session = self.cwd = self.version = self.model = self.timestamp = self.digest = ""
        self.agent_id = agent
        self.is_agent: bool | None = True if agent else None
        self._has_uuid = False

    def add(self, value: JsonObject) -> None:
        """Take note of the next record; of each fact the first value counts."""
        self.digest = self.digest or digest_of_record(value)
        self.session = self.session or text_of(value.get("sessionId"))
        self.timestamp = self.timestamp or timestamp_of(value.get("timestamp"))
        self.cwd = self.cwd or text_of(value.get("cwd"))
        self.version = self.version or text_of(value.get("version"))
        if not self.model and is_reply_line(value):
            model = text_of(value["message"].get("model"))
            self.model = "" if model.startswith("<") else model
        if not self._has_uuid and isinstance(value.get("uuid"), str):
            self._has_uuid = True
            self.agent_id = text_of(value.get("agentId")) or self.agent_id
            self.is_agent = self.is_agent or (value.get("isSidechain") is True and bool(self.agent_id))

    @property
    def started_ms(self) -> int:
        """When the session began; 0 if no record has a time."""
        return parse_ms(self.timestamp) or 0


class Plan:
    """What the first pass over a file finds. `agent` is the name of the sub-agent whose file it is, if it is one."""

    def __init__(self, records: Iterable[JsonRecord], agent: str = "") -> None:
        self.facts = Facts(agent)
        self.message_ends = MessageEnds()
        self.sidechains: list[Sidechain] = []
        self.calls_by_agent: dict[str, str] = {}
        """The tool calls that started sub-agents, by agent id."""
        self.kept_heads: set[str] = set()
        """The uuids of the first records that compactions keep."""
        self._sidechain_of: dict[int, int] = {}
        self._calls_by_task: dict[int, str] = {}
        self._last_offset = 0
        self._last_sidechain: Sidechain | None = None
        self._titles = Titles()
        self._summaries: dict[str, str] = {}
        self._uuids: set[int] = set()
        for record in records:
            self._measure(record.offset)
            if isinstance(record, Record):
                self._add(record)
        own = [title for leaf, title in self._summaries.items() if title and hash(leaf) in self._uuids]
        self._uuids.clear()
        self.title = self._titles.title or (own[-1] if own else None)

    def sidechain_of(self, value: JsonObject) -> int | None:
        """Return the number of the sidechain that a record belongs to; None if it is of the main conversation."""
        uuid = value.get("uuid")
        is_marked = value.get("isSidechain") is True and isinstance(uuid, str)
        return self._sidechain_of.get(hash(uuid)) if is_marked else None

    def _add(self, record: Record) -> None:
        value = record.value
        self.facts.add(value)
        self._add_title(value)
        self._add_calls(value)
        if "compactMetadata" in value:
            self.kept_heads.add(kept_head(object_of(value.get("compactMetadata"))))
        number = None if self.facts.is_agent is not False else self._sidechain(record)
        if number is None:
            self.message_ends.add(record)
        else:
            self._last_sidechain = self.sidechains[number]
            self._last_sidechain.lines.add(record.line)
            self._last_sidechain.message_ends.add(record)

    def _measure(self, offset: int) -> None:
        """Add what the record before this place took to the size of its sidechain."""
        if self._last_sidechain is not None:
            self._last_sidechain.size += offset - self._last_offset
        self._last_sidechain, self._last_offset = None, offset

    def _add_title(self, value: JsonObject) -> None:
        if value.get("type") == "summary" and "message" not in value:
            self._summaries[text_of(value.get("leafUuid"))] = text_of(value.get("summary"))
        elif isinstance(value.get("uuid"), str):
            self._uuids.add(hash(value["uuid"]))
        else:
            self._titles.changed_by(value, lambda _: False)

    def _add_calls(self, value: JsonObject) -> None:
        """Take note of the calls that start sub-agents, and of records that say which sub-agent a call started."""
        content = object_of(value.get("message")).get("content")
        agent_id = text_of(object_of(value.get("toolUseResult")).get("agentId"))
        for block in content if isinstance(content, list) else ():
            match block:
                case {"type": "tool_use", "name": str(name), "id": str(call), "input": {"prompt": str(task)}}:
                    if name in _AGENT_TOOLS:
                        self._calls_by_task[hash(task)] = call
                case {"type": "tool_result", "tool_use_id": str(call)} if agent_id:
                    self.calls_by_agent.setdefault(agent_id, call)
        progress = object_of(value.get("data"))
        if progress.get("type") == "agent_progress" and text_of(progress.get("agentId")):
            self.calls_by_agent.setdefault(progress["agentId"], text_of(value.get("parentToolUseID")))

    def _sidechain(self, record: Record) -> int | None:
        value = record.value
        uuid = value.get("uuid")
        if value.get("isSidechain") is not True or not isinstance(uuid, str):
            return None
        parent = value.get("parentUuid")
        number = self._sidechain_of.get(hash(uuid))
        if number is None and isinstance(parent, str):
            number = self._sidechain_of.get(hash(parent))
        if number is None:
            number = len(self.sidechains)
            task = joined_text(user_parts(blocks_of(object_of(value.get("message")).get("content"))))
            call = self._calls_by_task.get(hash(task), "") if task else ""
            self.sidechains.append(Sidechain(record, timestamp_of(value.get("timestamp")), call))
        self._sidechain_of[hash(uuid)] = number
        return number
