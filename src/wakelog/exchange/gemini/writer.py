"""Write a session as a log of operations that `gemini -r ID` continues.

The file holds the branch of the head: one record for each message, in its order. A compaction is what Gemini CLI makes
of it: older messages stay in the file, and a list of messages that begins with the summary replaces them.

- Results stand in the records of their calls and nowhere else: a result that is also a message is sent twice.
- Gemini CLI sends a call without a result as it is, and the API refuses that. An open call therefore gets a result that
  says that its outcome is unknown, and the state `executing`, by which the reader knows it to be open.
- A reply is written with `content`, `thoughts` and `toolCalls`, as Gemini CLI writes it, if that keeps the order of its
  parts and their signatures; otherwise `content` has all parts, which Gemini CLI reads as well.
- U+2028 and U+2029 are escaped, because some readers of lines in JavaScript end a line at them.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from wakelog.decide.wording import UNKNOWN_RECORDED
from wakelog.exchange.gemini.content import PROVIDER, SIGNATURE, TOOL, injected_kind, is_ignored
from wakelog.exchange.gemini.entries import ACKNOWLEDGEMENT
from wakelog.exchange.writing import (
    Losses,
    SessionToWrite,
    WrittenFile,
    WrittenNode,
    WrittenSession,
    kind_of,
    written_uuid,
)
from wakelog.log.content import (
    AnyPart,
    Audio,
    Image,
    JsonObject,
    Note,
    Prompt,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
    Usage,
)
from wakelog.log.entry import Cancelled, Compaction, Custom, Failed, Message
from wakelog.log.timestamps import iso_timestamp

_STATUSES = {"ok": "success", "error": "error", "interrupted": "cancelled"}
_SUBJECT = re.compile(r"\*\*([^*]+)\*\* (.*)", re.DOTALL)
_DISPLAYED = ("info", "error", "warning")
_MEDIA_PARTS = ("fileData", "inlineData")
_AS_USER = "written as a message of the user"


def write_session(session: SessionToWrite) -> WrittenSession:
    """Return a session as the file of a Gemini CLI session, with what the file lacks."""
    return _Writer(session).written()


class _Writer:
    """The records of one session."""

    def __init__(self, session: SessionToWrite) -> None:
        self._session = session
        self._branch = session.branch
        self._losses = Losses()
        self._places = {node.id: at for at, node in enumerate(self._branch)}
        self._reply_places, self._results = self._paired_results()
        self._lines: list[JsonObject] = []
        self._messages: list[tuple[int, JsonObject]] = []
        """The messages so far, each with the place of its node on the branch."""

    def written(self) -> WrittenSession:
        """Return the file and what it lacks."""
        session = self._session
        own_id = written_uuid(TOOL, session.session, session.head)
        started = iso_timestamp(session.started_ms)
        times = [node.timestamp for node in self._branch if node.timestamp]
        metadata = {
            "sessionId": own_id,
            "projectHash": _sha256(session.cwd),
            "startTime": started,
            "lastUpdated": times[-1] if times else started,
            "kind": "main",
        }
        title = (session.title or "").strip()
        self._lines.append({**metadata, "summary": title} if title else metadata)
        for at, node in enumerate(self._branch):
            self._write(at, node)
        self._count_losses()
        name = f"session-{started[:16].replace(':', '-')}-{own_id[:8]}.jsonl"
        path = f"tmp/{_project_name(session.cwd)}/chats/{name}"
        return WrittenSession(
            tool=TOOL,
            id=own_id,
            files=(WrittenFile(path, b"".join(map(_line, self._lines))),),
            losses=tuple(self._losses),
            resume=("gemini", "-r", own_id),
            model_option="--model",
            without_folder="Gemini CLI finds a session in its own folder only",
        )

    def _count_losses(self) -> None:
        """Count what is not on the branch, and what no record holds."""
        for node in self._session.nodes:
            if node.id not in self._places:
                self._losses.add(kind_of(node), "on another branch")
        if self._session.cwd:
            self._losses.add("folder", "Gemini CLI adds that in which it is resumed")
        if self._session.labels:
            self._losses.add("label", "Gemini CLI has no labels", len(self._session.labels))

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────

    def _write(self, at: int, node: WrittenNode) -> None:
        match node:
            case Message(message=Prompt() | Note() as message):
                self._write_said(at, node, message)
            case Message(message=Reply() as reply):
                self._add(at, self._reply(at, node, reply))
            case Message(message=ToolResult() as result):
                self._check_result(at, result)
            case Compaction():
                self._write_compaction(node)
            case Custom(custom_type=kind, data={"id": str(), "type": str(shown)}) if kind == f"{TOOL}:{shown}":
                if shown in _DISPLAYED:
                    self._add(at, dict(node.data))
                else:
                    self._losses.add(kind_of(node), "not part of the conversation")
            case Custom(in_context=True) if content := _text_of(node.content):
                self._losses.add(kind_of(node), _AS_USER)
                self._add(at, self._record(node, "user", content=[{"text": content}]))
            case Failed():
                self._losses.add(kind_of(node), "only its text is shown")
                shown = node.error.message if node.error is not None else ""
                self._add(at, self._record(node, "error", content=shown or node.reason))
            case Cancelled():
                self._write_cancelled(at, node)
            case _:
                self._losses.add(kind_of(node), "Gemini CLI has no such record")

    def _add(self, at: int, record: JsonObject) -> None:
        self._lines.append(record)
        self._messages.append((at, record))

    def _record(self, node: WrittenNode, kind: str, **fields: Any) -> JsonObject:
        own_id = written_uuid(TOOL, self._session.session, node.id)
        return {"id": own_id, "timestamp": node.timestamp, "type": kind, **fields}

    def _write_said(self, at: int, node: Message, message: Prompt | Note) -> None:
        parts = self._parts(message.parts, kind_of(node))
        if not parts:
            self._losses.add(kind_of(node), "empty")
            return
        if injected_kind(parts) is not None:
            if isinstance(message, Prompt):
                self._losses.add(kind_of(node), "begins like context of Gemini CLI, which it replaces by its own")
        else:
            if isinstance(message, Note):
                self._losses.add(kind_of(node), _AS_USER)
            if is_ignored(parts):
                self._losses.add(kind_of(node), "begins like a command, which Gemini CLI does not send after a resume")
        self._add(at, self._record(node, "user", content=parts))

    def _write_cancelled(self, at: int, node: Cancelled) -> None:
        if content := _text_of(node.content):
            self._losses.add(kind_of(node), "what was shown of its reply is a whole reply")
            self._add(at, self._record(node, "gemini", content=content))
        else:
            self._losses.add(kind_of(node), "only its text is shown")
            self._add(at, self._record(node, "info", content="Request cancelled."))

    def _write_compaction(self, node: Compaction) -> None:
        """Replace all messages by the summary and the messages that are kept."""
        first = self._places.get(node.first_kept_entry_id or "")
        if first is not None and first in self._reply_places:
            first = self._reply_places[first]
            self._losses.add(kind_of(node), "keeps the reply with the call of its first result as well")
        kept = [record for at, record in self._messages if first is not None and at >= first]
        messages: list[JsonObject] = []
        if node.summary:
            content = [{"text": node.summary}]
            if is_ignored(content) or injected_kind(content):
                self._losses.add(kind_of(node), "its summary begins like a command, which Gemini CLI does not send")
            messages.append(self._record(node, "user", content=content))
            if not kept or kept[0]["type"] == "user":
                answer = self._record(node, "gemini", content=[{"text": ACKNOWLEDGEMENT}])
                messages.append({**answer, "id": written_uuid(TOOL, self._session.session, node.id, "answer")})
        elif not kept:
            self._losses.add(kind_of(node), "without a summary and kept messages, it is an empty list")
        if node.usage is not None or node.tokens_before is not None or node.tokens_after is not None:
            self._losses.add(kind_of(node), "its usage and its token counts")
        self._lines.append({"$set": {"messages": [*messages, *kept], "lastUpdated": node.timestamp}})

    # ── replies ──────────────────────────────────────────────────────────────────────────────────

    def _paired_results(self) -> tuple[dict[int, int], dict[tuple[int, str], int]]:
        """Return the places of replies by those of their results, and of the first result of each call.

        A result that names no reply is that of the last call with its id.
        """
        asked: dict[str, int] = {}
        calls: set[tuple[int, str]] = set()
        replies: dict[int, int] = {}
        results: dict[tuple[int, str], int] = {}
        for at, node in enumerate(self._branch):
            match node:
                case Message(message=Reply() as reply):
                    asked |= {call.id: at for call in reply.tool_calls}
                    calls |= {(at, call.id) for call in reply.tool_calls}
                case Message(message=ToolResult() as result):
                    own = self._places.get(result.reply_id or "", -1), result.tool_call_id
                    own = own if own in calls else (asked.get(result.tool_call_id, -1), result.tool_call_id)
                    if own in calls and results.setdefault(own, at) == at:
                        replies[at] = own[0]
        return replies, results

    def _check_result(self, at: int, result: ToolResult) -> None:
        """Count what is lost by writing a result into the record of its call."""
        reply_at = self._reply_places.get(at)
        if reply_at is None:
            self._losses.add("toolresult", "its call is not on the branch, or has another result")
            return
        between = self._branch[reply_at + 1 : at]
        if not all(isinstance(node, Message) and isinstance(node.message, ToolResult) for node in between):
            self._losses.add("toolresult", "stands directly behind its call")
        if result.effective_status not in _STATUSES:
            self._losses.add("toolresult", f"its status is {result.effective_status}")
        if result.duration_ms is not None or result.truncated:
            self._losses.add("toolresult", "how long the tool ran, and that its output was cut")

    def _reply(self, at: int, node: Message, reply: Reply) -> JsonObject:
        is_own = reply.provider == PROVIDER
        if reply.provider is not None and not is_own:
            self._losses.add("reply", "its provider")
        if reply.stop_reason is not None or reply.request_id is not None:
            self._losses.add("reply", "why it ended, and the id of its request")
        parts = [part for part in reply.parts if not self._is_lost(part)]
        if not is_own and any(isinstance(part, Thinking | Text | ToolCall) and part.bound for part in parts):
            self._losses.add("reply", "data that only its provider understands")
        calls = self._tool_calls(at, node, reply)
        fields = self._plain_fields(node, parts, [call["id"] for call in calls], is_own=is_own)
        if fields is None:
            fields = {"content": [written for part in parts for written in self._reply_part(part, is_own=is_own)]}
        if reply.usage is not None:
            fields["tokens"] = self._tokens(reply.usage)
        if reply.model is not None:
            fields["model"] = reply.model
        if calls:
            fields["toolCalls"] = calls
        return self._record(node, "gemini", **fields)

    def _is_lost(self, part: AnyPart) -> bool:
        """Count a part that cannot be written."""
        if isinstance(part, Thinking) and not part.thinking and not part.signature:
            self._losses.add("thinking", "encrypted for another provider")
            return True
        return False

    def _plain_fields(
        self, node: Message, parts: Sequence[AnyPart], order: Sequence[str], *, is_own: bool
    ) -> JsonObject | None:
        """Return a reply as Gemini CLI writes it; None if that would lose an order or a signature."""
        rank = {Thinking: 0, Text: 1, ToolCall: 2}
        kinds = [rank.get(type(part), 3) for part in parts]
        texts = [part.text for part in parts if isinstance(part, Text)]
        calls = [part.id for part in parts if isinstance(part, ToolCall)]
        is_signed = is_own and any(_signature_of(part) for part in parts)
        if kinds != sorted(kinds) or 3 in kinds or len(texts) > 1 or is_signed or calls != list(order):
            return None
        if not calls and not any(texts):
            return None
        thoughts = [_thought(part, node.timestamp) for part in parts if isinstance(part, Thinking)]
        if any(isinstance(part, Thinking) and part.signature for part in parts):
            self._losses.add("thinking", "its signature is for another provider")
        return {"content": "".join(texts), **({"thoughts": thoughts} if thoughts else {})}

    def _reply_part(self, part: AnyPart, *, is_own: bool) -> list[JsonObject]:
        signature = _signature_of(part)
        signed = {SIGNATURE: signature} if signature and is_own else {}
        match part:
            case Thinking():
                if signature and not is_own:
                    self._losses.add("thinking", "its signature is for another provider")
                return [{"text": part.thinking, "thought": True, **signed}] if part.thinking or signed else []
            case ToolCall():
                return [{"functionCall": {"id": part.id, "name": part.name, "args": self._args(part)}, **signed}]
            case Text():
                return [{"text": part.text, **signed}] if part.text or signed else []
        return self._parts((part,), "reply")

    def _args(self, call: ToolCall) -> JsonObject:
        return call.input if isinstance(call.input, dict) else {} if call.input is None else {"input": call.input}

    def _tool_calls(self, reply_at: int, node: Message, reply: Reply) -> list[JsonObject]:
        """Return the calls of a reply with their results: in the order of these, then those without."""
        found: list[tuple[int, JsonObject]] = []
        for call in reply.tool_calls:
            if call.input is not None and not isinstance(call.input, dict):
                self._losses.add("toolcall", "its input is not an object")
            record: JsonObject = {"id": call.id, "name": call.name, "args": self._args(call)}
            at = self._results.get((reply_at, call.id), len(self._branch))
            answer = self._branch[at] if at < len(self._branch) else None
            if isinstance(answer, Message) and isinstance(result := answer.message, ToolResult):
                status = result.effective_status
                written = _STATUSES.get(status, "error" if status == "unknown" else "cancelled")
                record |= {"result": self._response_parts(call, result), "status": written}
                record["timestamp"] = answer.timestamp
            else:
                self._losses.add("toolcall", "open: its result says that the outcome is unknown")
                response = _response(call, {"error": UNKNOWN_RECORDED})
                record |= {"result": [response], "status": "executing", "timestamp": node.timestamp}
            found.append((at, record))
        return [record for _, record in sorted(found, key=lambda each: each[0])]

    def _response_parts(self, call: ToolCall, result: ToolResult) -> list[JsonObject]:
        text = "".join(part.text for part in result.parts if isinstance(part, Text))
        is_error = result.effective_status != "ok"
        media = self._parts([part for part in result.parts if not isinstance(part, Text)], "toolresult")
        return [_response(call, {"error" if is_error else "output": text}), *media]

    def _tokens(self, usage: Usage) -> JsonObject:
        """Return usage as Gemini CLI counts: the input includes what was read from a cache."""
        if usage.cache_write_tokens or usage.cost_micros is not None:
            self._losses.add("usage", "the cost, and which part of the input was written to a cache")
        read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        counts = {"input": read, "output": usage.output_tokens, "cached": usage.cache_read_tokens}
        return {**counts, "total": read + usage.output_tokens}

    # ── parts ────────────────────────────────────────────────────────────────────────────────────

    def _parts(self, parts: Sequence[AnyPart], kind: str) -> list[JsonObject]:
        """Return the parts of a message, without empty texts."""
        found: list[JsonObject] = []
        for part in parts:
            match part:
                case Text():
                    found += [{"text": part.text}] if part.text else []
                case Image(data=str(raw)) | Audio(data=str(raw)):
                    found.append({"inlineData": {"mimeType": part.mime_type, "data": raw}})
                case UnknownPart(part=dict(value)) if any(name in value for name in _MEDIA_PARTS):
                    found.append(value)
                case _:
                    self._losses.add(kind, f"a part of type {type(part).__name__.lower()}")
        return found


def _line(record: JsonObject) -> bytes:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").encode() + b"\n"


def _text_of(content: str | Sequence[AnyPart]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content if isinstance(part, Text))


def _signature_of(part: AnyPart) -> str | None:
    if isinstance(part, Thinking):
        return part.signature
    bound = part.bound if isinstance(part, Text | ToolCall) else None
    signature = bound.get(SIGNATURE) if bound else None
    return signature if isinstance(signature, str) else None


def _thought(part: Thinking, timestamp: str) -> JsonObject:
    found = _SUBJECT.fullmatch(part.thinking)
    subject, description = (found[1], found[2]) if found else ("", part.thinking)
    return {"subject": subject, "description": description, "timestamp": timestamp}


def _response(call: ToolCall, response: JsonObject) -> JsonObject:
    return {"functionResponse": {"id": call.id, "name": call.name, "response": response}}


def _project_name(folder: str) -> str:
    """Return the name that Gemini CLI gives to a project: that of its folder in lower case, letters and digits only."""
    name = re.split(r"[/\\]", folder.rstrip("/\\"))[-1].lower()
    return re.sub(r"^-|-$", "", re.sub(r"-+", "-", re.sub(r"[^a-z0-9]", "-", name))) or "project"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
