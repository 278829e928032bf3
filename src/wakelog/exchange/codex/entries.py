"""Entries of a Codex session while its lines are read: ids, the reply in progress, its usage, its open tool calls.

The rules for replies and ids are in the first lines of `session.py`.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from wakelog.decide.assembly import with_unique_call_ids
from wakelog.exchange.codex.items import (
    TOOL,
    call_id_of,
    displayed_texts,
    identity_of,
    is_from_model,
    key_of,
    model_parts,
    outcome_of,
    text_of,
    usage_of,
)
from wakelog.exchange.codex.lines import Line
from wakelog.exchange.sessions import ImportedEntry, ImportedItem, SkippedRecords, entry_id, session_id
from wakelog.log.content import AnyMessage, AnyPart, JsonObject, Reply, Text, ToolCall, ToolResult, Usage
from wakelog.log.entry import Custom, KnownBody, Message, Node, Spawned
from wakelog.log.ids import IdTable, id_hash

_REPEATS_ITEM = "repeats a response item"
# How many items a compaction may keep and still be recognised as one that keeps entries.
_KEPT_ITEMS_MAX = 10_000
_NO_USAGE = "holds rate limits, or usage that was counted before"


class _Draft(msgspec.Struct):
    """The reply in progress. `early` is the line with its usage, where that stands before the items."""

    line: Line
    timestamp: str
    model: str | None
    provider: str | None
    parts: list[AnyPart] = []
    keys: list[str] = []
    items: int = 0
    identity: str | None = None
    after: str | None = None
    usage: Usage | None = None
    request_id: str | None = None
    early: Line | None = None

    @property
    def records(self) -> int:
        """The number of lines that became this reply."""
        return self.items + (self.usage is not None)


class _Held(msgspec.Struct, frozen=True):
    """A line that is written before the reply in progress; `shown` is the digest of its text if it displays one."""

    line: Line
    timestamp: str
    shown: bytes | None = None


class _OpenCall(msgspec.Struct, frozen=True):
    """A tool call without a result; `id` is unique in its reply."""

    reply_id: str
    id: str
    name: str


class EntryBuilder:
    """The entries made so far, and what is needed to make the next ones."""

    def __init__(self, started: str) -> None:
        self.tip: str | None = None
        self.timestamp = started
        self.origin = started
        """When the session began whose lines are read; a part of the ids of lines that are copied to forks."""
        self.model: str | None = None
        self.provider: str | None = None
        self.context_tokens: int | None = None
        self._queue: list[ImportedItem] = []
        self._skipped: Counter[tuple[str, str]] = Counter()
        self._used_ids = IdTable()
        self._draft: _Draft | None = None
        self._held: list[_Held] = []
        self._displayed: set[bytes] = set()
        self._calls: dict[str, deque[_OpenCall]] = {}
        self._children: dict[str, str] = {}
        # The last items that the model saw, each with the id of its entry.
        self._recent: deque[tuple[str, str]] = deque(maxlen=_KEPT_ITEMS_MAX)
        # The place in the queue of a reply whose usage may follow, and how this version of Codex writes usage.
        self._awaiting: int | None = None
        self._total: Any = None
        self._is_usage_first: bool | None = None
        self._has_usage_records = False

    # ── entries ──────────────────────────────────────────────────────────────────────────────────

    def finished(self) -> Iterator[ImportedItem]:
        """Yield the entries that no later line changes, each once."""
        if self._awaiting is None:
            queue, self._queue = self._queue, []
            yield from queue

    def skipped(self) -> Iterator[SkippedRecords]:
        """Yield the counts of skipped lines."""
        for (kind, reason), count in self._skipped.items():
            yield SkippedRecords(kind, count, reason)

    def new_id(self, line: Line, identity: str | None = None, suffix: str = "") -> str:
        """Return the id of an entry: from what identifies it in every file, else from its place in this one."""
        if identity is not None:
            found = entry_id(TOOL, identity + suffix)
            if found not in self._used_ids:
                self._used_ids.add(id_hash(found))
                return found
        return entry_id(TOOL, f"{line.place}{suffix}")

    def report(self, item: ImportedItem) -> None:
        """Pass on what is not a line."""
        self._queue.append(item)

    def add(self, body: KnownBody, records: int = 1, *, is_verbatim: bool = False) -> None:
        """Add an entry; a node is the parent of the next one."""
        self._queue.append(ImportedEntry(body, records, is_verbatim))
        if isinstance(body, Node):
            self.tip = body.id

    def add_message(self, new_id: str, message: AnyMessage, records: int = 1) -> None:
        """Add a message."""
        self.add(Message(id=new_id, parent_id=self.tip, timestamp=self.timestamp, message=message), records)

    def add_verbatim(
        self, line: Line, data: Any = None, *, timestamp: str | None = None, suffix: str = "", records: int = 1
    ) -> None:
        """Add a line, or a part of it, as it is."""
        at = timestamp or self.timestamp
        body = Custom(
            id=self.new_id(line, line.identity, suffix),
            parent_id=self.tip,
            timestamp=at,
            custom_type=f"{TOOL}:{line.name}",
            data=line.value if data is None else data,
        )
        self.add(body, records, is_verbatim=True)

    def keep(self, line: Line) -> None:
        """Keep a line verbatim: at once, or before the reply in progress."""
        if self._draft is None and not self._held:
            self.add_verbatim(line)
        else:
            self._held.append(_Held(line, self.timestamp))

    def skip(self, line: Line, reason: str) -> None:
        """Count a line that is not kept."""
        self._skipped[line.name, reason] += 1

    # ── kept items ───────────────────────────────────────────────────────────────────────────────

    def note_item(self, item: JsonObject, entry: str) -> None:
        """Note an item that the model sees, and the id of its entry."""
        self._recent.append((key_of(item), entry))

    def first_kept(self, items: Sequence[JsonObject]) -> str | None:
        """Return the id of the entry with which items begin if they are the last ones of the session, else None."""
        count = len(items)
        tail = list(self._recent)[-count - 1 :]
        before, tail = tail[:-count], tail[-count:]
        if not count or [key for key, _ in tail] != [key_of(item) for item in items]:
            return None
        first = tail[0][1]
        return None if before and before[0][1] == first else first

    # ── displayed texts ──────────────────────────────────────────────────────────────────────────

    def keep_unless_repeated(self, line: Line, text: str) -> None:
        """Skip an event that displays the text of an item, before or after that item; else keep it."""
        digest = digest_of_text(text)
        if digest in self._displayed:
            self.skip(line, _REPEATS_ITEM)
        else:
            self._held.append(_Held(line, self.timestamp, digest))

    def note_displayed(self, item: JsonObject, *, is_prompt: bool = False) -> None:
        """Note the texts of an item, and skip the events before it that display them. A prompt begins anew."""
        digests = {digest_of_text(text) for text in displayed_texts(item)}
        self._displayed = digests if is_prompt else self._displayed | digests
        if not any(held.shown in digests for held in self._held):
            return
        for held in self._held:
            if held.shown in digests:
                self.skip(held.line, _REPEATS_ITEM)
        self._held = [held for held in self._held if held.shown not in digests]

    # ── replies ──────────────────────────────────────────────────────────────────────────────────

    @property
    def is_between_replies(self) -> bool:
        """Whether no reply is in progress and no line waits."""
        return self._draft is None and not self._held

    def extend_reply(self, line: Line, item: JsonObject) -> None:
        """Add an item of the model to the reply in progress, or begin one with it."""
        assert is_from_model(item)
        if self._draft is None:
            self._awaiting = None
            self._draft = _Draft(line, self.timestamp, self.model, self.provider)
            self._take_early_usage(self._draft)
        draft = self._draft
        draft.parts.extend(model_parts(item, draft.after))
        if item.get("type") == "reasoning":
            draft.after = text_of(item.get("id")) or draft.after
        draft.items += 1
        draft.keys.append(key_of(item))
        draft.identity = draft.identity or identity_of(item)

    def end_reply(self, *, may_wait: bool = False) -> None:
        """End the reply in progress, if there is one. With `may_wait`, its usage may still follow."""
        if not may_wait:
            self._awaiting = None
        draft, self._draft = self._draft, None
        held, self._held = self._held, []
        for each in held:
            self.add_verbatim(each.line, timestamp=each.timestamp)
        if draft is None:
            return
        content = with_unique_call_ids(draft.parts)
        reply_id = self.new_id(draft.line, draft.identity, f"+{draft.items}")
        reply = Reply(
            content=content,
            model=draft.model,
            provider=draft.provider,
            stop_reason=_stop_reason(content),
            usage=draft.usage,
            request_id=draft.request_id,
        )
        self.add(Message(id=reply_id, parent_id=self.tip, timestamp=draft.timestamp, message=reply), draft.records)
        self._recent.extend((key, reply_id) for key in draft.keys)
        if may_wait and draft.usage is None:
            self._awaiting = len(self._queue) - 1
        for part, renamed in zip(draft.parts, content, strict=True):
            if isinstance(part, ToolCall) and isinstance(renamed, ToolCall):
                self._open_call(draft.line, part.id, _OpenCall(reply_id, renamed.id, renamed.name))

    # ── usage ────────────────────────────────────────────────────────────────────────────────────

    def take_usage_record(self, line: Line) -> None:
        """Take the usage of a response from a record of its own."""
        usage = usage_of(line.payload.get("usage"))
        if usage is not None and self._give_usage(usage, text_of(line.payload.get("response_id")) or None):
            self._has_usage_records = True
        else:
            self.keep(line)

    def take_token_count(self, line: Line) -> None:
        """Take the usage of the last response. The event also comes with new rate limits and the usage as before."""
        info = line.payload.get("info")
        if info is None:
            self.skip(line, _NO_USAGE)
            return
        last = info.get("last_token_usage") if isinstance(info, dict) else None
        usage = usage_of(last)
        if usage is None or last is None:
            self.keep(line)
            return
        used = last.get("total_tokens")
        self.context_tokens = used if isinstance(used, int) and used > 0 else self.context_tokens
        is_new = info.get("total_token_usage") != self._total or self._total is None
        self._total = info.get("total_token_usage")
        if self._has_usage_records or not is_new:
            self.skip(line, _NO_USAGE)
        elif not self._give_usage(usage):
            self._is_usage_first = self._is_usage_first is not False
            self._held.append(_Held(line, self.timestamp))

    def _give_usage(self, usage: Usage, request_id: str | None = None) -> bool:
        """Give usage to the reply in progress, which it ends, or to the one that waits; return whether there is one."""
        if self._draft is not None:
            self._is_usage_first = False
            if self._draft.early is not None:
                self._held.append(_Held(self._draft.early, self.timestamp))
            self._draft.usage, self._draft.request_id = usage, request_id
            self.end_reply()
            return True
        if self._awaiting is None or self._is_usage_first:
            return False
        waiting = self._queue[self._awaiting]
        assert isinstance(waiting, ImportedEntry)
        assert isinstance(waiting.body, Message)
        reply = msgspec.structs.replace(waiting.body.message, usage=usage, request_id=request_id)
        body = msgspec.structs.replace(waiting.body, message=reply)
        self._queue[self._awaiting] = ImportedEntry(body, waiting.records + 1)
        self._awaiting = None
        return True

    def _take_early_usage(self, draft: _Draft) -> None:
        """Give a new reply the usage directly before it, if this version writes usage before the items."""
        if self._is_usage_first and self._held and self._held[-1].line.name == "event_msg/token_count":
            draft.early = self._held.pop().line
            draft.usage = usage_of(draft.early.payload["info"]["last_token_usage"])

    # ── tool calls ───────────────────────────────────────────────────────────────────────────────

    def _open_call(self, line: Line, written_id: str, call: _OpenCall) -> None:
        self._calls.setdefault(written_id, deque()).append(call)
        if child := self._children.pop(written_id, None):
            self._add_spawned(line, call, child)

    def forget_branch(self) -> None:
        """Forget open tool calls and the last items: they are on a branch that was left."""
        self._calls.clear()
        self._recent.clear()

    def take_result(self, line: Line, item: JsonObject) -> None:
        """Add the result of an open tool call; without one the line is kept verbatim."""
        call_id = call_id_of(item)
        waiting = self._calls.get(call_id)
        if not waiting:
            self.add_verbatim(line)
            return
        call = waiting.popleft()
        if not waiting:
            del self._calls[call_id]
        outcome = outcome_of(item)
        result = ToolResult(
            content=outcome.content,
            tool_call_id=call.id,
            tool_name=call.name,
            reply_id=call.reply_id,
            status=outcome.status,
            is_error=outcome.status not in (None, "ok"),
            duration_ms=outcome.duration_ms,
        )
        result_id = self.new_id(line, identity_of(item))
        self.add_message(result_id, result)
        self.note_item(item, result_id)
        if call.name == "spawn_agent" and (child := _spawned_thread(item.get("output"))):
            self._add_spawned(line, call, child)

    def note_spawned(self, line: Line, call_id: Any, child: Any) -> None:
        """Note that a call started a sub-agent; the reply with the call may be in progress."""
        if not isinstance(call_id, str) or not isinstance(child, str):
            return
        if waiting := self._calls.get(call_id):
            self._add_spawned(line, waiting[0], child)
        elif self._draft is not None:
            self._children[call_id] = child

    def _add_spawned(self, line: Line, call: _OpenCall, child: str) -> None:
        key = f"spawned:{call.reply_id}:{child}"
        if entry_id(TOOL, key) in self._used_ids:
            return
        body = Spawned(
            id=self.new_id(line, key),
            parent_id=call.reply_id,
            timestamp=self.timestamp,
            child_session=session_id(TOOL, child),
            reply_id=call.reply_id,
            tool_call_id=call.id,
        )
        self.add(body, 0)


def digest_of_text(text: str) -> bytes:
    """Return a short digest, to compare texts that are not kept in memory."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _stop_reason(content: Iterable[AnyPart]) -> str | None:
    """Return why a reply ended, as far as its parts show it; they must decide it alone (see `session.py`)."""
    parts = list(content)
    if any(isinstance(part, ToolCall) for part in parts):
        return "tools"
    return "stop" if any(isinstance(part, Text) and part.text for part in parts) else None


def _spawned_thread(output: Any) -> str | None:
    """Return the thread that the output of `spawn_agent` names."""
    try:
        found = msgspec.json.decode(output) if isinstance(output, str) else None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return text_of(found.get("agent_id")) or None if isinstance(found, dict) else None
