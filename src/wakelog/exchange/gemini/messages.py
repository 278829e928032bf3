"""Messages of a Gemini CLI session as entries: prompts, context that it injects, replies, calls and results.

`entries.py` decides which records are messages and which of them are new.
"""

import hashlib
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
    reply_parts,
    response_of,
    responses_in,
    result_of,
    text_field,
    text_keys,
    usage_of,
    user_keys,
)
from wakelog.exchange.gemini.placement import Placement
from wakelog.exchange.sessions import ImportedEntry, entry_id, session_id, timestamp_of
from wakelog.log.content import JsonObject, Note, Prompt, Reply, Text, ToolCall, ToolResult, Usage
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

    @property
    def result_key(self) -> str:
        """The key of its result."""
        return f"{self.reply_id}:{self.call_id}:result"


class Said(msgspec.Struct):
    """What was recorded of a message of the model, besides its calls: digests, and whether its usage was."""

    texts: str
    thoughts: str
    model: str
    has_usage: bool

    def changes(self, earlier: "Said") -> bool:
        """Return whether this says something else than before. A message that is listed again has less in it."""
        return (
            self.texts != earlier.texts
            or self.thoughts not in ("", earlier.thoughts)
            or self.model not in ("", earlier.model)
            or (self.has_usage and not earlier.has_usage)
        )


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
        self._said: dict[str, Said] = {}
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

    def _reply_keys(self, message: JsonObject, calls: Sequence[CallRecord]) -> list[str]:
        """Return the keys that a reply has with none of its calls, with the first of them, and so on.

        Usage and results are no part of a key: they are recorded later, and calls are only ever added.
        """
        said = said_in(message)
        return _growing_keys(
            self._message_key(message["id"]),
            [said.texts, said.thoughts, said.model],
            [call.foreign_id for call in calls],
        )

    def _is_stored(self, message: JsonObject) -> bool:
        return self._is_known(entry_id(TOOL, self._reply_keys(message, calls_of(message))[-1]))

    def _is_same_reply(self, one: JsonObject, other: JsonObject) -> bool:
        return self._reply_keys(one, calls_of(one))[-1] == self._reply_keys(other, calls_of(other))[-1]

    def _largest_stored(self, keys: Sequence[str]) -> int | None:
        """Return the last of the keys that is stored; None if none is."""
        return next((at for at in reversed(range(len(keys))) if self._is_known(entry_id(TOOL, keys[at]))), None)

    def _reply(self, message: JsonObject, *, is_growing: bool) -> Iterator[ImportedEntry]:
        own_id = message["id"]
        self._time = timestamp_of(message.get("timestamp"), self._time)
        self._places.setdefault(own_id, self._visible)
        self._contents[own_id] = digest(message)
        if is_made_up(parts_list(message.get("content"))):
            yield self._verbatim("made_up_reply", message, self._message_key(own_id), records=0)
            return
        self._said[own_id] = said_in(message)
        calls = calls_of(message)
        keys = self._reply_keys(message, calls)
        # A document has the newest form of a message only: the calls that it had at an earlier import are one reply.
        stored = self._largest_stored(keys) if own_id not in self._replies else None
        count = len(calls) if stored is None else stored
        yield from self._context_note()
        yield from self._first_reply(message, keys[count], calls[:count])
        is_lost = message.get("content") == "" and not count
        if is_lost and (not (is_growing or calls) or self._is_known(entry_id(TOOL, f"{keys[count]}:lost"))):
            lost = Custom(custom_type=f"{TOOL}:lost_call", in_context=True, content=LOST_CALL)
            yield ImportedEntry(self._append(lost, f"{keys[count]}:lost"), records=0)
        yield from self._added_calls(message, calls[:count], calls[count:])
        yield from self._results(message, calls)
        yield from self._fields(message, calls)

    def _first_reply(self, message: JsonObject, key: str, calls: Sequence[CallRecord]) -> Iterator[ImportedEntry]:
        """Yield what a message says, with the first of its calls."""
        reply = Reply(
            content=with_unique_call_ids(reply_parts(message, calls)),
            model=text_field(message, "model") or None,
            provider=PROVIDER,
            usage=usage_of(message.get("tokens")),
        )
        turns = [*text_keys(message), *(f"c:{call.foreign_id}" for call in calls)]
        yield from self._place_reply(message["id"], key, reply, calls, turns)

    def _added_calls(
        self,
        message: JsonObject,
        known: Sequence[CallRecord],
        new: Sequence[CallRecord],
        usage: Usage | None = None,
    ) -> Iterator[ImportedEntry]:
        """Yield the calls that a message has more than before, as replies: those of each earlier import are one."""
        while new:
            keys = _growing_keys(self._message_key(message["id"]), "calls", [call.foreign_id for call in new])[1:]
            stored = self._largest_stored(keys)
            yield from self._results(message, known, are_stored=stored is not None)
            count = len(new) if stored is None else stored + 1
            made = [ToolCall(id=call.foreign_id, name=call.name, input=call.args, bound=call.bound) for call in new]
            reply = Reply(
                content=with_unique_call_ids(made[:count]),
                model=text_field(message, "model") or None,
                provider=PROVIDER,
                usage=usage,
            )
            turns = [f"c:{call.foreign_id}" for call in new[:count]]
            yield from self._place_reply(message["id"], keys[count - 1], reply, new[:count], turns)
            known, new, usage = [*known, *new[:count]], new[count:], None

    def _place_reply(
        self, own_id: str, key: str, reply: Reply, calls: Sequence[CallRecord], turns: Sequence[str]
    ) -> Iterator[ImportedEntry]:
        """Yield a reply, and which of its calls started sub-agents."""
        yield from self._place(Message(message=reply), key, turns)
        reply_id = self._tip
        self._replies.setdefault(own_id, set()).add(reply_id)
        for call, made in zip(calls, reply.tool_calls, strict=True):
            self._calls[call.foreign_id] = Call(reply_id, made.id, call.name)
            child = text_field(call.record or {}, "agentId")
            if child in self._children:
                spawned = Spawned(child_session=session_id(TOOL, child), reply_id=reply_id, tool_call_id=made.id)
                yield self._annotation(spawned, f"{reply_id}:{made.id}:spawned", reply_id)

    def _results(
        self, message: JsonObject, calls: Sequence[CallRecord], *, are_stored: bool = False
    ) -> Iterator[ImportedEntry]:
        """Yield the results of calls that have none yet, in the order of `toolCalls`; or only those that are stored."""
        own = {id(call.record): call.foreign_id for call in calls if call.record is not None}
        listed = message.get("toolCalls")
        for record in listed if isinstance(listed, list) else ():
            call = self._calls.get(own.get(id(record), ""))
            result = result_of(record) if call is not None else None
            if call is None or result is None or call.result is not None:
                continue
            if not are_stored or self._is_known(entry_id(TOOL, call.result_key)):
                self._time = timestamp_of(record.get("timestamp"), self._time)
                yield from self._result(own[id(record)], result, parts_list(record.get("result")))

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
        yield from self._place(Message(message=body), call.result_key, [f"r:{foreign_id}"])

    def _fields(self, message: JsonObject, calls: Sequence[CallRecord]) -> Iterator[ImportedEntry]:
        """Yield the fields of a message without a counterpart, if they are not those that were recorded before."""
        rest = self._reply_fields(message, calls)
        content = digest(rest) if rest else ""
        if content not in ("", self._last_fields.get(message["id"])):
            yield self._verbatim("fields", rest, f"{self._message_key(message['id'])}:fields:{content}", records=0)
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
        is_known = has_news and not self._says_more(message, own_id)
        if not is_known and injected_kind(parts_list(message.get("content"))) != "session_context":
            yield self._verbatim("changed_message", message, self._content_key(message), records=0)

    def _grown(self, message: JsonObject, own_id: str) -> Iterator[ImportedEntry]:
        """Yield the calls and results that a message has more than before. They have its usage if that is new."""
        own, calls = self._replies.get(own_id), calls_of(message)
        new = [
            call
            for call in calls
            if (known := self._calls.get(call.foreign_id)) is None or (own is not None and known.reply_id not in own)
        ]
        said = self._said.get(own_id)
        usage = usage_of(message.get("tokens")) if said is not None and not said.has_usage else None
        if said is not None and new and usage is not None:
            said.has_usage = True
        added = {id(call) for call in new}
        yield from self._added_calls(message, [call for call in calls if id(call) not in added], new, usage)
        yield from self._results(message, calls)
        yield from self._fields(message, calls)

    def _says_more(self, message: JsonObject, own_id: str) -> bool:
        """Return whether a message that is recorded again says something else than before."""
        earlier, said = self._said.get(own_id), said_in(message)
        if message.get("type") != "gemini" or earlier is None:
            return False
        self._said[own_id] = Said(
            said.texts,
            said.thoughts or earlier.thoughts,
            said.model or earlier.model,
            said.has_usage or earlier.has_usage,
        )
        return said.changes(earlier)


def said_in(message: JsonObject) -> Said:
    """Return what a message of the model says."""
    thoughts = [part for part in parts_list(message.get("content")) if isinstance(part, dict) and part.get("thought")]
    listed = message.get("thoughts") or None
    return Said(
        digest(text_keys(message)),
        digest([thoughts, listed]) if thoughts or listed else "",
        text_field(message, "model"),
        usage_of(message.get("tokens")) is not None,
    )


def _growing_keys(own: str, said: object, ids: Sequence[str]) -> list[str]:
    """Return a key of what a message says with none of the calls, with the first, and so on."""
    raw = hashlib.sha256(digest(said).encode())
    keys = [f"{own}:{raw.hexdigest()[:24]}"]
    for call_id in ids:
        raw.update(digest(call_id).encode())
        keys.append(f"{own}:{raw.hexdigest()[:24]}")
    return keys


def shown_text(result: ResultRecord) -> str:
    """Return a digest of the text of a result."""
    return digest("".join(part.text for part in result.content if isinstance(part, Text)))
