"""Entries of one efferent session: its messages in the order of their positions, and what was stored beside them.

Rows are only added, so an entry depends on nothing behind it, except that rows which are stored later have later times.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from wakelog.exchange.chains import (
    EntryChain,
    count_of,
    has_known_part,
    json_cell,
    object_of,
    output_parts,
    part_fields,
    text_of,
    without,
)
from wakelog.exchange.records import BadRecord
from wakelog.exchange.sessions import ImportedEntry, ImportedItem, entry_id, session_id, timestamp_of
from wakelog.log.content import (
    AnyPart,
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
from wakelog.log.entry import Compaction, Message, ModelChange, Spawned

TOOL = "efferent"
Row: TypeAlias = JsonObject
# How texts begin that efferent puts into the role of the user itself.
_ADDED_TEXTS = {
    "handoff": "[System note: the earlier history of this conversation",
    "mission": "[Overall mission — the human's request",
    "inbox": "[inbox · message from ",
    "corrective": "Your previous reply could not be parsed: ",
    "repetition": "You've called the same tool(s) ",
    "gate": "The independent verifier reviewed the swarm's work",
}
_OWN_MESSAGE = "[inbox · message from you]"
_ROW_COLUMNS = ("id", "conversation_id", "node_id", "position", "role", "content", "created_at")
_JSON_COLUMNS = ("seed", "files_changed", "usage", "reasons", "stop_reason")


class SessionRows(msgspec.Struct, kw_only=True):
    """The rows of one session. `outcome` has the columns that efferent sets when the run of a node ends."""

    id: str
    kind: str
    root: Row
    messages: Iterable[Row]
    checkpoints: list[Row] = []
    verdicts: list[Row] = []
    outcome: Row = {}
    children: frozenset[str] = frozenset()
    model: ModelChange | None = None
    is_known: Callable[[str], bool] | None = None
    """Says which entries are stored."""


class _Aside(msgspec.Struct):
    """A row that is not a message, waiting for its place among the messages."""

    kind: str
    row: Row
    time: int
    behind: int = -1
    """The position of the message that it must come after."""
    first_kept: str | None = None


def session_items(rows: SessionRows) -> Iterator[ImportedItem]:
    """Yield the entries of a session, and what is not among them."""
    return _SessionReader(rows).items()


class _SessionReader:
    """Places messages one below the other, and the other rows by their times."""

    def __init__(self, rows: SessionRows) -> None:
        self._rows = rows
        self._chain = EntryChain(TOOL, rows.id)
        self._time = timestamp_of(rows.root.get("created_at"))
        self._spawned: set[str] = set()
        asides = [_Aside("checkpoint", row, _time(row), _position(row, "message_position")) for row in rows.checkpoints]
        asides += [_Aside("gate_verdict", row, _time(row)) for row in rows.verdicts]
        if rows.outcome:
            asides.append(_Aside("return", rows.outcome, count_of(rows.outcome.get("ended_at")) or 0))
        self._waiting = deque(sorted(asides, key=lambda aside: aside.time))
        # Those that do not know yet what they keep, the last of the list first.
        checkpoints = [aside for aside in asides if aside.kind == "checkpoint"]
        self._keeping_nothing = sorted(checkpoints, key=lambda aside: -aside.behind)
        self._has_model = rows.model is None

    def items(self) -> Iterator[ImportedItem]:
        """Yield the entry of the session's own row, the messages, and the other rows where they belong."""
        if self._rows.root:
            yield self._chain.verbatim(self._rows.kind, _readable(self._rows.root), self._rows.id, self._time)
            yield from self._model("", is_here=self._is_new)
        position = -1
        for number, row in enumerate(self._rows.messages):
            position, time = _position(row, "position", number), _time(row)
            while self._waiting and self._waiting[0].time < time and self._waiting[0].behind < position:
                yield from self._aside(self._waiting.popleft())
            self._time = timestamp_of(row.get("created_at"), self._time)
            for item in self._message_row(row, position):
                self._keep_from(item, position)
                yield item
            yield from self._model(str(position))
        for aside in self._waiting:
            yield from self._aside(aside)
        yield from self._model(str(position), is_here=True)

    @property
    def _is_new(self) -> bool:
        is_known = self._rows.is_known
        return is_known is None or not is_known(entry_id(TOOL, self._rows.id))

    def _model(self, place: str, *, is_here: bool = False) -> Iterator[ImportedItem]:
        """Yield the model of the session where an earlier import has put it, or here if that is its place.

        efferent does not record when it was set: in a new session it is at the beginning, else at the end.
        """
        if self._has_model or self._rows.model is None:
            return
        model, is_known = self._rows.model, self._rows.is_known
        key = f"{self._rows.id}:model:{model.provider or ''}:{model.model}:{place}"
        if is_here or (is_known is not None and is_known(entry_id(TOOL, key))):
            self._has_model = True
            yield self._chain.add(model, key, self._time)

    def _keep_from(self, item: ImportedItem, position: int) -> None:
        """Note an entry as the first one that a later checkpoint keeps."""
        if isinstance(item, ImportedEntry) and item.body.id == self._chain.tip:
            while self._keeping_nothing and self._keeping_nothing[-1].behind < position:
                self._keeping_nothing.pop().first_kept = item.body.id

    def _aside(self, aside: _Aside) -> Iterator[ImportedItem]:
        row = aside.row
        place = f"{aside.kind}:{row.get('message_position')}:{row.get('created_at')}"
        key = text_of(row.get("id")) or f"{self._rows.id}:{place}"
        self._time = max(self._time, timestamp_of(aside.time, self._time))
        summary = row.get("summary")
        if aside.kind == "checkpoint" and isinstance(summary, str):
            compaction = Compaction(summary=summary, first_kept_entry_id=aside.first_kept, trigger="imported")
            yield self._chain.add(compaction, key, self._time, records=1)
        elif aside.kind == "return":
            yield self._chain.verbatim("return", _readable(row), f"{self._rows.id}:return", self._time, records=0)
        else:
            yield self._chain.verbatim(aside.kind, _readable(row), key, self._time)

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def _message_row(self, row: Row, position: int) -> Iterator[ImportedItem]:
        key = text_of(row.get("id")) or f"{self._rows.id}:{position}"
        found = json_cell(row.get("content"), position)
        if isinstance(found, BadRecord):
            yield found
            return
        message = {"role": row["role"], **found} if isinstance(row.get("role"), str) else found
        made = list(self._message(message, key))
        yield from made or [self._chain.verbatim(message.get("role"), message, key, self._time)]
        rest = without(row, *_ROW_COLUMNS)
        yield from self._chain.fields(rest, f"{key}:row", self._time)

    def _message(self, message: JsonObject, key: str) -> Iterator[ImportedItem]:
        """Yield the entries of a message; nothing if it has to be kept as it is."""
        content = message.get("content")
        match message.get("role"):
            case "user" if isinstance(content, str):
                yield self._chain.add(Message(message=_prompt(content)), key, self._time, records=1)
                yield from self._fields(message, {}, key)
            case "assistant" if isinstance(content, list):
                yield from self._reply(message, content, key)
            case "tool" if isinstance(content, list) and content:
                yield from self._results(message, content, key)

    def _fields(self, message: JsonObject, parts: JsonObject, key: str) -> Iterator[ImportedItem]:
        rest = without(message, "role", "content")
        yield from self._chain.fields({**rest, **({"parts": parts} if parts else {})}, key, self._time)

    def _reply(self, message: JsonObject, content: list[Any], key: str) -> Iterator[ImportedItem]:
        # efferent stores calls before the text that came before them.
        parts = tuple(sorted(map(_reply_part, content), key=lambda part: isinstance(part, ToolCall)))
        if not has_known_part(parts):
            return
        options = object_of(message.get("providerOptions"))
        usage = _usage(options.get(TOOL))
        yield self._chain.add(Message(message=Reply(content=parts, usage=usage)), key, self._time, records=1)
        if usage is not None:
            left = without(options, TOOL)
            message = {**message, "providerOptions": left or None}
        yield from self._fields(message, part_fields(content, _KNOWN), key)

    def _results(self, message: JsonObject, content: list[Any], key: str) -> Iterator[ImportedItem]:
        for number, part in enumerate(content):
            own_key = f"{key}:{number}" if number else key
            call = self._chain.call(object_of(part).get("toolCallId")) if _is_result(part) else None
            if call is None:
                kind = object_of(part).get("type")
                yield self._chain.verbatim(kind, part, own_key, self._time, records=int(number == 0))
                continue
            is_error = part.get("isError") is True
            result = ToolResult(
                content=output_parts(part.get("output")),
                tool_call_id=call.call_id,
                tool_name=text_of(part.get("toolName")) or call.name,
                reply_id=call.reply_id,
                status="error" if is_error else "ok",
                is_error=is_error,
            )
            yield self._chain.add(Message(message=result), own_key, self._time, records=int(number == 0))
            node = text_of(object_of(part.get("output")).get("nodeId"))
            is_child = node in self._rows.children and node not in self._spawned
            if is_child and part.get("toolName") == "run_agent":
                self._spawned.add(node)
                spawned = Spawned(
                    child_session=session_id(TOOL, node), reply_id=call.reply_id, tool_call_id=call.call_id
                )
                yield self._chain.add(spawned, f"{own_key}:spawned", self._time, parent=call.reply_id)
        yield from self._fields(message, part_fields(content, _KNOWN), key)


_KNOWN = {
    "text": ("text", "providerOptions"),
    "reasoning": ("text", "providerOptions"),
    "tool-call": ("toolCallId", "toolName", "input", "providerOptions", "providerExecuted"),
    "tool-result": ("toolCallId", "toolName", "output", "isError"),
}


def _prompt(text: str) -> Prompt | Note:
    content = (Text(text=text),) if text else ()
    kind = next((kind for kind, beginning in _ADDED_TEXTS.items() if text.startswith(beginning)), None)
    if kind is None or text.startswith(_OWN_MESSAGE):
        return Prompt(content=content)
    return Note(content=content, custom_type=f"{TOOL}:{kind}")


def _reply_part(part: Any) -> AnyPart:
    bound = object_of(object_of(part).get("providerOptions")) or None
    match part:
        case {"type": "text", "text": str(text)}:
            return Text(text=text, bound=bound)
        case {"type": "reasoning", "text": str(text)}:
            signature = object_of((bound or {}).get("anthropic")).get("signature")
            return Thinking(thinking=text, signature=signature if isinstance(signature, str) else None, bound=bound)
        case {"type": "tool-call", "toolCallId": str(call_id), "toolName": str(name)}:
            if part.get("providerExecuted") is True:
                bound = {**(bound or {}), "providerExecuted": True}
            return ToolCall(id=call_id, name=name, input=part.get("input"), bound=bound)
    return UnknownPart(part=part)


def _is_result(part: Any) -> bool:
    match part:
        case {"type": "tool-result", "toolCallId": str()}:
            return True
    return False


def _usage(usage: Any) -> Usage | None:
    """Return the usage of a model call. efferent counts what was read from a cache as input, too."""
    counts = {key: count_of(object_of(usage).get(key)) for key in ("inputTokens", "outputTokens", "cacheReadTokens")}
    if counts["inputTokens"] is None and counts["outputTokens"] is None:
        return None
    cached = counts["cacheReadTokens"] or 0
    return Usage(
        input_tokens=max(0, (counts["inputTokens"] or 0) - cached),
        output_tokens=counts["outputTokens"] or 0,
        cache_read_tokens=cached,
    )


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────


def _time(row: Row) -> int:
    return count_of(row.get("created_at")) or 0


def _position(row: Row, column: str, default: int = -1) -> int:
    value = row.get(column)
    return value if isinstance(value, int) else default


def _readable(row: Row) -> JsonObject:
    """Return a row with the JSON in its cells decoded."""
    return {column: _decoded(cell) if column in _JSON_COLUMNS else cell for column, cell in row.items()}


def _decoded(cell: Any) -> Any:
    try:
        return msgspec.json.decode(cell) if isinstance(cell, str) else cell
    except (msgspec.DecodeError, RecursionError):
        return cell
