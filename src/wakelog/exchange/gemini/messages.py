"""Messages of a Gemini CLI session as entries: prompts, context that it injects, replies, calls and results.

`entries.py` decides which records are messages and which of them are new.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.decide.assembly import with_unique_call_ids
from wakelog.exchange.gemini.content import (
    PROVIDER,
    TOOL,
    CallRecord,
    ResultRecord,
    calls_of,
    digest,
    injected_kind,
    is_made_up,
    left_over,
    parts_list,
    plain_part,
    reply_keys,
    reply_parts,
    response_of,
    responses_in,
    result_of,
    text_field,
    usage_of,
    user_keys,
)
from wakelog.exchange.gemini.placement import Placement
from wakelog.exchange.sessions import ImportedEntry, entry_id, session_id, timestamp_of
from wakelog.log.content import JsonObject, Note, Prompt, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import Custom, Message, Spawned

LOST_CALL = (
    "The model called a tool here. Gemini CLI had recorded neither the call nor its result when this session was "
    "imported. The tool may have run; it was not run again. Check before repeating it."
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_MESSAGE_FIELDS = frozenset(("id", "timestamp", "type", "content", "sessionId"))
_REPLY_FIELDS = _MESSAGE_FIELDS | {"thoughts", "tokens", "model", "toolCalls"}


class Call(msgspec.Struct):
    """A recorded tool call that a result may name."""

    reply_id: str
    call_id: str
    name: str
    result: str | None = None
    """A digest of its result; None while it is open."""


class MessageReader(Placement):
    """Turns messages into entries. Keeps ids and digests.

    `is_known` says which entries are stored already; `children` are the sub-agents whose sessions are there, by their
    ids in Gemini CLI.
    """

    def __init__(
        self, session: str, is_known: Callable[[str], bool] | None = None, children: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(session)
        self._is_known = is_known or (lambda _: False)
        self._children = children
        self._places: dict[str, int] = {}
        """The messages in the list at present, and how many turns are before each."""
        self._replies: dict[str, set[str]] = {}
        self._contents: dict[str, str] = {}
        """A digest of the last recorded content of each message."""
        self._last_fields: dict[str, str] = {}
        self._calls: dict[str, Call] = {}
        self._media: set[str] = set()
        self._context: tuple[str, str, Note] | None = None
        """What Gemini CLI says before the next prompt: its key, its time, and the note."""
        self._last_context = ""

    def _message_key(self, own_id: str) -> str:
        return own_id if _UUID.fullmatch(own_id) else f"{self._session}:{own_id}"

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def _message(self, message: JsonObject) -> Iterator[ImportedEntry]:
        """Yield the entries of a message that is not the model's."""
        own_id, kind = message["id"], text_field(message, "type")
        self._time = timestamp_of(message.get("timestamp"), self._time)
        self._contents[own_id] = digest(message)
        key, parts = self._message_key(own_id), parts_list(message.get("content"))
        if kind == "user" and (parts := self._without_context(key, parts, message)):
            yield from self._user_message(message, key, parts)
        elif kind == "info" and (
            media := [digest(part) for part in parts if isinstance(part, dict) and "inlineData" in part]
        ):
            if not self._media.issuperset(media):
                note = Note(content=tuple(plain_part(part) for part in parts), custom_type=f"{TOOL}:binary")
                yield from self._place(Message(message=note), key, [f"u:{digest(part)}" for part in parts])
        elif kind != "user" or message.get("content") in ("", [], None):
            yield self._verbatim(kind or "message", message, key, records=0)

    def _user_message(self, message: JsonObject, key: str, parts: Sequence[Any]) -> Iterator[ImportedEntry]:
        if any(isinstance(part, dict) and "functionResponse" in part for part in parts):
            yield from self._responses(message, key, parts)
            return
        yield from self._context_note()
        kind, content = injected_kind(parts), tuple(plain_part(part) for part in parts)
        said = Note(content=content, custom_type=f"{TOOL}:{kind}") if kind else Prompt(content=content)
        yield from self._place(Message(message=said), key, user_keys(parts))
        if rest := {
            name: value for name, value in message.items() if name not in _MESSAGE_FIELDS and value is not None
        }:
            yield self._verbatim("fields", rest, f"{key}:fields", records=0)

    def _without_context(self, key: str, parts: list[Any], message: Mapping[str, Any]) -> list[Any]:
        """Return the parts behind what Gemini CLI says about the session, which is kept for the next prompt."""
        if injected_kind(parts[:1]) != "session_context":
            return parts
        said = digest(parts[0])
        if said != self._last_context:
            note = Note(content=(plain_part(parts[0]),), custom_type=f"{TOOL}:session_context")
            self._context = f"{key}:{said}", timestamp_of(message.get("timestamp"), self._time), note
        else:
            self._context = None
        return parts[1:]

    def _context_note(self) -> Iterator[ImportedEntry]:
        if self._context is not None:
            key, time, note = self._context
            self._context, self._last_context = None, key.rpartition(":")[2]
            yield from self._place(Message(message=note), key, time=time)

    def _responses(self, message: JsonObject, key: str, parts: Sequence[Any]) -> Iterator[ImportedEntry]:
        """Yield the results of a user's message. Those of known calls are new only if the calls have none."""
        found = responses_in(parts)
        if not found or any(call_id not in self._calls for call_id, _ in found):
            yield self._verbatim("tool_response", message, key, records=0)
            return
        for call_id, response in found:
            if self._calls[call_id].result is None:
                yield from self._result(call_id, response_of(response), response)

    # ── replies ──────────────────────────────────────────────────────────────────────────────────

    def _version_key(self, message: JsonObject) -> str:
        """Return the key of a reply: of the message as it is now."""
        return f"{self._message_key(message['id'])}:{digest(message)}"

    def _is_stored(self, message: JsonObject) -> bool:
        return self._is_known(entry_id(TOOL, self._version_key(message)))

    def _reply(self, message: JsonObject, *, is_growing: bool) -> Iterator[ImportedEntry]:
        own_id = message["id"]
        self._time = timestamp_of(message.get("timestamp"), self._time)
        self._places.setdefault(own_id, self._visible)
        self._contents[own_id] = digest(message)
        if is_made_up(parts_list(message.get("content"))):
            yield self._verbatim("made_up_reply", message, self._message_key(own_id), records=0)
            return
        key, calls = self._version_key(message), calls_of(message)
        reply = Reply(
            content=with_unique_call_ids(reply_parts(message, calls)),
            model=text_field(message, "model") or None,
            provider=PROVIDER,
            usage=usage_of(message.get("tokens")),
        )
        yield from self._context_note()
        yield from self._place_reply(own_id, key, reply, calls, reply_keys(message))
        yield from self._results(message, calls)
        yield from self._fields(message, key, calls)
        is_lost = message.get("content") == "" and not calls
        if is_lost and (not is_growing or self._is_known(entry_id(TOOL, f"{key}:lost"))):
            lost = Custom(custom_type=f"{TOOL}:lost_call", in_context=True, content=LOST_CALL)
            yield ImportedEntry(self._append(lost, f"{key}:lost"), records=0)

    def _place_reply(
        self, own_id: str, key: str, reply: Reply, calls: Sequence[CallRecord], turns: Sequence[str]
    ) -> Iterator[ImportedEntry]:
        """Yield a reply, and which of its calls started sub-agents."""
        yield from self._place(Message(message=reply), key, [turn for turn in turns if not turn.startswith("r:")])
        reply_id = self._tip
        self._replies.setdefault(own_id, set()).add(reply_id)
        for call, made in zip(calls, reply.tool_calls, strict=True):
            self._calls[call.foreign_id] = Call(reply_id, made.id, call.name)
            child = text_field(call.record or {}, "agentId")
            if child in self._children:
                spawned = Spawned(child_session=session_id(TOOL, child), reply_id=reply_id, tool_call_id=made.id)
                yield self._annotation(spawned, f"{reply_id}:{made.id}:spawned", reply_id)

    def _results(self, message: JsonObject, calls: Sequence[CallRecord]) -> Iterator[ImportedEntry]:
        """Yield the results of calls that have none yet, in the order of `toolCalls`."""
        own = {id(call.record): call.foreign_id for call in calls if call.record is not None}
        listed = message.get("toolCalls")
        for record in listed if isinstance(listed, list) else ():
            call_id = own.get(id(record))
            result = result_of(record) if call_id is not None else None
            if call_id is not None and result is not None and self._calls[call_id].result is None:
                self._time = timestamp_of(record.get("timestamp"), self._time)
                yield from self._result(call_id, result, parts_list(record.get("result")))

    def _result(self, foreign_id: str, result: ResultRecord, parts: Sequence[Any]) -> Iterator[ImportedEntry]:
        call = self._calls[foreign_id]
        call.result = shown_text(result)
        self._media.update(digest(part) for part in parts if isinstance(part, dict) and "inlineData" in part)
        body = ToolResult(
            content=result.content,
            tool_call_id=call.call_id,
            tool_name=call.name,
            reply_id=call.reply_id,
            status=result.status,
            is_error=result.status != "ok",
        )
        yield from self._place(Message(message=body), f"{call.reply_id}:{call.call_id}:result", [f"r:{foreign_id}"])

    def _fields(self, message: JsonObject, key: str, calls: Sequence[CallRecord]) -> Iterator[ImportedEntry]:
        """Yield the fields of a message without a counterpart, if they are not those that were recorded before."""
        rest = self._reply_fields(message, calls)
        content = digest(rest) if rest else ""
        if content not in ("", self._last_fields.get(message["id"])):
            yield self._verbatim("fields", rest, f"{key}:fields", records=0)
        self._last_fields[message["id"]] = content

    def _reply_fields(self, message: JsonObject, calls: Sequence[CallRecord]) -> JsonObject:
        rest = {name: value for name, value in message.items() if name not in _REPLY_FIELDS and value is not None}
        listed = message.get("toolCalls")
        if listed is not None and (not isinstance(listed, list) or not all(isinstance(call, dict) for call in listed)):
            rest["toolCalls"] = listed
            return rest
        left = {call.foreign_id: left_over(call.record, result_of(call.record)) for call in calls if call.record}
        if left := {call_id: fields for call_id, fields in left.items() if fields}:
            rest["toolCalls"] = left
        return rest

    def _changed(self, message: JsonObject, own_id: str) -> Iterator[ImportedEntry]:
        """Yield what is new in a message that is recorded again."""
        content = digest(message)
        if content == self._contents[own_id]:
            return
        self._contents[own_id] = content
        self._time = timestamp_of(message.get("timestamp"), self._time)
        has_news = False
        if message.get("type") == "gemini":
            for entry in self._grown(message, own_id):
                has_news = True
                yield entry
        if not has_news and injected_kind(parts_list(message.get("content"))) != "session_context":
            yield self._verbatim("changed_message", message, self._content_key(message), records=0)

    def _grown(self, message: JsonObject, own_id: str) -> Iterator[ImportedEntry]:
        """Yield the calls and results that a message has more than before."""
        own, calls = self._replies.get(own_id), calls_of(message)
        new = [
            call
            for call in calls
            if (known := self._calls.get(call.foreign_id)) is None or (own is not None and known.reply_id not in own)
        ]
        if new:
            made = [ToolCall(id=call.foreign_id, name=call.name, input=call.args, bound=call.bound) for call in new]
            content = with_unique_call_ids(made)
            reply = Reply(content=content, model=text_field(message, "model") or None, provider=PROVIDER)
            key = f"{self._message_key(own_id)}:{digest([call.foreign_id for call in new])}"
            yield from self._place_reply(own_id, key, reply, new, [f"c:{call.foreign_id}" for call in new])
        yield from self._results(message, calls)
        yield from self._fields(message, self._version_key(message), calls)


def shown_text(result: ResultRecord) -> str:
    """Return a digest of the text of a result."""
    return digest("".join(part.text for part in result.content if isinstance(part, Text)))
