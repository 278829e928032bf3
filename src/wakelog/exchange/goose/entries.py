"""The messages of a Goose session as entries, one after the other, and its visibility flags as compactions.

Goose keeps one list of messages and marks each as seen by the person (`userVisible`) and by the model
(`agentVisible`). A compaction rewrites the list: it hides all messages from the model and adds a summary and a note to
go on, which only the model sees, and a copy of the last prompt. So:

Rule 1: a message means the same whether it is hidden or not: a session that was imported before a compaction and again
after it has its messages once. Hidden messages at the beginning are followed by a `compaction`, which takes them out of
the context. The summary is its text; the note behind it is kept verbatim.
Rule 2: a hidden message behind a visible one was never given to the model (a command to Goose, a command in a shell)
and is kept verbatim. A call and a result are taken nevertheless: Goose replaces old ones, one by one, by a sentence
that a model wrote. That sentence is kept verbatim, as the log has the call and the result themselves.
Rule 3: an entry depends on the messages up to its own and on the one behind it. Goose adds a summary and the note
behind it in one transaction.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from wakelog.decide.assembly import with_unique_call_ids
from wakelog.exchange.goose.content import child_of, has_meaning, prompt_part, reply_part, result_of
from wakelog.exchange.goose.records import (
    FIELDS,
    IS_PROMPT,
    NOTE_TYPE,
    TOOL,
    StoredMessage,
    identity,
    object_of,
    request_id,
    string_of,
    text_of,
    without,
)
from wakelog.exchange.sessions import ImportedEntry, entry_id, session_id, verbatim
from wakelog.log.content import AnyPart, JsonObject, Note, Prompt, Reply, ToolCall, UnknownPart
from wakelog.log.entry import Annotation, Compaction, Custom, KnownBody, Message, ModelChange, Spawned

AGENT_ONLY = f"{TOOL}:agent_only"
"""The kind of a note that only the model is shown."""
CONTINUATION = "continuation"
"""The kind of the note behind a summary."""
_COMMAND = re.compile(r"/[A-Za-z][\w.-]*(\s|\Z)")
_KNOWN_FIELDS = ("id", "role", "created", "content", "metadata")
_KNOWN_METADATA = ("userVisible", "agentVisible", "inference")
_REQUESTED = "requestedModel"
_TIMES_KEPT = 10_000


class _Call(msgspec.Struct):
    """A tool call that a result may name."""

    reply_id: str
    call_id: str
    name: str
    is_answered: bool = False


class EntryReader:
    """Turns the messages of one session into entries. Keeps ids, and no messages.

    `find_session` returns the name of a sub-agent's session by its id; None if the source does not hold it.
    """

    def __init__(self, session: str, find_session: Callable[[str], str | None]) -> None:
        self._session = session
        self._find_session = find_session
        self._head = ""
        self._keys: Counter[str] = Counter()
        self._calls: dict[str, list[_Call]] = {}
        self._children: set[str] = set()
        self._time = ""
        self._models: tuple[str, ...] = ()
        """What the model of the last reply is called."""
        self._has_visible = False
        # Whether hidden messages are in the context as far as the entries say.
        self._has_hidden = False
        self._summarised: dict[int, None] = {}
        self._is_behind_command = False
        self._is_behind_summary = False

    def read_other(self, kind: str, record: object, key: str, timestamp: str, records: int = 1) -> ImportedEntry:
        """Return a record that is not a message, kept as it is, behind the entries so far."""
        self._time = timestamp or self._time
        return self._kept(kind, record, f"{self._session}:{key}", records)

    @property
    def head(self) -> str:
        """The id of the last node; empty before the first."""
        return self._head

    def is_other_model(self, model: str) -> bool:
        """Return whether a model is not that of the last reply."""
        return bool(model) and model not in self._models

    def model_change(self, model: str, provider: str, key: str) -> ImportedEntry:
        """Return the model that is used from here on, behind the entries so far."""
        changed = ModelChange(model=model, provider=provider or None)
        return self._next(changed, f"{self._session}:{key}", records=0)

    def read(self, message: StoredMessage, following: StoredMessage | None) -> Iterator[ImportedEntry]:
        """Yield the entries of the next message; `following` is the one behind it, if any."""
        key = self._key(message)
        self._time = message.timestamp or self._time
        is_behind_command, is_behind_summary = self._is_behind_command, self._is_behind_summary
        is_command = _is_command(message)
        is_summary = self._is_summary(message, following, is_behind_command=is_behind_command)
        self._is_behind_command, self._is_behind_summary = is_command, is_summary
        content = message.content
        if content is None or message.role not in ("user", "assistant"):
            yield self._kept("message", message.record, key)
        elif is_summary:
            yield from self._compaction(message, key)
        elif is_behind_summary and message.role == "assistant" and not message.user_visible:
            yield self._kept(CONTINUATION, message.record, key)
        elif not has_meaning(content, message.role):
            yield self._kept(string_of(content[0].get("type")) or "message", message.record, key)
        elif is_command:
            yield self._kept("command", message.record, key)
        elif self._is_tool_summary(message):
            yield self._kept("tool_summary", message.record, key)
        elif not message.agent_visible and self._has_visible and not _has_tools(content):
            yield self._kept("hidden", message.record, key)
        else:
            yield from self._mapped(message, content, key, is_behind_command=is_behind_command)

    def _key(self, message: StoredMessage) -> str:
        """Return what identifies a message. Equal ones are numbered."""
        said = identity(message)
        self._keys[said] += 1
        return said if self._keys[said] == 1 else f"{said}#{self._keys[said]}"

    # ── visibility ───────────────────────────────────────────────────────────────────────────────

    def _is_summary(self, message: StoredMessage, following: StoredMessage | None, *, is_behind_command: bool) -> bool:
        """Return whether a message is the summary of all messages before it."""
        if message.role != "user" or message.user_visible or _note_type(message) is not None:
            return False
        if not message.text or _has_tools(message.content or []):
            return False
        if self._has_visible:
            return False
        is_first_shown = message.agent_visible and self._has_hidden and not is_behind_command
        return is_first_shown or (
            following is not None and following.role == "assistant" and not following.user_visible
        )

    def _is_tool_summary(self, message: StoredMessage) -> bool:
        """Return whether a message replaces a call and its result: it has the time of a hidden result."""
        is_hidden = message.role == "user" and not message.user_visible and _note_type(message) is None
        return is_hidden and message.is_text and message.created in self._summarised

    def _compaction(self, message: StoredMessage, key: str) -> Iterator[ImportedEntry]:
        parts, rest = _parts(message.content or [], prompt_part)
        yield self._next(Compaction(summary=Prompt(content=parts).text, trigger="imported"), key)
        # The reasoning of the model that wrote the summary is behind it.
        others = {str(at): part.part for at, part in enumerate(parts) if isinstance(part, UnknownPart)}
        yield from self._fields(message, {**rest, **others}, key)
        self._has_visible = message.agent_visible
        self._has_hidden = not message.agent_visible

    def _mark_visible(self, message: StoredMessage, key: str) -> Iterator[ImportedEntry]:
        """Yield a compaction before the first visible message behind hidden ones."""
        if not message.agent_visible:
            self._has_hidden = True
        elif not self._has_visible:
            self._has_visible = True
            if self._has_hidden:
                yield self._next(Compaction(summary="", trigger="imported"), f"{key}:hidden", records=0)

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def _mapped(
        self, message: StoredMessage, content: list[JsonObject], key: str, *, is_behind_command: bool
    ) -> Iterator[ImportedEntry]:
        yield from self._mark_visible(message, key)
        if message.role == "assistant":
            yield from self._reply(message, content, key)
        else:
            yield from self._user_message(message, content, key, is_behind_command=is_behind_command)

    def _reply(self, message: StoredMessage, content: list[JsonObject], key: str) -> Iterator[ImportedEntry]:
        parts, rest = _parts(content, reply_part)
        foreign_ids = [part.id for part in parts if isinstance(part, ToolCall)]
        inference = object_of(object_of(message.record.get("metadata")).get("inference"))
        self._models = string_of(inference.get("resolvedModel")), string_of(inference.get(_REQUESTED))
        reply = Reply(
            content=with_unique_call_ids(parts),
            model=self._models[0] or self._models[1] or None,
            provider=string_of(inference.get("provider")) or None,
            request_id=request_id(message),
        )
        entry = self._next(Message(message=reply), key)
        yield entry
        for foreign_id, call in zip(foreign_ids, reply.tool_calls, strict=True):
            self._calls.setdefault(foreign_id, []).append(_Call(entry.body.id, call.id, call.name))
        yield from self._fields(message, rest, key)

    def _user_message(
        self, message: StoredMessage, content: list[JsonObject], key: str, *, is_behind_command: bool
    ) -> Iterator[ImportedEntry]:
        """Yield a prompt or a note of what a message says, and the results in it, in their order."""
        kind = _note_type(message)
        if kind is None and not message.user_visible and message.agent_visible and not is_behind_command:
            kind = AGENT_ONLY
        number = 0
        for group in _groups(content):
            place = key if number == 0 else f"{key}:{number}"
            whole = message if number == 0 else None
            records = int(number == 0)
            number += 1
            if group and group[0].get("type") == "toolResponse" and isinstance(group[0].get("id"), str):
                yield from self._result(message, group[0], place, records=records)
                continue
            parts, rest = _parts(group, prompt_part)
            said = Prompt(content=parts) if kind is None else Note(content=parts, custom_type=kind)
            yield self._next(Message(message=said), place, records=records)
            yield from self._fields(whole, rest, place)

    def _result(self, message: StoredMessage, item: JsonObject, key: str, *, records: int) -> Iterator[ImportedEntry]:
        if not message.agent_visible:
            self._summarised[message.created] = None
            if len(self._summarised) > _TIMES_KEPT:
                del self._summarised[next(iter(self._summarised))]
        call = self._call(item["id"])
        if call is None:
            yield self._kept("toolResponse", message.record if records else item, key, records)
            return
        call.is_answered = True
        result, rest = result_of(item)
        named = msgspec.structs.replace(result, tool_call_id=call.call_id, reply_id=call.reply_id, tool_name=call.name)
        yield self._next(Message(message=named), key, records=records)
        yield from self._fields(message if records else None, {}, key, result=rest)
        child = child_of(item)
        name = self._find_session(child) if child and child not in self._children else None
        if name is not None:
            self._children.add(child)
            spawned = Spawned(
                id=entry_id(TOOL, f"{key}:spawned"),
                parent_id=call.reply_id,
                timestamp=self._time,
                child_session=session_id(TOOL, name),
                reply_id=call.reply_id,
                tool_call_id=call.call_id,
            )
            yield ImportedEntry(spawned, records=0)

    def _call(self, call_id: str) -> _Call | None:
        """Return the call that a result answers: the last open one with its id, else the last."""
        calls = self._calls.get(call_id)
        if not calls:
            return None
        return next((call for call in reversed(calls) if not call.is_answered), calls[-1])

    # ── entries ──────────────────────────────────────────────────────────────────────────────────

    def _next(self, body: KnownBody, key: str, records: int = 1) -> ImportedEntry:
        """Return a node behind the last one."""
        assert not isinstance(body, Annotation)
        stamp = entry_id(TOOL, key)
        placed = msgspec.structs.replace(body, id=stamp, parent_id=self._head or None, timestamp=self._time)
        self._head = stamp
        return ImportedEntry(placed, records=records)

    def _kept(self, kind: str, record: object, key: str, records: int = 1) -> ImportedEntry:
        """Return a record that is kept as it is, behind the last node."""
        parent = self._head or None
        entry = verbatim(TOOL, kind, record, key=key, parent_id=parent, timestamp=self._time, records=records)
        self._head = entry.body.id
        return entry

    def _fields(
        self, message: StoredMessage | None, rest: JsonObject, key: str, result: JsonObject | None = None
    ) -> Iterator[ImportedEntry]:
        """Yield an entry with the fields that have no counterpart, if there are any."""
        found: JsonObject = {**({"content": rest} if rest else {}), **({"result": result} if result else {})}
        if message is not None:
            found.update(without(message.record, *_KNOWN_FIELDS))
            metadata = object_of(message.record.get("metadata"))
            more = without(metadata, *_KNOWN_METADATA)
            inference = object_of(metadata.get("inference"))
            if left := without(inference, "provider", "resolvedModel" if "resolvedModel" in inference else _REQUESTED):
                more["inference"] = left
            if more:
                found["metadata"] = more
        if found:
            yield self._next(Custom(custom_type=FIELDS, data=found), f"{key}:fields", records=0)


def _parts(
    content: list[JsonObject], convert: Callable[[JsonObject], tuple[AnyPart, JsonObject]]
) -> tuple[tuple[AnyPart, ...], JsonObject]:
    """Return the parts of items, and what is left of the items, by their place."""
    found = [convert(item) for item in content]
    left = {str(at): rest for at, (_, rest) in enumerate(found) if rest}
    return tuple(part for part, _ in found), left


def _groups(content: list[JsonObject]) -> list[list[JsonObject]]:
    """Return the items of a user message: each result alone, and what stands between results together."""
    groups: list[list[JsonObject]] = []
    is_open = False
    for item in content:
        is_result = item.get("type") == "toolResponse" and isinstance(item.get("id"), str)
        if is_result or not is_open:
            groups.append([])
        groups[-1].append(item)
        is_open = not is_result
    return groups or [[]]


def _note_type(message: StoredMessage) -> str | None:
    """Return the kind of a note that wakelog wrote."""
    for item in message.content or ():
        if kind := string_of(object_of(item.get("_meta")).get(NOTE_TYPE)):
            return kind
    return None


def _has_tools(content: list[JsonObject]) -> bool:
    return any(item.get("type") in ("toolRequest", "toolResponse") for item in content)


def _is_command(message: StoredMessage) -> bool:
    """Return whether a message is a command to Goose itself, which the model is not given."""
    if message.role != "user" or message.agent_visible or not message.is_text:
        return False
    items = message.content or []
    return has_command(items) and not any(object_of(item.get("_meta")).get(IS_PROMPT) is True for item in items)


def has_command(items: list[JsonObject]) -> bool:
    """Return whether the text of a message begins like a command to Goose."""
    text = "\n".join(found for item in items if (found := text_of(item)) is not None)
    return _COMMAND.match(text.strip()) is not None
