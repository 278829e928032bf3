"""Entries of a Codex session while its lines are read: the reply in progress, its usage, its open tool calls.

The rules for replies and ids are in the first lines of `session.py` and `identities.py`.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from wakelog.decide.assembly import with_unique_call_ids
from wakelog.exchange.codex.calls import OpenCall, OpenCalls, result_of, spawned_thread
from wakelog.exchange.codex.displays import Displays, ShownLine
from wakelog.exchange.codex.identities import Identities
from wakelog.exchange.codex.items import TOOL, is_from_model, key_of, model_parts, text_of, usage_of
from wakelog.exchange.codex.lines import Line
from wakelog.exchange.sessions import ImportedEntry, ImportedItem, SkippedRecords, session_id
from wakelog.log.content import AnyMessage, AnyPart, JsonObject, Reply, Text, ToolCall, Usage
from wakelog.log.entry import Custom, KnownBody, Message, Node, Spawned

_REPEATS_ITEM = "repeats a response item"
_NO_USAGE = "holds rate limits, or usage that was counted before"
_WAITS = "may belong to a response item that is not written yet"
# How many items a compaction may keep and still be recognised as one that keeps entries.
_KEPT_ITEMS_MAX = 10_000
# Lines that wait for the end of a reply or for its usage are held back, up to this distance in the file.
_HELD_BYTES = 16 * 1024 * 1024


class _UsageLine(msgspec.Struct, frozen=True):
    """A line with usage that stands before the reply it may belong to."""

    line: Line
    timestamp: str
    usage: Usage
    number: int


class _Draft(msgspec.Struct):
    """The reply in progress. `line` is its last line; `early` is the usage before its items, if it may be its own."""

    line: Line
    offset: int
    timestamp: str
    model: str | None
    provider: str | None
    parts: list[AnyPart] = []
    keys: list[str] = []
    identity: str = ""
    after: str | None = None
    usage: Usage | None = None
    request_id: str | None = None
    early: _UsageLine | None = None
    held: list[tuple[Line, str]] = []
    """The lines between its items, with their times."""

    @property
    def records(self) -> int:
        """The number of lines that became this reply."""
        return len(self.keys) + (self.usage is not None)


class _Awaiting(msgspec.Struct):
    """A reply in the queue whose usage may follow. `is_cut`: it ended where an earlier import had ended it."""

    place: int
    offset: int
    early: _UsageLine | None
    is_cut: bool


class EntryBuilder:
    """The entries made so far, and what is needed to make the next ones.

    `is_known` says which entries an earlier import of the same session has made.
    """

    def __init__(self, session: str, started: str, is_known: Callable[[str], bool] | None = None) -> None:
        self.tip: str | None = None
        self.timestamp = started
        self.model: str | None = None
        self.provider: str | None = None
        self.context_tokens: int | None = None
        self.ids = Identities(session)
        self._is_known = is_known
        self._number = 0
        self._queue: list[ImportedItem] = []
        self._skipped: Counter[tuple[str, str]] = Counter()
        self._draft: _Draft | None = None
        self._displays = Displays()
        self._calls = OpenCalls()
        # The last items that the model saw, each with the id of its entry.
        self._recent: deque[tuple[str, str]] = deque(maxlen=_KEPT_ITEMS_MAX)
        # Usage without a reply, a reply without usage, and whether this version of Codex writes usage first.
        self._pending: _UsageLine | None = None
        self._awaiting: _Awaiting | None = None
        self._total: Any = None
        self._is_usage_first: bool | None = None
        self._has_usage_records = False

    # ── entries ──────────────────────────────────────────────────────────────────────────────────

    def begin_line(self, line: Line, timestamp: str) -> None:
        """Take note of the next line. What has waited for too long waits no longer."""
        self.timestamp = timestamp
        self._number += 1
        waiting = (self._draft, self._awaiting)
        offsets = [self._displays.first_offset, *(each.offset for each in waiting if each is not None)]
        if any(offset is not None and line.offset - offset > _HELD_BYTES for offset in offsets):
            self.end_reply()

    def finished(self) -> Iterator[ImportedItem]:
        """Yield the entries that no later line changes, each once."""
        if self._awaiting is None:
            queue, self._queue = self._queue, []
            yield from queue

    def finish(self) -> None:
        """End the reply in which the file ends. A line that may belong to what is not written yet is only counted."""
        for shown in self._displays.take_all():
            self.skip(shown.line, _WAITS)
        if self._pending is not None:
            self.skip(self._pending.line, _WAITS)
            self._pending = None
        self.end_reply(may_wait=True)
        if self._awaiting is not None and (early := self._without_early(self._awaiting)) is not None:
            self.skip(early.line, _WAITS)
        self._awaiting = None

    def skipped(self) -> Iterator[SkippedRecords]:
        """Yield the counts of skipped lines."""
        for (kind, reason), count in self._skipped.items():
            yield SkippedRecords(kind, count, reason)

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
        body = Custom(
            id=self.ids.take(line, line.identity, suffix),
            parent_id=self.tip,
            timestamp=timestamp or self.timestamp,
            custom_type=f"{TOOL}:{line.name}",
            data=line.value if data is None else data,
        )
        self.add(body, records, is_verbatim=True)

    def keep(self, line: Line) -> None:
        """Keep a line verbatim: at once, or behind the reply in progress."""
        self._keep_pending_usage()
        if self._draft is None:
            self.add_verbatim(line)
        else:
            self._draft.held.append((line, self.timestamp))

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
        tail = list(islice(reversed(self._recent), count + 1 if count else 0))[::-1]
        before, tail = tail[:-count], tail[-count:]
        if not count or [key for key, _ in tail] != [key_of(item) for item in items]:
            return None
        first = tail[0][1]
        return None if before and before[0][1] == first else first

    # ── displayed texts ──────────────────────────────────────────────────────────────────────────

    def keep_unless_repeated(self, line: Line, text: str) -> None:
        """Skip an event that displays the text of an item, before or after that item; else keep it."""
        if self._displays.is_displayed(text):
            self.skip(line, _REPEATS_ITEM)
        else:
            self._displays.wait(text, ShownLine(line, self.timestamp, self._number))

    def note_displayed(self, item: JsonObject, *, is_prompt: bool = False) -> None:
        """Note the texts of an item, and skip the events before it that display them. A prompt begins anew."""
        for shown in self._displays.note_item(item, is_prompt=is_prompt):
            self.skip(shown.line, _REPEATS_ITEM)
            if self._pending is not None and shown.number < self._pending.number and not is_prompt:
                # The response was over when its usage was written, and only then were its items.
                self._is_usage_first = True

    # ── replies ──────────────────────────────────────────────────────────────────────────────────

    @property
    def is_between_replies(self) -> bool:
        """Whether no reply is in progress and no line waits."""
        return self._draft is None and not self._displays and self._pending is None

    def extend_reply(self, line: Line, item: JsonObject) -> None:
        """Add an item of the model to the reply in progress, or begin one with it."""
        assert is_from_model(item)
        draft = self._draft = self._draft or self._begin_reply(line)
        draft.parts.extend(model_parts(item, draft.after))
        if item.get("type") == "reasoning":
            draft.after = text_of(item.get("id")) or draft.after
        draft.keys.append(key_of(item))
        draft.line, draft.identity = line, self.ids.of_item(item)
        if self._is_known is not None and self._is_known(self.ids.find(line, draft.identity)):
            self._await_usage(draft, self._end_draft(draft), is_cut=True)

    def _begin_reply(self, line: Line) -> _Draft:
        draft = _Draft(line, line.offset, self.timestamp, self.model, self.provider)
        awaiting, self._awaiting = self._awaiting, None
        if awaiting is not None and awaiting.is_cut:
            draft.early = self._without_early(awaiting)
        elif awaiting is not None and awaiting.early is not None:
            self._is_usage_first = True
        if self._pending is not None and self._is_usage_first is not False:
            draft.early, self._pending = self._pending, None
        self._keep_pending_usage()
        draft.usage = draft.early.usage if draft.early is not None else None
        return draft

    def end_reply(self, *, may_wait: bool = False) -> None:
        """End the reply in progress, if there is one. With `may_wait`, its usage may still follow."""
        draft = self._draft
        if not may_wait:
            if self._awaiting is not None and self._awaiting.early is not None:
                self._is_usage_first = True
            self._awaiting = None
        elif self._awaiting is not None:
            self._awaiting.is_cut = False
        if draft is not None:
            place = self._end_draft(draft)
            if may_wait:
                self._await_usage(draft, place, is_cut=False)
            elif draft.early is not None:
                self._is_usage_first = True
        for shown in self._displays.take_all():
            self.add_verbatim(shown.line, timestamp=shown.timestamp)
        self._keep_pending_usage()

    def _end_draft(self, draft: _Draft) -> int:
        """Add the reply in progress, and the lines between its items; return its place in the queue."""
        self._draft = None
        content = with_unique_call_ids(draft.parts)
        reply_id = self.ids.take(draft.line, draft.identity)
        reply = Reply(
            content=content,
            model=draft.model,
            provider=draft.provider,
            stop_reason=_stop_reason(content),
            usage=draft.usage,
            request_id=draft.request_id,
        )
        place = len(self._queue)
        self.add(Message(id=reply_id, parent_id=self.tip, timestamp=draft.timestamp, message=reply), draft.records)
        self._recent.extend((key, reply_id) for key in draft.keys)
        for call, child in self._calls.open(reply_id, draft.parts, content):
            self._add_spawned(draft.line, call, child)
        for line, timestamp in draft.held:
            self.add_verbatim(line, timestamp=timestamp)
        return place

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
            self._keep_pending_usage()
            self._pending = _UsageLine(line, self.timestamp, usage, self._number)

    def _give_usage(self, usage: Usage, request_id: str | None = None) -> bool:
        """Give usage to the reply in progress, which it ends, or to the one that waits; return whether there is one."""
        draft, awaiting = self._draft, self._awaiting
        if draft is not None:
            self._is_usage_first = False
            if draft.early is not None:
                draft.held.append((draft.early.line, draft.early.timestamp))
                draft.early = None
            draft.usage, draft.request_id = usage, request_id
            self.end_reply()
            return True
        if awaiting is None or (self._is_usage_first and not awaiting.is_cut):
            return False
        if (early := self._without_early(awaiting)) is not None:
            self._is_usage_first = False
            self.add_verbatim(early.line, timestamp=early.timestamp)
        self._set_usage(awaiting.place, usage, request_id)
        self._awaiting = None
        return True

    def _await_usage(self, draft: _Draft, place: int, *, is_cut: bool) -> None:
        """Let a reply that has ended wait for its usage, unless it is certain that it has its own."""
        early = draft.early if self._is_usage_first is None else None
        if draft.usage is None or early is not None:
            self._awaiting = _Awaiting(place, draft.offset, early, is_cut)

    def _without_early(self, awaiting: _Awaiting) -> _UsageLine | None:
        """Take the usage before a reply away from it again; return it, or None if the reply has no such usage."""
        early, awaiting.early = awaiting.early, None
        if early is not None:
            self._set_usage(awaiting.place, None)
        return early

    def _set_usage(self, place: int, usage: Usage | None, request_id: str | None = None) -> None:
        """Give a reply in the queue its usage, or take it away."""
        waiting = self._queue[place]
        assert isinstance(waiting, ImportedEntry)
        assert isinstance(waiting.body, Message)
        reply = msgspec.structs.replace(waiting.body.message, usage=usage, request_id=request_id)
        body = msgspec.structs.replace(waiting.body, message=reply)
        self._queue[place] = ImportedEntry(body, waiting.records + (1 if usage is not None else -1))

    def _keep_pending_usage(self) -> None:
        """Keep usage that no reply follows directly as it is."""
        pending, self._pending = self._pending, None
        if pending is not None:
            self.add_verbatim(pending.line, timestamp=pending.timestamp)

    # ── tool calls ───────────────────────────────────────────────────────────────────────────────

    def forget_branch(self) -> None:
        """Forget open tool calls and the last items: they are on a branch that was left."""
        self._calls.clear()
        self._recent.clear()

    def take_result(self, line: Line, item: JsonObject) -> None:
        """Add the result of an open tool call; without one the line is kept verbatim."""
        identity, call = self.ids.of_item(item), self._calls.close(item)
        if call is None:
            self.add_verbatim(line)
            return
        result_id = self.ids.take(line, identity)
        self.add_message(result_id, result_of(call, item))
        self.note_item(item, result_id)
        if child := spawned_thread(call, item):
            self._add_spawned(line, call, child)

    def note_spawned(self, line: Line, call_id: Any, child: Any) -> None:
        """Note that a call started a sub-agent; the reply with the call may be in progress."""
        if not isinstance(call_id, str) or not isinstance(child, str):
            return
        if (call := self._calls.first(call_id)) is not None:
            self._add_spawned(line, call, child)
        elif self._draft is not None:
            self._calls.note_child(call_id, child)

    def _add_spawned(self, line: Line, call: OpenCall, child: str) -> None:
        key = f"spawned:{call.reply_id}:{child}"
        if key in self.ids:
            return
        body = Spawned(
            id=self.ids.take(line, key),
            parent_id=call.reply_id,
            timestamp=self.timestamp,
            child_session=session_id(TOOL, child),
            reply_id=call.reply_id,
            tool_call_id=call.id,
        )
        self.add(body, 0)


def _stop_reason(content: Iterable[AnyPart]) -> str | None:
    """Return why a reply ended, as far as its parts show it; they must decide it alone (see `session.py`)."""
    parts = list(content)
    if any(isinstance(part, ToolCall) for part in parts):
        return "tools"
    return "stop" if any(isinstance(part, Text) and part.text for part in parts) else None
