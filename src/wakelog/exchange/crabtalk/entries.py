"""Entries of one crabtalk session, out of its lines in order: messages, events, and markers of compactions.

Lines have no ids, and a rewind writes those that it keeps once more, so an entry is identified by its content and the
number of equal ones before it. The model and the usage of a run are only in the event that ends it, and the duration of
a tool run only in its event. Both stand behind the messages: a run is therefore read as a whole. The events are kept
verbatim as well, so that nothing is missing if a session is imported before they are written.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from wakelog.exchange.chains import (
    EntryChain,
    call_fields,
    count_of,
    has_known_part,
    image_of,
    object_of,
    part_fields,
    text_of,
    tool_call,
    without,
)
from wakelog.exchange.crabtalk.runs import DELETED_SUFFIX, Line, is_prompt, message_of
from wakelog.exchange.records import BadRecord
from wakelog.exchange.sessions import ImportedItem, timestamp_of
from wakelog.log.content import (
    AnyPart,
    Image,
    JsonObject,
    Prompt,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
    Usage,
)
from wakelog.log.entry import Compaction, Custom, Head, Message

TOOL = "crabtalk"
_RUN_RECORDS_MAX = 2_000
"""Longer runs are read in pieces."""
_KNOWN_PARTS = {
    "text": ("text",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id", "name", "content", "is_error"),
    "image": ("source",),
    "image_url": ("image_url",),
}
_MESSAGE_FIELDS = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name")


class LineReader:
    """Turns the lines of one session into entries. `archive` returns the text that a compaction names.

    `scope` distinguishes messages from equal ones that a compaction deleted.
    """

    def __init__(
        self, chain: EntryChain, started: str, archive: Callable[[str], str | None] | None = None, scope: str = ""
    ) -> None:
        self._chain = chain
        self._time = started
        self._archive = archive
        self._scope = scope
        self._home: str | None = None
        """The node that the next one goes under, while events are read whose messages are not there."""

    def read(self, lines: Iterable[Line]) -> Iterator[ImportedItem]:
        """Yield the entries of lines, and the bad ones."""
        run: list[Line] = []
        for line in lines:
            if run and (_begins_run(line.value) or len(run) >= _RUN_RECORDS_MAX):
                yield from self._run(run)
                run = []
            run.append(line)
        yield from self._run(run)
        yield from self._return()

    def _run(self, run: list[Line]) -> Iterator[ImportedItem]:
        """Yield the entries of a run; what its events say about a reply or a result is added to these."""
        events = [object_of(line.value) for line in run if is_event(line.value) and not line.is_apart]
        # In files, events of runs whose messages were deleted may follow.
        done = next((event for event in events if event["event"] == "done"), {})
        durations = {
            text_of(event.get("call_id")): count_of(event.get("duration_ms"))
            for event in events
            if event["event"] == "tool_result"
        }
        replies = [line for line in run if message_of(line.value).get("role") == "assistant"]
        for line in run:
            if isinstance(line.value, BadRecord):
                yield line.value
            else:
                yield from self._line(line, done if replies and line is replies[-1] else {}, durations)

    def _line(self, line: Line, done: JsonObject, durations: dict[str, int | None]) -> Iterator[ImportedItem]:
        record = line.value
        if line.is_apart and self._home is None:
            self._home = self._chain.tip
        elif not line.is_apart and self._home is not None:
            self._chain.tip, self._home = self._home, None
        if is_event(record):
            yield from self._event(line)
            return
        if is_compaction(record):
            yield from self._compaction(record, line.records)
            return
        key = self._chain.content_key(record, self._scope)
        message = message_of(record)
        made = self._message(message, key, done, durations)
        if not made:
            yield self._chain.verbatim(message.get("role") or "record", record, key, self._time, records=line.records)
            return
        made[0] = msgspec.structs.replace(made[0], records=line.records)
        yield from made
        rest = without(record, "message") if "message" in record else {}
        content = message.get("content")
        parts = part_fields(content, _KNOWN_PARTS) if isinstance(content, list) else {}
        rest |= without(message, *_MESSAGE_FIELDS) | ({"parts": parts} if parts else {})
        calls = call_fields(message.get("tool_calls"))
        rest |= {"tool_calls": calls} if calls else {}
        yield from self._chain.fields(rest, key, self._time)

    def _event(self, line: Line) -> Iterator[ImportedItem]:
        record = line.value
        key = self._chain.content_key(record)
        self._time = timestamp_of(record.get("ts"), self._time)
        yield self._chain.verbatim(record["event"], record, key, self._time, records=line.records)
        if line.is_deleted:
            deleted = Custom(custom_type=f"{TOOL}:deleted", data={"reason": "the messages of this run were deleted"})
            yield self._chain.add(deleted, key + DELETED_SUFFIX, self._time)

    def _return(self) -> Iterator[ImportedItem]:
        """Yield the move of the head from events at the end whose messages are not there."""
        if self._home is not None and self._home != self._chain.tip:
            key = f"{self._chain.session}:head:{self._home}:{self._chain.tip}"
            yield self._chain.add(Head(target_id=self._home), key, self._time, parent=self._home)

    def _compaction(self, record: JsonObject, records: int) -> Iterator[ImportedItem]:
        """Yield a compaction. Without its text, the model is told what crabtalk tells it."""
        self._time = timestamp_of(record.get("archived_at"), self._time)
        name = text_of(record.get("archive_name"))
        summary = record.get("compact")
        # A rewind writes the line again, with another time.
        kept = {"archive_name": name} if name else without(record, "archived_at")
        key = self._chain.content_key(kept, self._scope)
        if not isinstance(summary, str):
            summary = self._archive(name) if self._archive is not None else None
        if summary is None:
            summary = f"[archived context unavailable: {name}]"
        compaction = Compaction(summary=summary, trigger="imported")
        yield self._chain.add(compaction, key, self._time, records=records)
        yield from self._chain.fields(without(record, "compact", "archived_at"), key, self._time)

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def _message(self, message: JsonObject, key: str, done: JsonObject, durations: dict[str, int | None]) -> list[Any]:
        """Return the entries of a message; none if it has to be kept as it is."""
        content = message.get("content")
        if not isinstance(content, str | list | None):
            return []
        match message.get("role"):
            case "user":
                return self._user(content, key, durations)
            case "assistant":
                return self._reply(message, key, done)
            case "tool" if isinstance(message.get("tool_call_id"), str):
                block = {"tool_use_id": message["tool_call_id"], "name": message.get("name"), "content": content}
                result = self._result(block, durations)
                return [self._chain.add(Message(message=result), key, self._time)] if result is not None else []
        return []

    def _user(self, content: str | list[Any] | None, key: str, durations: dict[str, int | None]) -> list[Any]:
        """Return the results of tools in a message of the user, and the rest of it as a prompt."""
        made: list[Any] = []
        said: list[Any] = []
        for block in content if isinstance(content, list) else ():
            if object_of(block).get("type") != "tool_result":
                said.append(block)
                continue
            own_key = f"{key}:{len(made)}" if made else key
            result = self._result(block, durations)
            if result is not None:
                made.append(self._chain.add(Message(message=result), own_key, self._time))
            else:
                made.append(self._chain.verbatim("tool_result", block, own_key, self._time, records=0))
        parts = _plain_parts(said if isinstance(content, list) else content)
        if (said and not made and not has_known_part(parts)) or (not parts and made):
            return made
        own_key = f"{key}:{len(made)}" if made else key
        return [*made, self._chain.add(Message(message=Prompt(content=parts)), own_key, self._time)]

    def _result(self, block: JsonObject, durations: dict[str, int | None]) -> ToolResult | None:
        call = self._chain.call(block.get("tool_use_id"))
        if call is None:
            return None
        is_error = block.get("is_error") is True
        return ToolResult(
            content=_plain_parts(block.get("content")),
            tool_call_id=call.call_id,
            tool_name=text_of(block.get("name")) or call.name,
            reply_id=call.reply_id,
            status="error" if is_error else "ok",
            is_error=is_error,
            duration_ms=durations.get(text_of(block.get("tool_use_id"))),
        )

    def _reply(self, message: JsonObject, key: str, done: JsonObject) -> list[Any]:
        thinking = text_of(message.get("reasoning_content"))
        calls = message.get("tool_calls")
        parts = (
            *((Thinking(thinking=thinking),) if thinking else ()),
            *_parts(message.get("content")),
            *(_chat_call(call) for call in (calls if isinstance(calls, list) else ())),
        )
        if parts and not has_known_part(parts):
            return []
        reply = Reply(content=parts, model=text_of(done.get("model")) or None, usage=_usage(done.get("usage")))
        return [self._chain.add(Message(message=reply), key, self._time)]


# ── records ──────────────────────────────────────────────────────────────────────────────────────


def is_event(record: Any) -> bool:
    """Return whether a record is an event."""
    return isinstance(record, dict) and isinstance(record.get("event"), str) and "message" not in record


def is_compaction(record: Any) -> bool:
    """Return whether a record marks a compaction."""
    is_marker = isinstance(record, dict) and "message" not in record and "role" not in record
    return is_marker and (isinstance(record.get("compact"), str) or isinstance(record.get("archive_name"), str))


def _begins_run(record: Any) -> bool:
    return is_compaction(record) or (not is_event(record) and is_prompt(message_of(record)))


def _parts(content: Any) -> tuple[AnyPart, ...]:
    """Return the parts of a message or of a tool's output."""
    if isinstance(content, str):
        return (Text(text=content),) if content else ()
    if content is None:
        return ()
    return tuple(_part(part) for part in content) if isinstance(content, list) else (UnknownPart(part=content),)


def _plain_parts(content: Any) -> tuple[AnyPart, ...]:
    """Return the parts of a prompt or of a tool's output, which have neither calls nor reasoning."""
    parts = _parts(content)
    if not isinstance(content, list):
        return parts
    return tuple(
        UnknownPart(part=given) if isinstance(part, ToolCall | Thinking) else part
        for given, part in zip(content, parts, strict=True)
    )


def _part(part: Any) -> AnyPart:
    match part:
        case {"type": "text", "text": str(text)}:
            return Text(text=text)
        case {"type": "thinking", "thinking": str(thinking)}:
            return Thinking(thinking=thinking, signature=text_of(part.get("signature")) or None)
        case {"type": "redacted_thinking", "data": str(data)}:
            return Thinking(bound={"type": "redacted_thinking", "data": data})
        case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
            return tool_call(call_id, name, part.get("input"))
        case {"type": "image", "source": {"type": "base64", "media_type": str(mime_type), "data": str(data)}}:
            return Image(mime_type=mime_type, data=data)
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return image_of(url) or UnknownPart(part=part)
    return UnknownPart(part=part)


def _chat_call(call: Any) -> AnyPart:
    """Return a tool call in the shape of OpenAI's chat, which crabtalk used until May 2026."""
    match call:
        case {"function": {"name": str(name), **rest}}:
            return tool_call(text_of(call.get("id")), name, rest.get("arguments"))
    return UnknownPart(part=call)


def _usage(usage: Any) -> Usage | None:
    """Return the usage of a run. The older form counts what was read from a cache as input, too."""
    found = {key: count for key, value in object_of(usage).items() if (count := count_of(value)) is not None}
    if "input_tokens" in found or "output_tokens" in found:
        return Usage(
            input_tokens=found.get("input_tokens", 0),
            output_tokens=found.get("output_tokens", 0),
            cache_read_tokens=found.get("cache_read_tokens", 0),
            cache_write_tokens=found.get("cache_write_tokens", 0),
        )
    if "prompt_tokens" not in found and "completion_tokens" not in found:
        return None
    cached = min(found.get("prompt_cache_hit_tokens", 0), found.get("prompt_tokens", 0))
    return Usage(
        input_tokens=found.get("prompt_tokens", 0) - cached,
        output_tokens=found.get("completion_tokens", 0),
        cache_read_tokens=cached,
    )
