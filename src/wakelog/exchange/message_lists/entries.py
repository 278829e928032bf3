"""The messages of one list as entries of wakelog, each under the one before it.

Messages have no ids. An entry is identified by the session and a digest of its message and all messages before it. So a
list that has grown adds only what is new, and a list that differs from some message on is a branch there.

Responses has no replies but items. Items of the model that follow each other are one reply: reasoning, then text, then
calls. A text behind a text, or reasoning behind a text, begins the next one. If a list was imported before its last
reply was complete, the items that follow are a reply of their own (`is_known`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from wakelog.exchange.chains import OpenCalls, call_fields
from wakelog.exchange.message_lists.parts import (
    content_fields,
    item_fields,
    item_parts,
    plain_part,
    plain_parts,
    reply_parts,
    stop_reason_of,
    text_field,
    usage_fields,
    usage_of,
)
from wakelog.exchange.message_lists.shapes import (
    ANTHROPIC,
    CALL_TYPES,
    MODEL_ITEM_TYPES,
    RESULT_TYPES,
    SYSTEM_ROLES,
    TOOL,
    digest,
    is_message,
    without_cache_marks,
)
from wakelog.exchange.records import BadRecord, JsonRecord
from wakelog.exchange.sessions import ImportedEntry, ImportedItem, entry_id
from wakelog.log.content import AnyPart, JsonObject, Prompt, Reply, Text, Thinking, ToolResult
from wakelog.log.entry import Custom, KnownBody, Message

# More items than any response has. A reply is held until it is complete.
_ITEMS_MAX = 1_000
_REPLY_CONTENT = ("refusal", "tool_calls", "function_call", "reasoning", "reasoning_content")
_KNOWN_FIELDS: Mapping[str, frozenset[str]] = {
    "user": frozenset(("role", "content", "type")),
    "tool": frozenset(("role", "content", "tool_call_id", "name")),
    "function": frozenset(("role", "content", "name")),
    "assistant": frozenset(("role", "content", "type", "id", "model", "stop_reason", "usage", *_REPLY_CONTENT)),
}


class _OpenReply(msgspec.Struct):
    """A reply of Responses to which items may still be added."""

    parts: list[AnyPart] = []
    fields: JsonObject = {}
    """Fields of the items without a counterpart, by the number of the item."""
    items: int = 0
    after: str | None = None
    has_text: bool = False
    is_thinking: bool = True
    """Whether there is nothing but reasoning so far."""

    def add(self, parts: Iterable[AnyPart]) -> None:
        """Add the parts of one item."""
        self.items += 1
        for part in parts:
            self.parts.append(part)
            self.has_text = self.has_text or (isinstance(part, Text) and bool(part.text))
            self.is_thinking = self.is_thinking and isinstance(part, Thinking)


class ListReader:
    """Turns the messages of one list for an API into entries. `is_known` says which entries are there already."""

    def __init__(
        self, api: str, session: str, model: str | None, is_known: Callable[[str], bool] = lambda _: False
    ) -> None:
        self._api = api
        self._session = session
        self._model = model
        self._is_known = is_known
        self._number = 0
        self._digest = ""
        self._parent = ""
        # The open calls of the last reply that has one with an id, by the id that results name.
        self._calls = OpenCalls()
        self._open: _OpenReply | None = None

    def read(
        self, fields: JsonObject, records: Iterable[JsonRecord], *, kind: str = "request"
    ) -> Iterator[ImportedItem]:
        """Yield the entries of a request's other fields, if there are any, and of its messages."""
        if fields:
            # Not part of the digests: a program may change a setting from one request to the next.
            yield from self._placed([Custom(custom_type=f"{self._api}:{kind}", data=fields)], digest("", fields))
        for record in records:
            if isinstance(record, BadRecord):
                yield record
                continue
            message = without_cache_marks(record.value)
            if self._open is not None and not self._continues(message):
                yield from self._close()
            elif self._open is not None and self._is_known(self._entry_id(self._digest)):
                # An earlier import has ended the reply here.
                after = self._open.after
                yield from self._close()
                self._open = _OpenReply(parts=[], after=after)
            self._digest = digest(self._digest, message)
            self._number += 1
            yield from self._message(message)
        yield from self._close()

    def _message(self, message: JsonObject) -> Iterator[ImportedItem]:
        if not is_message(message):
            return self._verbatim("record", message)
        role = message.get("role")
        if role in SYSTEM_ROLES:
            return self._verbatim("system", message)
        if role == "user":
            return self._placed([*self._user(message), *self._rest(message)], self._digest)
        if role in ("tool", "function"):
            return self._results(message)
        if role == "assistant" and not _is_item(message):
            return self._reply(message)
        kind = message.get("type")
        if kind in RESULT_TYPES:
            result = self._result(message["call_id"], plain_parts(message["output"]))
            if result is None:
                return self._verbatim(str(kind), message)
            named = {"id": message["id"]} if message.get("id") is not None else {}
            return self._placed([result, *self._fields({**named, **item_fields(message)})], self._digest)
        if role == "assistant" or kind in CALL_TYPES | MODEL_ITEM_TYPES or kind == "reasoning":
            self._add_item(message)
            return iter(())
        return self._verbatim(str(kind), message)

    # ── replies ──────────────────────────────────────────────────────────────────────────────────

    def _reply(self, message: JsonObject) -> Iterator[ImportedItem]:
        if _is_plain(message):
            # Responses takes such messages too, and calls may follow.
            self._open = self._open or _OpenReply()
            self._open.add(item_parts(message, None))
            return
        reply = Reply(
            content=tuple(reply_parts(message)),
            model=text_field(message, "model") or self._model,
            provider="anthropic" if self._api == ANTHROPIC else "openai-chat",
            stop_reason=stop_reason_of(message),
            usage=usage_of(message.get("usage")),
            request_id=text_field(message, "id"),
        )
        yield from self._placed([Message(message=reply), *self._rest(message)], self._digest)

    def _continues(self, message: JsonObject) -> bool:
        """Return whether an item belongs to the open reply."""
        assert self._open is not None
        kind = message.get("type")
        if not is_message(message) or self._open.items >= _ITEMS_MAX:
            return False
        if message.get("role") == "assistant":
            return self._open.is_thinking and _is_open(message)
        if kind == "reasoning":
            return not self._open.has_text
        return kind in CALL_TYPES | MODEL_ITEM_TYPES

    def _add_item(self, item: JsonObject) -> None:
        self._open = self._open or _OpenReply()
        if rest := item_fields(item):
            self._open.fields[str(self._open.items)] = rest
        self._open.add(item_parts(item, self._open.after))
        if item.get("type") == "reasoning":
            self._open.after = text_field(item, "id")

    def _close(self) -> Iterator[ImportedItem]:
        """Yield the open reply. Its id comes from its last item."""
        reply, self._open = self._open, None
        if reply is None or not reply.items:
            return
        is_chat = reply.items == 1 and all(isinstance(part, Text) and not part.bound for part in reply.parts)
        provider = "anthropic" if self._api == ANTHROPIC else "openai-chat" if is_chat else "openai"
        body = Reply(content=tuple(reply.parts), model=self._model, provider=provider)
        rest = self._fields({"items": reply.fields} if reply.fields else {})
        yield from self._placed([Message(message=body), *rest], self._digest, records=reply.items)

    # ── users and results ────────────────────────────────────────────────────────────────────────

    def _user(self, message: JsonObject) -> list[KnownBody]:
        """Return the prompt of a message; tool results of Anthropic are in it too."""
        content = message.get("content")
        if not isinstance(content, list):
            return [Message(message=Prompt(content=plain_parts(content)))]
        bodies: list[KnownBody] = []
        parts: list[AnyPart] = []
        for block in content:
            if block.get("type") == "tool_result" and isinstance(block.get("tool_use_id"), str):
                if parts:
                    bodies.append(Message(message=Prompt(content=tuple(parts))))
                    parts = []
                is_error = block.get("is_error") is True
                found = self._result(block["tool_use_id"], plain_parts(block.get("content")), is_error=is_error)
                bodies.append(found or Custom(custom_type=f"{self._api}:tool_result", data=block))
            else:
                parts.append(plain_part(block))
        if parts or not bodies:
            bodies.append(Message(message=Prompt(content=tuple(parts))))
        return bodies

    def _results(self, message: JsonObject) -> Iterator[ImportedItem]:
        call_id = "function_call" if message.get("role") == "function" else text_field(message, "tool_call_id")
        result = self._result(call_id or "", plain_parts(message.get("content")))
        if result is None:
            return self._verbatim("tool", message)
        return self._placed([result, *self._rest(message)], self._digest)

    def _result(self, call_id: str, content: tuple[AnyPart, ...], *, is_error: bool = False) -> Message | None:
        """Return the result of the first open call with an id in the last reply that has one; None if there is none."""
        call = self._calls.take(call_id)
        if call is None:
            return None
        return Message(
            message=ToolResult(
                content=content,
                tool_call_id=call.call_id,
                tool_name=call.name,
                reply_id=call.reply_id,
                status="error" if is_error else None,
                is_error=is_error,
            )
        )

    # ── places ───────────────────────────────────────────────────────────────────────────────────

    def _rest(self, message: Mapping[str, Any]) -> list[KnownBody]:
        """Return the fields of a message without a counterpart, as an entry behind it."""
        known = _KNOWN_FIELDS.get(str(message.get("role")), frozenset())
        rest = {key: value for key, value in message.items() if key not in known and value not in (None, [], {})}
        if message.get("role") == "assistant":
            left = {"usage": usage_fields(message.get("usage")), "tool_calls": call_fields(message.get("tool_calls"))}
            rest |= {key: value for key, value in left.items() if value not in (None, {})}
        parts = content_fields(message.get("content"))
        return self._fields(rest | ({"parts": parts} if parts else {}))

    def _fields(self, rest: JsonObject) -> list[KnownBody]:
        return [Custom(custom_type=f"{self._api}:fields", data=rest)] if rest else []

    def _verbatim(self, kind: str, message: JsonObject) -> Iterator[ImportedItem]:
        return self._placed([Custom(custom_type=f"{self._api}:{kind}", data=message)], self._digest)

    def _placed(self, bodies: Iterable[KnownBody], key: str, *, records: int = 1) -> Iterator[ImportedItem]:
        """Yield entries with ids and parents. The first one accounts for the record."""
        for at, body in enumerate(bodies):
            stamp = self._entry_id(key, at)
            placed = msgspec.structs.replace(self._calls.open(body, stamp), id=stamp, parent_id=self._parent or None)
            yield ImportedEntry(placed, records=0 if at else records, is_verbatim=isinstance(body, Custom) and at == 0)
            self._parent = stamp

    def _entry_id(self, key: str, at: int = 0) -> str:
        """Return the id of an entry that the last message makes; `at` is its number among them."""
        return entry_id(TOOL, f"{self._session}:{self._number}:{key}" + (f":{at}" if at else ""))


def _is_item(message: Mapping[str, Any]) -> bool:
    """Return whether a message of the model is an item of Responses."""
    content = message.get("content")
    kinds = {part.get("type") for part in content} if isinstance(content, list) else set()
    return bool(kinds & {"output_text", "refusal"}) and "stop_reason" not in message and "tool_calls" not in message


def _is_open(message: Mapping[str, Any]) -> bool:
    """Return whether a message of the model may be one of several items of a reply."""
    return _is_item(message) or _is_plain(message)


def _is_plain(message: Mapping[str, Any]) -> bool:
    """Return whether a message of the model is nothing but a text."""
    return isinstance(message.get("content"), str) and message.keys() <= {"role", "content", "phase"}
