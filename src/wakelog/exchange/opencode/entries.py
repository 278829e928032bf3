"""Entries of one OpenCode session, in the order of its messages. `opencode` explains what becomes what."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from wakelog.exchange.opencode.fields import STATED, reply_fields, result_fields, user_fields
from wakelog.exchange.opencode.parts import (
    STEP_TYPES,
    Content,
    child_of,
    ended_at,
    fault_of,
    is_timeless,
    media_of,
    reply_content,
    result_of,
    stop_reason_of,
)
from wakelog.exchange.opencode.records import (
    TOOL,
    StoredMessage,
    StoredPart,
    StoredSession,
    object_of,
    text_of,
    time_text,
)
from wakelog.exchange.opencode.usage import TokenRules, rules_of, usage_of
from wakelog.exchange.sessions import ImportedEntry, ImportedItem, SkippedRecords, entry_id, session_id
from wakelog.log.content import AnyPart, JsonObject, Note, Prompt, Reply, Text, Usage
from wakelog.log.entry import (
    Compaction,
    Custom,
    Head,
    KnownBody,
    Message,
    ModelChange,
    Node,
    SessionArchived,
    SessionRenamed,
    Spawned,
)

_KIND_CHARS = 60
# What OpenCode sets when it creates a session. The rest of the record is updated in place, or is a secret.
_LASTING_KEYS = ("id", "slug", "projectID", "workspaceID", "parentID", "directory", "version")
_IN_PROGRESS = "OpenCode had not finished it; importing again brings it"
_WAITS = "it stands behind a reply that OpenCode had not finished; importing again brings it"
# Messages behind a reply that has not ended: behind more than these it is final.
_WAITING_MAX = 1_000


def session_items(session: StoredSession) -> Iterator[ImportedItem]:
    """Yield the entries of a session, and what is not among them."""
    return _SessionWriter(session).items()


class _SessionWriter:
    """Places entries one below the other and remembers the ids that later entries refer to."""

    def __init__(self, session: StoredSession) -> None:
        self._session = session
        self._tip: str | None = None
        self._started = time_text(object_of(session.info.get("time")).get("created"))
        self._uncounted = 0
        """Records of a message that the next entry made of it accounts for."""
        self._scope = ""
        """The entry of the current message that its later entries stand behind: with another one, they are others."""
        self._renamed = deque(session.renames)
        self._count = 0
        """The number of messages before the current one."""
        self._used: set[str] = set()
        self._numbers: dict[str, int] = {}
        """How often each key was used."""
        self._stated: dict[tuple[object, str], Any] = {}
        """What messages of a role said last about themselves."""
        self._first_entries: dict[str, str] = {}
        self._markers: dict[str, JsonObject] = {}
        """Compaction parts by the id of their message."""
        self._revert = object_of(session.info.get("revert"))
        self._is_reverted = False
        self._hidden: Head | None = None
        """The move of the head that ends a run of hidden messages; its target is the entry before them."""

    def items(self) -> Iterator[ImportedItem]:
        session = self._session
        root = None
        if session.records:
            yield self._root_entry()
            root = self._tip
        waiting: deque[StoredMessage] = deque()
        for found in session.messages:
            if not isinstance(found, StoredMessage):
                yield found
                continue
            if waiting and (_is_reply(found) or not self._is_open(waiting[0]) or len(waiting) > _WAITING_MAX):
                yield from self._taken(waiting)
            waiting.append(found)
        yield from self._last(waiting)
        yield from self._renames(None)
        yield from self._end_of_hidden()
        archived = time_text(object_of(session.info.get("time")).get("archived"))
        if archived and root is not None:
            yield self._place(SessionArchived(), f"{session.id}:archived", archived, records=0, parent=root)

    def _taken(self, messages: deque[StoredMessage]) -> Iterator[ImportedItem]:
        """Yield the entries of messages that are final."""
        while messages:
            yield from self._renames(self._count)
            yield from self._message(messages.popleft())
            self._count += 1

    def _last(self, messages: deque[StoredMessage]) -> Iterator[ImportedItem]:
        """Yield the entries of the last message: of an open reply as far as it is final, and not what waits for it."""
        if messages:
            first = messages.popleft()
            yield from self._renames(self._count)
            yield from self._message(first, is_last=not messages, is_open=self._is_open(first))
        for message in messages:
            count = message.records + sum(part.records for part in message.parts)
            yield SkippedRecords("waiting message", count, _WAITS)

    def _is_open(self, message: StoredMessage) -> bool:
        """Return whether OpenCode may still be writing a reply."""
        return self._session.is_live and _has_no_end(message)

    # ── placing ──────────────────────────────────────────────────────────────────────────────────

    def _place(
        self, body: KnownBody, key: str, timestamp: str, *, records: int, parent: str | None = None
    ) -> ImportedEntry:
        """Return an entry below the last node, or about `parent`."""
        is_verbatim = isinstance(body, Custom)
        if not is_verbatim:
            records, self._uncounted = records + self._uncounted, 0
        key = f"{self._scope}:{key}" if self._scope else key
        placed = msgspec.structs.replace(body, id=self._new_id(key), parent_id=parent or self._tip, timestamp=timestamp)
        if isinstance(placed, Node):
            self._tip = placed.id
        return ImportedEntry(placed, records=records, is_verbatim=is_verbatim)

    def _new_id(self, key: str) -> str:
        """Return the id for a key. A key that occurs twice, which only a damaged source has, is numbered."""
        number = self._numbers.get(key, 0) + 1
        found = entry_id(TOOL, key if number == 1 else f"{key}#{number}")
        while found in self._used:
            number += 1
            found = entry_id(TOOL, f"{key}#{number}")
        self._numbers[key] = number
        self._used.add(found)
        return found

    def _verbatim(self, kind: object, value: Any, key: str, timestamp: str, records: int) -> ImportedEntry:
        name = kind[:_KIND_CHARS] if isinstance(kind, str) and kind else "unknown"
        return self._place(Custom(custom_type=f"{TOOL}:{name}", data=value), key, timestamp, records=records)

    def _root_entry(self) -> ImportedEntry:
        info = self._session.info
        lasting = {key: info[key] for key in _LASTING_KEYS if info.get(key) is not None}
        data = {**lasting, "time": {"created": object_of(info.get("time")).get("created")}}
        return self._verbatim("session", data, self._session.id, self._started, self._session.records)

    def _renames(self, count: int | None) -> Iterator[ImportedItem]:
        """Yield the changes of the title up to a number of messages; all if it is None."""
        while self._renamed and (count is None or self._renamed[0].after <= count):
            rename = self._renamed.popleft()
            if self._tip is not None:
                key = f"{self._session.id}:title:{rename.title}"
                yield self._place(SessionRenamed(title=rename.title), key, rename.timestamp, records=0)

    def _fields(self, message: StoredMessage, rest: JsonObject, timestamp: str) -> Iterator[ImportedItem]:
        """Yield the fields of a message without a counterpart; those that every message has, where they change."""
        role, kept = message.info.get("role"), dict(rest)
        for name in STATED:
            if name in kept and kept[name] == self._stated.get((role, name)):
                del kept[name]
            elif name in kept:
                self._stated[role, name] = kept[name]
        yield from self._kept_fields(kept, message.id, timestamp)

    def _kept_fields(self, rest: JsonObject, key: str, timestamp: str) -> Iterator[ImportedItem]:
        if rest:
            yield self._verbatim("fields", rest, f"{key}:fields", timestamp, 0)

    # ── hidden messages ──────────────────────────────────────────────────────────────────────────

    def _hide_from(self, key: str, timestamp: str) -> None:
        if self._hidden is None:
            target = self._tip or ""
            self._hidden = Head(id=f"{self._session.id}:head:{key}", target_id=target, timestamp=timestamp)

    def _end_of_hidden(self) -> Iterator[ImportedItem]:
        """Yield the move of the head back before hidden messages; what follows continues there."""
        hidden, self._hidden = self._hidden, None
        if hidden is not None:
            self._tip = hidden.target_id or None
            if self._tip is not None:
                yield self._place(Head(target_id=self._tip), hidden.id, hidden.timestamp, records=0)

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def _message(
        self, message: StoredMessage, *, is_last: bool = False, is_open: bool = False
    ) -> Iterator[ImportedItem]:
        info = message.info
        timestamp = time_text(object_of(info.get("time")).get("created"), time_text(message.created, self._started))
        is_boundary = message.id == self._revert.get("messageID")
        is_kept = message.is_new or bool(self._revert.get("partID"))
        if message.is_removed or self._is_reverted or (is_boundary and not is_kept):
            self._hide_from(message.id, timestamp)
        elif self._hidden is not None:
            yield from self._end_of_hidden()
        before = self._tip
        self._uncounted = message.records
        match message.kind or info.get("role"):
            case _ if isinstance(info.get("parts"), list) and not message.parts and not message.kind:
                # A message of July 2025 or before.
                made = self._whole(message, "message", timestamp)
            case "user" if not message.kind:
                made = self._user(message, timestamp, is_last=is_last)
            case "assistant" if not message.kind:
                made = self._assistant(message, timestamp, is_open=is_open)
            case "shell" if is_open:
                made = iter([SkippedRecords("shell command in progress", self._take_uncounted(), _IN_PROGRESS)])
            case "shell" | "compaction" | "model-switched" if (body := _body_of(message)) is not None:
                made = iter([self._place(body, message.id, timestamp, records=0)])
            case _:
                made = self._whole(message, message.kind or "message", timestamp)
        for item in made:
            if isinstance(item, ImportedEntry) and message.id not in self._first_entries and self._tip != before:
                self._first_entries[message.id] = item.body.id
            yield item
        self._scope = ""
        self._is_reverted = self._is_reverted or is_boundary

    def _take_uncounted(self) -> int:
        taken, self._uncounted = self._uncounted, 0
        return taken

    def _whole(self, message: StoredMessage, kind: str, timestamp: str) -> Iterator[ImportedItem]:
        """Yield a message with all its parts, verbatim."""
        parts = [part.value for part in message.parts]
        value = message.info if message.kind else {"info": message.info, "parts": parts}
        records = self._take_uncounted() + sum(part.records for part in message.parts)
        yield self._verbatim(kind, value, _key(message.id, (part.id for part in message.parts)), timestamp, records)

    def _user(self, message: StoredMessage, timestamp: str, *, is_last: bool) -> Iterator[ImportedItem]:
        """Yield the prompt, at the place of its first part, and a note for each text that OpenCode added."""
        marker = next((part for part in message.parts if part.value.get("type") == "compaction"), None)
        if marker is not None:
            self._markers[message.id] = marker.value
        if is_last and not message.parts:
            yield SkippedRecords("prompt in progress", self._take_uncounted(), _IN_PROGRESS)
            return
        said = [(part, content) for part in message.parts if (content := _said(part.value)) is not None]
        if not said and not any(_is_synthetic(part.value) for part in message.parts):
            yield from self._whole(message, "message" if marker is None else "compaction", timestamp)
            return
        spoken = {part.id for part, _ in said}
        for part in message.parts:
            if said and part.id == said[0][0].id:
                prompt = Prompt(content=tuple(content for _, content in said))
                records = sum(each.records for each, _ in said)
                key = _key(message.id, (each.id for each, _ in said))
                entry = self._place(Message(message=prompt), key, timestamp, records=records)
                self._scope = entry.body.id
                yield entry
            elif part.id not in spoken:
                yield self._added(part, timestamp)
        mapped = [part for part in message.parts if part.id in spoken or _is_synthetic(part.value)]
        yield from self._fields(message, user_fields(message, mapped), timestamp)

    def _added(self, part: StoredPart, timestamp: str) -> ImportedEntry:
        value = part.value
        if not _is_synthetic(value):
            return self._verbatim(value.get("type"), value, part.id, timestamp, part.records)
        kind = text_of(value.get("kind"), "synthetic")
        note = Note(content=(Text(text=value["text"]),), custom_type=f"{TOOL}:{kind}")
        return self._place(Message(message=note), part.id, timestamp, records=part.records)

    # ── replies ──────────────────────────────────────────────────────────────────────────────────

    def _assistant(self, message: StoredMessage, timestamp: str, *, is_open: bool) -> Iterator[ImportedItem]:
        """Yield a reply for each model step, with the results of its calls; or a compaction."""
        info = message.info
        steps = _steps(message.parts)
        if is_open and not any(content.calls for content in (reply_content(step, is_open=True) for step in steps)):
            count = self._take_uncounted() + sum(part.records for part in message.parts)
            yield SkippedRecords("reply in progress", count, _IN_PROGRESS)
            return
        if _is_summary(info):
            yield from self._summary(message, timestamp)
            return
        rules = rules_of(text_of(self._session.info.get("version")), info)
        is_counted = len(steps) > 1 and any(_step_usage(step, rules) is not None for step in steps)
        for at, step in enumerate(steps):
            if self._revert.get("partID") in [part.id for part in step] and message.id == self._revert.get("messageID"):
                self._hide_from(f"{message.id}:{self._revert['partID']}", timestamp)
            content = reply_content(step, is_open=is_open)
            is_final = at == len(steps) - 1
            whole = usage_of(info, rules) if is_final and not is_counted else None
            reply = Reply(
                content=tuple(content.parts),
                model=text_of(info.get("modelID")) or text_of(object_of(info.get("model")).get("modelID")) or None,
                provider=text_of(info.get("providerID"))
                or text_of(object_of(info.get("model")).get("providerID"))
                or None,
                stop_reason=stop_reason_of(info, step, is_last=is_final),
                usage=whole or _step_usage(step, rules),
            )
            yield from self._step(reply, content, timestamp, key=f"{message.id}:{at}" if at else message.id)
        fault = fault_of(info)
        if fault is not None:
            yield self._place(fault, f"{message.id}:error", timestamp, records=0)
        if not self._uncounted and not is_open:
            yield from self._fields(message, reply_fields(message, message.parts), timestamp)
        if self._uncounted:
            reason = _IN_PROGRESS if is_open else "OpenCode stopped before the model said anything"
            yield SkippedRecords("empty reply", self._take_uncounted(), reason)

    def _step(self, reply: Reply, content: Content, timestamp: str, key: str) -> Iterator[ImportedItem]:
        if reply.content or reply.usage is not None:
            entry = self._place(Message(message=reply), _key(key, content.keys), timestamp, records=content.records)
            self._scope = entry.body.id
            yield entry
            for call in content.calls:
                yield from self._spawned(child_of(call.part), entry.body.id, call.id, call.part.id, timestamp)
            results = [
                (ended_at(call, timestamp), call.part, result)
                for call in content.calls
                if (result := result_of(call, entry.body.id)) is not None
            ]
            # In the order in which the tools ended: a later import adds those that were still running behind them.
            for ended, part, result in sorted(results, key=lambda each: each[0]):
                yield self._place(Message(message=result), f"{part.id}:result", ended, records=0)
                yield from self._kept_fields(result_fields(part.value["state"]), f"{part.id}:result", ended)
        else:
            self._uncounted += content.records
        for part in content.others:
            yield self._verbatim(part.value.get("type"), part.value, part.id, timestamp, part.records)
        if content.growing:
            yield SkippedRecords("part in progress", content.growing, _IN_PROGRESS)

    def _spawned(self, child: str, reply_id: str, call_id: str, part_id: str, timestamp: str) -> Iterator[ImportedItem]:
        started = self._session.started_of(child) if child else None
        if started is not None:
            body = Spawned(child_session=session_id(TOOL, child), reply_id=reply_id, tool_call_id=call_id)
            yield self._place(body, f"{part_id}:spawned", timestamp, records=0, parent=reply_id)

    def _summary(self, message: StoredMessage, timestamp: str) -> Iterator[ImportedItem]:
        """Yield the compaction that a summary is. What the marker before it says to keep stays in the context."""
        info = message.info
        marker = self._markers.get(text_of(info.get("parentID")), {})
        rules = rules_of(text_of(self._session.info.get("version")), info)
        usage = usage_of(info, rules) or _step_usage(message.parts, rules)
        read = 0 if usage is None else usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        folded = [part for part in message.parts if part.value.get("type") in _SUMMARY_TYPES]
        compaction = Compaction(
            summary=_joined_text(message.parts),
            first_kept_entry_id=self._first_entries.get(text_of(marker.get("tail_start_id"))),
            tokens_before=read or None,
            trigger="auto" if marker.get("auto") is True else "manual",
            usage=usage,
        )
        records = sum(part.records for part in folded)
        yield self._place(compaction, message.id, timestamp, records=records)
        for part in message.parts:
            if part.value.get("type") not in _SUMMARY_TYPES:
                yield self._verbatim(part.value.get("type"), part.value, part.id, timestamp, part.records)
        yield from self._fields(message, reply_fields(message, folded), timestamp)


def _key(message: str, parts: Iterable[str]) -> str:
    """Return the key of an entry that is made of these parts of a message: with other parts it is another entry."""
    return ":".join([message, *parts])


def _said(value: JsonObject) -> AnyPart | None:
    """Return what a part of a user message holds of a person's own: text, or media; None for everything else."""
    if value.get("type") == "text":
        text = value.get("text")
        is_own = isinstance(text, str) and not value.get("synthetic") and not value.get("ignored")
        return Text(text=str(text)) if is_own and text else None
    return media_of(value) if value.get("type") == "file" else None


def _is_synthetic(value: JsonObject) -> bool:
    """Return whether OpenCode added a text for the model to a message of a person."""
    is_text = value.get("type") == "text" and isinstance(value.get("text"), str)
    return is_text and bool(value.get("synthetic")) and not value.get("ignored")


def _is_reply(message: StoredMessage) -> bool:
    """Return whether a message is a reply, or a command that runs."""
    return message.kind == "shell" or (message.info.get("role") == "assistant" and not message.kind)


def _has_no_end(message: StoredMessage) -> bool:
    """Return whether a reply or command says when it began but not that, or how, it ended."""
    info = message.info
    time = object_of(info.get("time"))
    is_ended = time.get("completed") or info.get("error") or info.get("finish") or message.is_removed
    is_begun = _is_reply(message) and bool(time.get("created")) and not is_ended
    return is_begun and not any(is_timeless(part.value) for part in message.parts)


def _is_summary(info: JsonObject) -> bool:
    """Return whether OpenCode takes a message for a summary, also for an empty one."""
    is_done = bool(info.get("finish") or object_of(info.get("time")).get("completed")) and not info.get("error")
    return info.get("summary") is True and is_done


def _joined_text(parts: Iterable[StoredPart]) -> str:
    return "\n\n".join(
        text for part in parts if part.value.get("type") == "text" and (text := text_of(part.value.get("text")))
    )


def _steps(parts: list[StoredPart]) -> list[list[StoredPart]]:
    """Return the parts of each model step. Versions of 2025 kept all steps of a turn in one message."""
    steps: list[list[StoredPart]] = [[]]
    has_content = False
    for part in parts:
        if part.value.get("type") == "step-start" and has_content:
            steps.append([])
            has_content = False
        steps[-1].append(part)
        has_content = has_content or part.value.get("type") in _CONTENT
    return steps


_CONTENT = ("text", "reasoning", "tool")
_SUMMARY_TYPES = ("text", *STEP_TYPES)


def _step_usage(parts: Iterable[StoredPart], rules: TokenRules) -> Usage | None:
    return next((usage_of(part.value, rules) for part in parts if part.value.get("type") == "step-finish"), None)


def _body_of(message: StoredMessage) -> KnownBody | None:
    """Return the entry that a `session_message` row without a V1 counterpart becomes; None if it does not fit."""
    match message.info:
        case {"type": "shell", "command": str(command), "output": str(output)}:
            note = Note(content=(Text(text=f"Shell command: {command}\n\n{output}"),), custom_type=f"{TOOL}:shell")
            return Message(message=note)
        case {"type": "compaction", "summary": str(summary)} as info:
            recent = text_of(info.get("recent"))
            text = f"{summary}\n\n{recent}" if recent else summary
            return Compaction(summary=text, trigger=text_of(info.get("reason"), "manual"))
        case {"type": "model-switched", "model": {"id": str(model)} as ref}:
            return ModelChange(model=model, provider=text_of(object_of(ref).get("providerID")) or None)
    return None
