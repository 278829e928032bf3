"""Entries of one Claude Code conversation: the main one of a file, or that of a sub-agent.

A message of the model is spread over several lines, one for each block, and results of its first tool calls may stand
between them. `Conversation` collects the lines of a message (`message_ends` says where the last one is), holds back the
records between them, and puts the reply before them.

The reply that is last in a file may still grow. Its id derives from its last line, and `is_known` says which entries an
earlier import has made: where the beginning of a message is known as a reply, the rest of the message becomes a second
reply. So everything that was imported before comes again with the same ids and the same content.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from wakelog.exchange.claude_code.content import (
    SYNTHETIC_MODEL,
    blocks_of,
    count_of,
    has_own_form,
    joined_text,
    object_of,
    provider_of,
    rendered_parts,
    reply_parts,
    result_duration_ms,
    result_status,
    split_blocks,
    stop_reason_of,
    text_of,
    user_kind,
    user_parts,
)
from wakelog.exchange.claude_code.generations import Generations
from wakelog.exchange.claude_code.records import (
    Child,
    Draft,
    MessageUsage,
    Surroundings,
    Titles,
    digest_of_record,
    fingerprint_of,
    has_user_content,
    is_queued_prompt,
    is_reply_line,
    is_tool_use,
    kept_head,
    kind_of,
    message_id_of,
    spilled_text,
)
from wakelog.exchange.records import BadRecord, JsonRecord, Record
from wakelog.exchange.sessions import ImportedEntry, ImportedItem, SkippedRecords, entry_id, timestamp_of, verbatim
from wakelog.log.content import JsonObject, Note, Prompt, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import (
    Cancelled,
    Compaction,
    Custom,
    Failed,
    FaultReport,
    KnownBody,
    Message,
    SessionRenamed,
    Spawned,
)

TOOL = "claude-code"
_ENVIRONMENT_KEYS = ("version", "cwd", "gitBranch")


class _OpenCall(msgspec.Struct, frozen=True):
    reply_id: str
    timestamp: str
    generation: int
    call: ToolCall


class Conversation:
    """Turns the records of one conversation into entries, in one pass."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._around = surroundings
        self._tree = Generations()
        self._titles = Titles()
        self._draft: Draft | None = None
        self._message_end = -1
        self._timestamp = ""
        self._fingerprint: tuple[JsonObject, int] = ({}, 0)
        self._calls: dict[str, deque[_OpenCall]] = {}
        self._child_calls = {child.call: child for child in surroundings.children.values() if child.call}
        self._spawned: set[str] = set()
        self._own_forms = 0
        self._usage = MessageUsage()
        self._has_parents = False
        self._boundary: JsonObject | None = None
        self._kept_entries: dict[str, str] = {}
        # The last compaction: its generation, its key, and whether it names the records that it keeps.
        self._compacted = (-1, "", False)

    def items(self, records: Iterable[JsonRecord]) -> Iterator[ImportedItem]:
        """Yield the items of the conversation."""
        for record in records:
            yield from self._read(record)
        yield from self._finish_draft()
        if self._own_forms:
            reason = f"in {self._own_forms} records, whose results are kept as the model was given them"
            yield SkippedRecords("field toolUseResult", 0, reason)

    def _read(self, record: JsonRecord) -> Iterator[ImportedItem]:
        draft = self._draft
        is_line = True
        if draft is None:
            is_line = self._begin_draft(record)
            if not is_line:
                yield from self._entries(record)
        elif (key := self._key_of_next_line(draft, record)) is not None and isinstance(record, Record):
            draft.add(record, key)
        else:
            is_line = False
            draft.held.append(record)
        draft = self._draft
        if draft is not None and (record.offset >= draft.end or (is_line and self._is_known(draft))):
            yield from self._finish_draft()

    def _is_known(self, draft: Draft) -> bool:
        is_known = self._around.is_known
        return is_known is not None and is_known(self._draft_id(draft))

    def _entries(self, record: JsonRecord) -> Iterator[ImportedItem]:
        if isinstance(record, BadRecord):
            yield record
            return
        if record.offset in self._around.sidechains:
            child = self._around.sidechains[record.offset]
            yield from self._spawn(child, self._open_call(child.call))
            return
        value = record.value
        key = self._key(record)
        if key is None:
            yield SkippedRecords(kind_of(value), 1, "repeats an earlier record")
            return
        self._timestamp = timestamp_of(value.get("timestamp"), self._timestamp)
        match value:
            case {"type": "user"} if has_user_content(value):
                yield from self._user_entries(value, key)
            case {"type": "summary", "message": {"content": str(text)}} if self._boundary is not None and text:
                yield from self._compaction(value, key, text)
            case {"type": "attachment", "attachment": {"type": "queued_command"} as queued} if is_queued_prompt(queued):
                blocks = blocks_of(queued["prompt"])
                yield from self._user_message(value, key, blocks, is_meta=queued.get("isMeta") is True)
            case {"data": {"type": "agent_progress", "agentId": str(agent_id)}, "parentToolUseID": str(call)}:
                yield from self._other_entries(value, key)
                yield from self._spawn(self._around.children.get(agent_id), self._open_call(call))
            case _:
                yield from self._other_entries(value, key)
        if isinstance(value.get("parentUuid"), str):
            self._has_parents = True

    def _key(self, record: Record) -> str | None:
        """Return what identifies a record; None if it is a repetition of an earlier one."""
        uuid = record.value.get("uuid")
        if not isinstance(uuid, str) or not uuid:
            # Not the id of the session: it may stand only in a later record, which is not written yet.
            return f"{record.offset}:{digest_of_record(record.value)}"
        if self._draft is not None and uuid in self._draft.fingerprints:
            is_same = self._draft.fingerprints[uuid] == self._fingerprint_of(record.value)
            return None if is_same else f"{uuid}:{record.offset}"
        generation = self._tree.of(uuid)
        if generation is None:
            return uuid
        if not self._tree.has_same(uuid, self._fingerprint_of(record.value)):
            return f"{uuid}:{record.offset}"
        compacted, compaction_key, names_kept = self._compacted
        # After a compaction, some versions write the records that it keeps once more.
        return None if generation >= compacted or names_kept else f"{uuid}:{compaction_key}"

    def _put(self, value: JsonObject, generation: int, identity: str) -> None:
        """Take note of where a record is, and of its content, by which a repetition is recognised."""
        uuid = value.get("uuid")
        self._tree.put(uuid, generation, self._fingerprint_of(value))
        if isinstance(uuid, str) and uuid in self._around.kept_heads:
            self._kept_entries[uuid] = identity

    def _fingerprint_of(self, value: JsonObject) -> int:
        """Return the fingerprint of a record, which is made once for all entries that the record becomes."""
        if self._fingerprint[0] is not value:
            self._fingerprint = value, fingerprint_of(value)
        return self._fingerprint[1]

    # ── replies ──────────────────────────────────────────────────────────────────────────────────

    def _begin_draft(self, record: JsonRecord) -> bool:
        """Begin the draft of a reply if the record is the first line of a message."""
        if (
            not isinstance(record, Record)
            or record.offset in self._around.sidechains
            or not is_reply_line(record.value)
        ):
            return False
        key = self._key(record)
        if key is None:
            return False
        if record.offset > self._message_end:
            self._message_end = self._around.message_ends.get(record.offset, record.offset)
        self._draft = Draft(record, self._message_end, key)
        return True

    def _key_of_next_line(self, draft: Draft, record: JsonRecord) -> str | None:
        """Return the key of a record that continues the message of a draft; None if it is another record."""
        if not isinstance(record, Record) or record.offset in self._around.sidechains:
            return None
        is_next = is_reply_line(record.value) and message_id_of(record.value) == message_id_of(draft.first) != ""
        return self._key(record) if is_next else None

    def _draft_id(self, draft: Draft) -> str:
        return entry_id(TOOL, draft.full_key)

    def _finish_draft(self) -> Iterator[ImportedItem]:
        """Yield the reply of the draft, and the records that were held back."""
        draft = self._draft
        if draft is None:
            return
        self._draft = None
        first = draft.first
        reply_id = self._draft_id(draft)
        self._timestamp = timestamp_of(first.get("timestamp"), self._timestamp)
        after = self._target(first)
        yield from self._environment_entries(first, draft.key, after)
        body = self._reply_body(draft, reply_id, self._tree.last_entry(after))
        self._tree.begin(reply_id, after)
        for line in draft.lines:
            self._put(line.value, self._tree.current, reply_id)
            self._has_parents = self._has_parents or isinstance(line.value.get("parentUuid"), str)
        yield ImportedEntry(body, records=len(draft.lines))
        if isinstance(body, Message):
            yield from self._open_calls(body, draft)
        for record in draft.held:
            yield from self._read(record)

    def _reply_body(self, draft: Draft, reply_id: str, parent_id: str) -> KnownBody:
        first, last = draft.first, draft.last
        parts = reply_parts(draft.blocks)
        if first.get("isApiErrorMessage") is True:
            error = FaultReport(kind=text_of(first.get("error")) or "api_error", message=joined_text(parts))
            return Failed(id=reply_id, parent_id=parent_id, timestamp=self._timestamp, reason="error", error=error)
        model = text_of(last["message"].get("model")) or None
        reply = Reply(
            content=parts,
            model=model,
            provider=provider_of(model or ""),
            stop_reason=stop_reason_of(last["message"].get("stop_reason")),
            usage=self._usage.new_usage(message_id_of(first), last["message"]) if model != SYNTHETIC_MODEL else None,
            request_id=text_of(last.get("requestId")) or None,
        )
        return Message(id=reply_id, parent_id=parent_id, timestamp=self._timestamp, message=reply)

    def _open_calls(self, body: Message, draft: Draft) -> Iterator[ImportedItem]:
        wanted = [text_of(block.get("id")) for block in draft.blocks if is_tool_use(block)]
        calls = [part for part in body.message.parts if isinstance(part, ToolCall)]
        for foreign_id, call in zip(wanted, calls, strict=True):
            opened = _OpenCall(body.id, body.timestamp, self._tree.current, call)
            self._calls.setdefault(foreign_id, deque()).append(opened)
            if foreign_id in self._child_calls:
                yield from self._spawn(self._child_calls[foreign_id], opened)

    def _open_call(self, foreign_id: str) -> _OpenCall | None:
        return next(iter(self._calls.get(foreign_id, ())), None)

    def _spawn(self, child: Child | None, call: _OpenCall | None) -> Iterator[ImportedItem]:
        """Yield the annotation that a tool call started a sub-agent, once."""
        if child is None or call is None or child.session in self._spawned:
            return
        self._spawned.add(child.session)
        body = Spawned(
            id=entry_id(TOOL, f"spawned:{child.session}"),
            parent_id=call.reply_id,
            timestamp=call.timestamp,
            child_session=child.session,
            reply_id=call.reply_id,
            tool_call_id=call.call.id,
        )
        yield ImportedEntry(body, records=0)

    # ── messages in the user role ────────────────────────────────────────────────────────────────

    def _user_entries(self, value: JsonObject, key: str) -> Iterator[ImportedItem]:
        content = value["message"]["content"]
        blocks = blocks_of(content)
        results, others = split_blocks(blocks)
        if value.get("isCompactSummary") is True and not results:
            yield from self._compaction(value, key, joined_text(user_parts(others)))
            return
        records, piece_key = 1, key
        if results:
            self._own_forms += has_own_form(value)
            yield from self._environment_entries(value, key, self._result_place(results[0]))
        for number, block in enumerate(results, 1):
            made = self._result_entries(value, piece_key, block, is_whole=len(blocks) == 1, is_first=number == 1)
            for item in made:
                yield msgspec.structs.replace(item, records=records)
                records = 0
            piece_key = f"{key}:{number}"
        if others:
            is_meta = value.get("isMeta") is True
            yield from self._user_message(value, piece_key, others, is_meta=is_meta, records=records)

    def _result_place(self, block: JsonObject) -> int:
        """Return the generation that a result is put into: the current one, unless its call is on another branch."""
        opened = self._open_call(text_of(block.get("tool_use_id")))
        if opened is None or self._tree.is_on_branch(opened.generation, self._tree.current):
            return self._tree.current
        return opened.generation

    def _result_entries(
        self, value: JsonObject, key: str, block: JsonObject, *, is_whole: bool, is_first: bool
    ) -> Iterator[ImportedEntry]:
        foreign_id = text_of(block.get("tool_use_id"))
        waiting = self._calls.get(foreign_id)
        if not waiting:
            yield self._verbatim(value, key, "result-without-call", value if is_whole else block)
            return
        place = self._result_place(block)
        opened = waiting.popleft()
        if not waiting:
            del self._calls[foreign_id]
        parts = user_parts(blocks_of(block.get("content")))
        spilled = spilled_text(value, self._around.spilled) if is_first else None
        result = ToolResult(
            content=parts,
            tool_call_id=opened.call.id,
            tool_name=opened.call.name,
            reply_id=opened.reply_id,
            status=result_status(value, block, joined_text(parts)),
            is_error=block.get("is_error") is True,
            duration_ms=result_duration_ms(value),
            truncated=spilled is not None,
        )
        identity, parent_id = entry_id(TOOL, key), self._tree.last_entry(place)
        yield ImportedEntry(Message(id=identity, parent_id=parent_id, timestamp=self._timestamp, message=result))
        self._tree.extend(identity, place)
        self._put(value, place, opened.reply_id)
        if spilled is not None:
            body = self._custom(f"{key}:output", "tool-output", {"toolCallId": opened.call.id}, place)
            yield ImportedEntry(msgspec.structs.replace(body, content=(Text(text=spilled),)), records=0)
            self._tree.extend(body.id, place)
        agent_id = text_of(object_of(value.get("toolUseResult")).get("agentId"))
        for item in self._spawn(self._around.children.get(agent_id), opened):
            if isinstance(item, ImportedEntry):
                yield item

    def _user_message(
        self, value: JsonObject, key: str, blocks: list[Any], *, is_meta: bool, records: int = 1
    ) -> Iterator[ImportedEntry]:
        parts = user_parts(blocks)
        kind = user_kind(joined_text(parts), is_meta=is_meta)
        after = self._target(value, is_prompt=kind == "prompt")
        yield from self._environment_entries(value, key, after)
        identity = entry_id(TOOL, key)
        parent_id = self._tree.last_entry(after)
        if kind == "interrupt":
            reason = joined_text(parts).strip()
            body: KnownBody = Cancelled(id=identity, parent_id=parent_id, timestamp=self._timestamp, reason=reason)
        else:
            message = Prompt(content=parts) if kind == "prompt" else Note(content=parts, custom_type=f"{TOOL}:{kind}")
            body = Message(id=identity, parent_id=parent_id, timestamp=self._timestamp, message=message)
        if kind == "prompt" or after != self._tree.current:
            self._tree.begin(identity, after)
        else:
            self._tree.extend(identity)
        self._put(value, self._tree.current, identity)
        yield ImportedEntry(body, records)

    def _compaction(self, value: JsonObject, key: str, summary: str) -> Iterator[ImportedEntry]:
        metadata, self._boundary = self._boundary or object_of(value.get("compactMetadata")), None
        after = self._target(value)
        yield from self._environment_entries(value, key, after)
        head = kept_head(metadata)
        kept = self._tree.of(head)
        is_kept = kept is not None and self._tree.is_on_branch(kept, after)
        first_kept = self._kept_entries.get(head, "") if is_kept else ""
        body = Compaction(
            id=entry_id(TOOL, key),
            parent_id=self._tree.last_entry(after),
            timestamp=self._timestamp,
            summary=summary,
            first_kept_entry_id=first_kept or None,
            tokens_before=count_of(metadata.get("preTokens")),
            tokens_after=count_of(metadata.get("postTokens")),
            trigger=text_of(metadata.get("trigger")) or "unknown",
        )
        self._tree.begin(body.id, after)
        self._put(value, self._tree.current, body.id)
        self._compacted = (self._tree.current, key, bool(first_kept))
        yield ImportedEntry(body)

    def _target(self, value: JsonObject, *, is_prompt: bool = False) -> int:
        """Return the generation that a record follows. A prompt without a parent begins the conversation anew.

        The parent of a record that is written again is where the record was before, so it follows the current one.
        """
        parent = value.get("parentUuid")
        if self._tree.of(value.get("uuid")) is not None:
            return self._tree.current
        if is_prompt and self._has_parents and "parentUuid" in value and parent is None:
            return 0
        found = self._tree.of(parent)
        return self._tree.current if found is None else found

    # ── other records ────────────────────────────────────────────────────────────────────────────

    def _other_entries(self, value: JsonObject, key: str) -> Iterator[ImportedEntry]:
        yield from self._environment_entries(value, key, self._tree.current)
        if value.get("type") == "system" and value.get("subtype") == "compact_boundary":
            self._boundary = object_of(value.get("compactMetadata"))
        title = self._titles.changed_by(value, lambda uuid: self._tree.of(uuid) is not None)
        if title is not None and self._tree.tip:
            identity = entry_id(TOOL, key)
            yield ImportedEntry(
                SessionRenamed(id=identity, parent_id=self._tree.tip, timestamp=self._timestamp, title=title)
            )
        else:
            yield self._verbatim(value, key, kind_of(value), value)

    def _verbatim(self, value: JsonObject, key: str, kind: str, data: Any) -> ImportedEntry:
        """Return an entry that holds a record unchanged, at the end of the current branch whatever its parent is."""
        named = value.get("parentUuid") or value.get("logicalParentUuid")
        parent = self._tree.of(named)
        entry = verbatim(TOOL, kind, data, key=key, parent_id=self._tree.tip, timestamp=self._timestamp)
        shown = rendered_parts(value.get("rendered")) if value.get("type") == "attachment" else ()
        if shown and isinstance(entry.body, Custom):
            body = msgspec.structs.replace(entry.body, in_context=True, content=shown)
            entry = ImportedEntry(body, is_verbatim=True)
        self._tree.extend(entry.body.id)
        # A record that follows this one follows the parent of this one, if that is elsewhere.
        self._put(value, self._tree.current if parent is None else parent, entry.body.id)
        return entry

    def _environment_entries(self, value: JsonObject, key: str, place: int) -> Iterator[ImportedEntry]:
        """Yield an entry where the version, folder, git branch or session of the records of a branch changes."""
        found = {name: value[name] for name in _ENVIRONMENT_KEYS if isinstance(value.get(name), str)}
        if not found or not isinstance(value.get("uuid"), str):
            return
        session = text_of(value.get("sessionId"))
        if session and session != self._around.session:
            found["sessionId"] = session
            key = f"{key}:{session}"
        if found == self._tree.environment(place):
            return
        self._tree.set_environment(place, found)
        body = self._custom(f"{key}:environment", "environment", found, place)
        self._tree.extend(body.id, place)
        yield ImportedEntry(body, records=0)

    def _custom(self, key: str, kind: str, data: JsonObject, place: int) -> Custom:
        return Custom(
            id=entry_id(TOOL, key),
            parent_id=self._tree.last_entry(place),
            timestamp=self._timestamp,
            custom_type=f"{TOOL}:{kind}",
            data=data,
        )
