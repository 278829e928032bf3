"""Write a session as Claude Code does: `projects/<folder>/<session>.jsonl`, one record for each block, all branches.

- Records form one chain for each branch, by `parentUuid`. The branch of the head is last, and the record `last-prompt`
  names its end: there the tool continues. `runs.py` says how other branches are written.
- A compaction is a boundary and the summary. Older records stay in the file, and the boundary names those that the
  compaction keeps; the tool sends the summary, the kept records and what follows. Of a large file it reads only what
  follows the last boundary, and so a compaction on another branch has none: its summary has the data of the boundary.
- A tool call without a result stays open. The tool leaves it out; if it is the last record, it tells the model that the
  outcome is unknown.
- uuids derive from the ids of the nodes, so a later export of a session that has gone on has the same records under a
  new session id, like a fork of the tool: an import counts the usage of each reply once.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from wakelog.exchange.claude_code.content import ANTHROPIC, object_of
from wakelog.exchange.claude_code.drafts import ENVIRONMENT_TYPE, Drafts
from wakelog.exchange.claude_code.entries import TOOL
from wakelog.exchange.claude_code.runs import Run, Runs
from wakelog.exchange.provider_calls import with_tool_calls
from wakelog.exchange.writing import (
    Losses,
    SessionToWrite,
    WrittenFile,
    WrittenNode,
    WrittenSession,
    kind_of,
    written_uuid,
)
from wakelog.log.content import JsonObject, Prompt, Reply, ToolResult
from wakelog.log.entry import Compaction, Custom, Message
from wakelog.log.provider_calls import ProviderCall
from wakelog.log.timestamps import iso_timestamp, parse_ms

_ENVIRONMENT_KEYS = ("cwd", "version", "gitBranch")
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PROMPT_CHARS = 200
_FOLDER_CHARS = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_COPIED = "written more than once: a branch or the end of the session is in the middle of a turn"


def write_session(session: SessionToWrite) -> WrittenSession:
    """Return a session as a file of Claude Code."""
    return _SessionWriter(with_tool_calls(session, _keeps_call)).written()


def _keeps_call(node: Message, call: ProviderCall) -> bool:
    reply = node.message
    return call.api == "anthropic" and isinstance(reply, Reply) and reply.provider in (None, ANTHROPIC)


def project_folder(cwd: str) -> str:
    """Return the name of the folder in which the tool keeps the sessions of a working folder.

    Every character but ASCII letters and digits becomes a dash, one outside the BMP two. A long name is cut, and gets a
    number that derives from the path.
    """
    units = [int.from_bytes(pair, "little") for pair in _pairs(cwd.encode("utf-16-le", "surrogatepass"))]
    name = "".join(chr(unit) if unit < 128 and chr(unit).isalnum() else "-" for unit in units) or "-"
    if len(name) <= _FOLDER_CHARS:
        return name
    number = 0
    for unit in units:
        number = (number * 31 + unit) & 0xFFFF_FFFF
    number = min(number, (1 << 32) - number)
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return f"{name[:_FOLDER_CHARS]}-{digits or '0'}"


def _pairs(raw: bytes) -> Iterator[bytes]:
    return (raw[at : at + 2] for at in range(0, len(raw), 2))


class _SessionWriter:
    """Writes one session: drafts of its nodes, their order, and then the records with their ids."""

    def __init__(self, session: SessionToWrite) -> None:
        self._session = session
        self._id = written_uuid(TOOL, "session", session.session, session.head)
        self._losses = Losses()
        self._by_id = {node.id: node for node in session.nodes}
        self._environments: dict[str, JsonObject] = {}
        imported = set(self._read_environments())
        self._drafts = Drafts(self._by_id, self._losses, imported)
        self._parents: dict[str, str] = {}
        drafted = list(self._drafted_nodes())
        head = self._drafted_id(session.head)
        # A session without a head ends with its last node.
        self._has_end = bool(head) or not session.head or not drafted
        last = drafted[-1].id if drafted else ""
        self._runs = Runs(drafted, head or last, self._drafts.begins_run)
        self._call_ids = self._all_call_ids(drafted)
        self._answered: set[tuple[str, int, int]] = set()
        self._left_out: set[tuple[str, int]] = set()
        self._lines: list[bytes] = []
        self._last = ""
        self._timestamp = iso_timestamp(session.started_ms)

    def written(self) -> WrittenSession:
        """Return the session."""
        self._count_other_losses()
        anchor = self._write_anchor()
        ends: dict[int, str] = {}
        for run in self._runs.ordered:
            self._last = ends[id(run.parent)] if run.parent is not None else anchor
            for node, copy in zip(run.nodes, run.copies, strict=True):
                self._write_node(run, node, copy)
            ends[id(run)] = self._last
        can_continue = bool(self._lines) and self._has_end
        self._write_title()
        self._write_last_prompt()
        folder = project_folder(self._session.cwd)
        return WrittenSession(
            tool=TOOL,
            id=self._id,
            files=(WrittenFile(f"projects/{folder}/{self._id}.jsonl", b"".join(self._lines)),),
            losses=tuple(self._losses),
            resume=("claude", "--resume", self._id) if can_continue else (),
            model_option="--model",
            without_folder="Claude Code lists a session in its own folder only, and continues it by its id",
        )

    # ── preparation ──────────────────────────────────────────────────────────────────────────────

    def _read_environments(self) -> Iterator[str]:
        """Find the folder, version and git branch in force at each node; yield the nodes that an import brought."""
        first = {"cwd": self._session.cwd} if self._session.cwd else {}
        imported: set[str] = set()
        for node in self._by_id.values():
            parent = node.parent_id or ""
            self._environments[node.id] = self._environments.get(parent, first)
            if isinstance(node, Custom) and node.custom_type == ENVIRONMENT_TYPE:
                given = object_of(node.data)
                known = {name: given[name] for name in _ENVIRONMENT_KEYS if isinstance(given.get(name), str)}
                self._environments[node.id] = {**first, **known}
                imported.add(node.id)
            elif parent in imported:
                imported.add(node.id)
        yield from imported

    def _drafted_nodes(self) -> Iterator[WrittenNode]:
        """Yield the nodes that are written, each under the last one before it that is written, too."""
        for node in self._by_id.values():
            parent = node.parent_id or ""
            if parent not in self._drafts.records:
                parent = self._parents.get(parent, "")
            self._parents[node.id] = parent
            if node.id in self._drafts.records:
                yield msgspec.structs.replace(node, parent_id=parent)

    def _drafted_id(self, node_id: str) -> str:
        return node_id if node_id in self._drafts.records else self._parents.get(node_id, "")

    def _all_call_ids(self, drafted: Iterable[WrittenNode]) -> dict[str, list[str]]:
        """Return the ids of the tool calls of each reply. They are unique in the file, as the API demands."""
        taken: set[str] = set()
        found: dict[str, list[str]] = {}
        for node in drafted:
            if not isinstance(node, Message) or not isinstance(node.message, Reply):
                continue
            ids = found[node.id] = []
            for number, call in enumerate(node.message.tool_calls):
                is_free = call.id not in taken and _CALL_ID.fullmatch(call.id) is not None
                if not is_free:
                    self._losses.add("reply", "the id of a tool call is not unique, or not one that the API takes")
                ids.append(call.id if is_free else _derived_call_id(node.id, number, 0))
                taken.add(ids[-1])
        return found

    def _count_other_losses(self) -> None:
        for node in self._runs.unwritten:
            self._losses.add(kind_of(node), "on a branch that differs before the first prompt")
        for node_id, count in self._runs.copies.items():
            if count > 1 and node_id in self._by_id:
                self._losses.add(kind_of(self._by_id[node_id]), _COPIED)
        if not self._has_end:
            self._losses.add("head", "before the first message, where the tool cannot continue")
        if self._session.labels:
            self._losses.add("label", "the format has no labels", len(self._session.labels))

    # ── records ──────────────────────────────────────────────────────────────────────────────────

    def _write_anchor(self) -> str:
        """Write the record under which all beginnings are, if there are several; return its uuid."""
        if sum(run.parent is None for run in self._runs.ordered) < 2:
            return ""
        environment = {"cwd": self._session.cwd} if self._session.cwd else {}
        uuid = written_uuid(TOOL, self._session.session, "anchor")
        shown = {"subtype": "informational", "content": "Written by wakelog", "isMeta": False, "level": "info"}
        self._write_chained({"type": "system", **shown}, uuid, environment)
        return uuid

    def _write_node(self, run: Run, node: WrittenNode, copy: int) -> None:
        timestamp = parse_ms(node.timestamp)
        if timestamp is not None:
            self._timestamp = iso_timestamp(timestamp)
        match node:
            case Message(message=Reply()):
                records = self._reply_records(node.id, copy)
            case Message(message=ToolResult()):
                records = self._result_records(run, node.id)
            case Compaction():
                records = self._compaction_records(run, node)
            case _:
                records = self._drafts.records[node.id]
        for number, record in enumerate(records, len(self._drafts.records[node.id]) - len(records)):
            uuid = _record_uuid(node.id, copy, number)
            self._write_chained(_with_message_id(record, node.id, copy), uuid, self._environments[node.id])
        if not records:
            self._left_out.add((node.id, copy))

    def _reply_records(self, node_id: str, copy: int) -> list[JsonObject]:
        """Return the lines of a reply with the ids of its tool calls. Only the first copy has the usage."""
        ids = iter(self._ids_of_calls(node_id, copy))
        records: list[JsonObject] = []
        for record in self._drafts.records[node_id]:
            message = {name: value for name, value in record["message"].items() if name != "usage" or copy == 0}
            block = message["content"][0]
            if block["type"] == "tool_use":
                message["content"] = [{**block, "id": next(ids)}]
            records.append({**record, "message": message})
        return records

    def _ids_of_calls(self, node_id: str, copy: int) -> list[str]:
        ids = self._call_ids[node_id]
        return ids if copy == 0 else [_derived_call_id(node_id, number, copy) for number in range(len(ids))]

    def _result_records(self, run: Run, node_id: str) -> list[JsonObject]:
        """Return a result with the id of its call, and the uuid of the line with the call."""
        call = self._drafts.answered[node_id]
        copy = 0 if self._runs.copies[call.reply_id] == 1 else run.copy_of(call.reply_id)
        if copy is None or call.reply_id not in self._call_ids:
            self._losses.add("toolresult", "its tool call is not on the same branch")
            return []
        if (call.reply_id, call.number, copy) in self._answered:
            self._losses.add("toolresult", "a second result of one tool call")
            return []
        self._answered.add((call.reply_id, call.number, copy))
        lines = self._drafts.records[call.reply_id]
        calls = [at for at, line in enumerate(lines) if line["message"]["content"][0]["type"] == "tool_use"]
        record = self._drafts.records[node_id][0]
        block = {
            **record["message"]["content"][0],
            "tool_use_id": self._ids_of_calls(call.reply_id, copy)[call.number],
        }
        source = _record_uuid(call.reply_id, copy, calls[call.number])
        return [{**record, "message": {"role": "user", "content": [block]}, "sourceToolAssistantUUID": source}]

    def _compaction_records(self, run: Run, node: Compaction) -> list[JsonObject]:
        """Return the boundary, which names what is kept, and the summary; on another branch the summary with both."""
        boundary, summary = self._drafts.records[node.id]
        anchor = _record_uuid(node.id, run.copies[0], 1)
        kept = list(self._kept_records(run, node))
        metadata = boundary["compactMetadata"]
        if kept:
            uuids = [uuid for uuid, _ in kept]
            messages = [uuid for uuid, is_message in kept if is_message]
            metadata = {
                **metadata,
                "preservedSegment": {"headUuid": uuids[0], "anchorUuid": anchor, "tailUuid": uuids[-1]},
                "preservedMessages": {"anchorUuid": anchor, "uuids": messages, "allUuids": uuids},
            }
        if not run.leads_to_head:
            return [{**summary, "compactMetadata": metadata}]
        return [{**boundary, "compactMetadata": metadata}, summary]

    def _kept_records(self, run: Run, node: Compaction) -> Iterator[tuple[str, bool]]:
        """Yield the uuids of the records that a compaction keeps, and whether each is a message."""
        kept = self._kept_nodes(node)
        found: list[tuple[WrittenNode, int]] = []
        at = run.parent
        while at is not None and len(found) < len(kept):
            pairs = zip(at.nodes[::-1], at.copies[::-1], strict=True)
            found += [(each, copy) for each, copy in pairs if each.id in kept]
            at = at.parent
        for each, copy in reversed(found):
            if (each.id, copy) in self._left_out:
                continue
            for number, record in enumerate(self._drafts.records[each.id]):
                yield _record_uuid(each.id, copy, number), record["type"] in ("user", "assistant")

    def _kept_nodes(self, node: Compaction) -> set[str]:
        """Return the written nodes from the first kept one to the compaction, without earlier compactions."""
        first = node.first_kept_entry_id
        found: set[str] = set()
        at = self._by_id.get(self._by_id[node.id].parent_id or "") if first in self._by_id else None
        while at is not None:
            if at.id in self._drafts.records and not isinstance(at, Compaction):
                found.add(at.id)
            if at.id == first:
                return found
            at = self._by_id.get(at.parent_id or "")
        return set()

    def _write_chained(self, record: JsonObject, uuid: str, environment: JsonObject) -> None:
        """Write a record under the last one. A boundary has no parent, but names the record before it."""
        is_boundary = record.get("subtype") == "compact_boundary"
        before = self._last or None
        self._write_line(
            {
                "parentUuid": None if is_boundary else before,
                **({"logicalParentUuid": before} if is_boundary else {}),
                "isSidechain": False,
                **record,
                "uuid": uuid,
                "timestamp": self._timestamp,
                "userType": "external",
                "sessionId": self._id,
                **environment,
            }
        )
        self._last = uuid

    def _write_title(self) -> None:
        title = self._session.title or ""
        if title.strip():
            self._write_line({"type": "custom-title", "customTitle": title, "sessionId": self._id})

    def _write_last_prompt(self) -> None:
        """Write the record that names the end of the active branch, and its last prompt for lists of sessions."""
        prompts = [
            node.message.text
            for node in self._session.branch
            if isinstance(node, Message) and isinstance(node.message, Prompt) and node.message.text.strip()
        ]
        if self._last and prompts:
            shown = {"lastPrompt": prompts[-1][:_PROMPT_CHARS], "leafUuid": self._last, "sessionId": self._id}
            self._write_line({"type": "last-prompt", **shown})

    def _write_line(self, record: Any) -> None:
        self._lines.append(msgspec.json.encode(record) + b"\n")


def _record_uuid(node_id: str, copy: int, number: int) -> str:
    return written_uuid(TOOL, node_id, str(copy), str(number))


def _with_message_id(record: JsonObject, node_id: str, copy: int) -> JsonObject:
    """Return a line of a message of the model with the id of the message; another record as it is."""
    if record["type"] != "assistant":
        return record
    message_id = "msg_" + written_uuid(TOOL, node_id, str(copy), "message").replace("-", "")[:24]
    return {**record, "message": {**record["message"], "id": message_id}}


def _derived_call_id(node_id: str, number: int, copy: int) -> str:
    return "toolu_" + written_uuid(TOOL, node_id, str(copy), f"call {number}").replace("-", "")[:24]
