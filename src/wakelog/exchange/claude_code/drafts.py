"""Records of Claude Code for the nodes of a session, without ids and places: what is in them, and what is lost.

Each node is drafted once, however often it is written. `writer.py` puts ids, parents and the fields of the envelope
into the drafts.
"""

from collections.abc import Mapping

import msgspec

from wakelog.exchange.claude_code.blocks import (
    is_own_reply,
    reply_blocks,
    result_content,
    stop_reason_for,
    usage_for,
    user_content,
)
from wakelog.exchange.claude_code.content import (
    SYNTHETIC_MODEL,
    blocks_of,
    joined_text,
    result_status,
    user_kind,
    user_parts,
)
from wakelog.exchange.claude_code.entries import TOOL
from wakelog.exchange.writing import Losses, WrittenNode, kind_of
from wakelog.log.content import Content, JsonObject, Note, Prompt, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import Cancelled, Compaction, ContextEntry, Custom, Failed, Message, ModelChange

ENVIRONMENT_TYPE = f"{TOOL}:environment"
INTERRUPTED = "[Request interrupted by user]"
_NO_SUMMARY = "(There is no summary of what was said before.)"
_ENVELOPE = ("uuid", "parentUuid", "logicalParentUuid", "sessionId", "timestamp", "isSidechain", "agentId", "type")
# Records that are made anew: the boundary of each compaction, and the title.
_REWRITTEN = (f"{TOOL}:system:compact_boundary", f"{TOOL}:custom-title", ENVIRONMENT_TYPE)


class AnsweredCall(msgspec.Struct, frozen=True):
    """The tool call that a result belongs to: the reply, and the number of the call in it."""

    reply_id: str
    number: int


class Drafts:
    """The drafts of all nodes that are written, by node, and what is lost."""

    def __init__(self, nodes: Mapping[str, WrittenNode], losses: Losses, imported: set[str]) -> None:
        self._nodes = nodes
        self._losses = losses
        self._imported = imported
        self.answered: dict[str, AnsweredCall] = {}
        """The call of each result."""
        self.records: dict[str, list[JsonObject]] = {}
        for node in nodes.values():
            records = self._draft(node)
            if records:
                self.records[node.id] = records

    def begins_run(self, node: WrittenNode) -> bool:
        """Return whether a node begins a run: a reply, a compaction, or what a reader takes for a prompt."""
        if isinstance(node, Message) and isinstance(node.message, Reply):
            return True
        first = self.records[node.id][0]
        if first["type"] != "user":
            return isinstance(node, Compaction | Failed | Cancelled)
        return isinstance(node, Message) and isinstance(node.message, Prompt | Note) and _kind(first) == "prompt"

    def _draft(self, node: WrittenNode) -> list[JsonObject]:
        """Return the records of a node; none if it is not written."""
        match node:
            case Message(message=Prompt() as prompt):
                return self._user_records("prompt", prompt.content, is_prompt=True)
            case Message(message=Note() as note):
                return self._note_records(note)
            case Message(message=Reply() as reply):
                return self._reply_records(node.id, reply)
            case Message(message=ToolResult() as result):
                return self._result_records(node, result)
            case Compaction():
                return self._compaction_records(node)
            case Cancelled():
                return self._cancelled_records(node)
            case Failed():
                return self._failed_records(node)
            case Custom(custom_type=kind) if kind in _REWRITTEN:
                return []
            case Custom(in_context=True):
                return self._context_records(node)
        self._losses.add(kind_of(node), _reason_without_place(node))
        return []

    # ── messages in the user role ────────────────────────────────────────────────────────────────

    def _user_records(self, kind: str, content: Content, *, is_prompt: bool) -> list[JsonObject]:
        """Return the record of a message in the user role; none if it has nothing that the API takes."""
        parts = (Text(text=content),) if isinstance(content, str) else content
        given = user_content(parts, kind, self._losses)
        if not given:
            self._losses.add(kind, "has no content: the API refuses it")
            return []
        record: JsonObject = {"type": "user", "message": {"role": "user", "content": given}}
        found = _kind(record)
        if not is_prompt and found == "prompt":
            record["isMeta"] = True
        elif (found == "prompt") != is_prompt or found == "interrupt":
            self._losses.add(kind, f"begins like a text of the tool itself, which takes it for: {found}")
        return [record]

    def _note_records(self, note: Note) -> list[JsonObject]:
        records = self._user_records("note", note.content, is_prompt=False)
        if records and note.custom_type != f"{TOOL}:{_kind(records[0])}":
            self._losses.add("note", "its type is not in the format")
        return records

    def _context_records(self, node: Custom) -> list[JsonObject]:
        """Return the record of an entry that the model sees: the attachment that it was, or injected context."""
        match node.data:
            case {"type": "attachment", "attachment": {}} if node.custom_type.startswith(f"{TOOL}:attachment"):
                kept = {name: value for name, value in node.data.items() if name not in _ENVELOPE}
                return [{"type": "attachment", **kept}]
        self._losses.add(kind_of(node), "written as injected context, without its type and its data")
        return self._user_records(kind_of(node), node.content, is_prompt=False)

    def _result_records(self, node: Message, result: ToolResult) -> list[JsonObject]:
        call = self._answered_call(node, result)
        if call is None:
            self._losses.add("toolresult", "has no tool call before it: the API refuses it")
            return []
        self.answered[node.id] = call
        status = result.effective_status
        content = result_content(result.parts, self._losses)
        is_error = result.is_error or status not in ("ok", "interrupted")
        block = {"type": "tool_result", "tool_use_id": "", "content": content, "is_error": is_error}
        record: JsonObject = {"type": "user", "message": {"role": "user", "content": [block]}}
        text = joined_text(user_parts(blocks_of(content)))
        if status == "interrupted":
            record["toolUseResult"] = {"stdout": text, "stderr": "", "interrupted": True, "isImage": False}
        if result_status(record, block, text) != status:
            self._losses.add("toolresult", f"the status {status!r} is not in the format")
        if result.duration_ms is not None:
            self._losses.add("toolresult", "the duration of the run is not in the format")
        if result.truncated:
            self._losses.add("toolresult", "only the part that the model was given is written")
        return [record]

    def _answered_call(self, node: Message, result: ToolResult) -> AnsweredCall | None:
        """Return the call of a result: of the reply that it names, else of the last one before it with such a call."""
        named = self._nodes.get(result.reply_id or "")
        at = named if named is not None else self._nodes.get(node.parent_id or "")
        while at is not None:
            if isinstance(at, Message) and isinstance(at.message, Reply):
                ids = [call.id for call in at.message.tool_calls]
                if result.tool_call_id in ids:
                    return AnsweredCall(at.id, ids.index(result.tool_call_id))
            if named is not None:
                return None
            at = self._nodes.get(at.parent_id or "")
        return None

    # ── replies ──────────────────────────────────────────────────────────────────────────────────

    def _reply_records(self, node_id: str, reply: Reply) -> list[JsonObject]:
        """Return one record for each block of a reply, as the tool writes them; the last one has the stop reason."""
        is_own = is_own_reply(reply, is_imported=node_id in self._imported)
        blocks = reply_blocks(reply, is_own=is_own, losses=self._losses)
        if not blocks:
            self._losses.add("reply", "has no content: the API refuses it")
            return []
        if reply.usage is not None and reply.usage.cost_micros is not None:
            self._losses.add("reply", "the cost is not in the format")
        model = {"model": reply.model} if reply.model else {}
        usage = {"usage": usage_for(reply.usage)} if reply.usage is not None else {}
        request = {"requestId": reply.request_id} if reply.request_id else {}
        stops = [None] * (len(blocks) - 1) + [stop_reason_for(reply.stop_reason)]
        return [
            _assistant_record({**model, "content": [block], "stop_reason": stop, "stop_sequence": None, **usage})
            | request
            for block, stop in zip(blocks, stops, strict=True)
        ]

    def _failed_records(self, node: Failed) -> list[JsonObject]:
        """Return an error of the API as the tool writes it: it is shown to people, and not sent to the model."""
        error = node.error
        kind, message = (error.kind, error.message) if error is not None else ("", "")
        text = next((text for text in (message, kind, node.reason) if text.strip()), "error")
        if node.reason != "error" or error is None or error.retryable or error.delay_ms is not None or text != message:
            self._losses.add("failed", "only the kind and the text of the error are in the format")
        content = [{"type": "text", "text": text}]
        record = _assistant_record({"model": SYNTHETIC_MODEL, "content": content, "stop_reason": "stop_sequence"})
        return [{**record, "isApiErrorMessage": True, "error": kind or "api_error"}]

    def _cancelled_records(self, node: Cancelled) -> list[JsonObject]:
        """Return the text that was displayed, as a reply, and the mark of an interruption."""
        is_mark = user_kind(node.reason, is_meta=False) == "interrupt"
        if not is_mark and node.reason:
            self._losses.add("cancelled", "its reason is not in the format")
        mark = {"role": "user", "content": node.reason.strip() if is_mark else INTERRUPTED}
        records: list[JsonObject] = [{"type": "user", "message": mark}]
        text = "".join(part.text for part in Reply(content=node.content).parts if isinstance(part, Text))
        if text.strip():
            self._losses.add("cancelled", "the displayed part of the reply is written as a reply")
            records.insert(0, _assistant_record({"content": [{"type": "text", "text": text}], "stop_reason": None}))
        if any(isinstance(part, ToolCall) for part in Reply(content=node.content).parts):
            self._losses.add("cancelled", "tool calls of the interrupted reply are left out: they have no results")
        return records

    # ── compactions ──────────────────────────────────────────────────────────────────────────────

    def _compaction_records(self, node: Compaction) -> list[JsonObject]:
        """Return the boundary and the summary of a compaction."""
        if not node.summary.strip():
            self._losses.add("compaction", "has no summary: a text says so")
        if node.usage is not None:
            self._losses.add("compaction", "the usage of the summary is not in the format")
        tokens = {"preTokens": node.tokens_before, "postTokens": node.tokens_after}
        metadata: JsonObject = {
            **({"trigger": node.trigger} if node.trigger != "unknown" else {}),
            **{name: count for name, count in tokens.items() if count is not None},
        }
        boundary: JsonObject = {
            "type": "system",
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "isMeta": False,
            "level": "info",
            "compactMetadata": metadata,
        }
        summary = {"role": "user", "content": node.summary if node.summary.strip() else _NO_SUMMARY}
        flags = {"isVisibleInTranscriptOnly": True, "isCompactSummary": True}
        return [boundary, {"type": "user", "message": summary, **flags}]


def _kind(record: JsonObject) -> str:
    """Return what a reader takes a record in the user role for."""
    text = joined_text(user_parts(blocks_of(record["message"]["content"])))
    return user_kind(text, is_meta=record.get("isMeta") is True)


def _assistant_record(message: JsonObject) -> JsonObject:
    return {"type": "assistant", "message": {"id": "", "type": "message", "role": "assistant", **message}}


def _reason_without_place(node: WrittenNode) -> str:
    match node:
        case ContextEntry():
            return "the tool has its own instructions and tools"
        case ModelChange():
            return "only replies name their model"
        case Custom(custom_type=kind) if kind.startswith(f"{TOOL}:"):
            return "belongs to the session that was imported"
    return "the format has no place for it"
