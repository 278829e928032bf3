"""Events of OpenCode, each with the whole new value of a session, a message or a part, as the sessions they lead to."""

from collections import Counter

import msgspec

from wakelog.exchange.opencode.records import (
    Rename,
    StoredMessage,
    StoredPart,
    object_of,
    part_of,
    started_ms,
    text_of,
    time_text,
)
from wakelog.exchange.records import BadRecord
from wakelog.exchange.sessions import ImportedItem, SkippedRecords
from wakelog.log.content import JsonObject

_PASSING = "tells a display what happens; messages and parts hold the outcome"
_PASSING_TYPES = frozenset(
    {
        "session.compacted",
        "session.diff",
        "session.idle",
        "session.status",
    }
)


class FoldedSession(msgspec.Struct):
    """A session as its events left it; `records` counts the events about the session itself."""

    id: str
    info: JsonObject = {}
    messages: list[StoredMessage] = []
    records: int = 0
    renames: list[Rename] = []

    @property
    def has_messages(self) -> bool:
        """Whether there is any message but the events that were kept as they are."""
        return any(not message.kind for message in self.messages)


class EventFold:
    """Takes events in their order. Each one is counted: in a session, a message or a part, or as skipped."""

    def __init__(self) -> None:
        self._sessions: dict[str, FoldedSession] = {}
        self._messages: dict[tuple[str, str], StoredMessage] = {}
        self._parts: dict[tuple[str, str], dict[str, StoredPart]] = {}
        """The parts of each message, until `close` gives them to it."""
        self._grown: dict[tuple[str, str, str], dict[str, list[str]]] = {}
        """What deltas add to the fields of a part."""
        self._skipped: Counter[tuple[str, str]] = Counter()
        self._bad: list[BadRecord] = []
        self._count = 0

    def names(self) -> list[str]:
        """Return the ids of the sessions, in the order in which they appeared."""
        return list(self._sessions)

    def session(self, name: str) -> FoldedSession | None:
        """Return a session; None if no event is about it."""
        return self._sessions.get(name)

    def started_of(self, name: str) -> int | None:
        """Return when a session began; None if no event is about it."""
        found = self._sessions.get(name)
        return None if found is None else started_ms(found.info)

    def skipped(self) -> list[ImportedItem]:
        """Return what is in no session."""
        counts = [SkippedRecords(kind, count, why) for (kind, why), count in sorted(self._skipped.items())]
        return [*self._bad, *counts]

    def add(self, event: JsonObject | BadRecord) -> None:
        """Take one event `{"type", "properties"}`."""
        if isinstance(event, BadRecord):
            self._bad.append(event)
            return
        self._count += 1
        kind, values = text_of(event.get("type")), object_of(event.get("properties"))
        info, part = object_of(values.get("info")), object_of(values.get("part"))
        match kind:
            case "session.created" | "session.updated" if text_of(info.get("id")):
                self._session_event(info)
            case "message.updated" if text_of(info.get("id")) and text_of(info.get("sessionID")):
                self._message_event(info)
            case "message.part.updated" if text_of(part.get("id")) and text_of(part.get("messageID")):
                self._part_event(part, text_of(part.get("sessionID")) or text_of(values.get("sessionID")), event)
            case "message.part.delta" if (grown := self._found_part(values)) is not None:
                self._grow(grown, values)
            case "message.removed" if self._found(values) is not None:
                self._removal(values)
            case "message.part.removed" if self._found(values) is not None:
                self._part_removal(values)
            case _:
                owner = values.get("sessionID") or info.get("sessionID") or info.get("id")
                self._other(kind, event, text_of(owner))

    def close(self) -> None:
        """Give each message its parts, when the last event has been taken."""
        for (session, message, part_id), fields in self._grown.items():
            part = self._parts[session, message][part_id]
            whole = {field: "".join([part.value[field], *texts]) for field, texts in fields.items()}
            part.value = {**part.value, **whole}
        for place, parts in self._parts.items():
            self._messages[place].parts = list(parts.values())
        self._grown, self._parts = {}, {}

    def _home(self, name: str) -> FoldedSession:
        return self._sessions.setdefault(name, FoldedSession(name))

    def _session_event(self, info: JsonObject) -> None:
        session = self._home(info["id"])
        title, before = text_of(info.get("title")), text_of(session.info.get("title"))
        if session.records and title and title != before:
            updated = time_text(object_of(info.get("time")).get("updated"))
            session.renames.append(Rename(len(session.messages), title, updated))
        session.info = {**session.info, **info}
        session.records += 1

    def _message_event(self, info: JsonObject) -> None:
        session = self._home(info["sessionID"])
        place = (session.id, info["id"])
        message = self._messages.get(place)
        if message is None:
            message = self._messages[place] = StoredMessage(info["id"], info, [], records=0)
            session.messages.append(message)
        message.info = {**message.info, **info}
        message.records += 1

    def _part_event(self, part: JsonObject, session: str, event: JsonObject) -> None:
        message = self._messages.get((session, part["messageID"]))
        if message is None:
            self._other("message.part.updated", event, session)
            return
        new = part_of(part, message, part["id"])
        parts = self._parts.setdefault((session, message.id), {})
        old = parts.setdefault(new.id, new)
        if old is not new:
            old.value, old.records = _with_input(new.value, old.value), old.records + 1
            # The event with the whole part repeats its deltas.
            self._grown.pop((session, message.id, new.id), None)

    def _found(self, values: JsonObject) -> StoredMessage | None:
        return self._messages.get((text_of(values.get("sessionID")), text_of(values.get("messageID"))))

    def _found_part(self, values: JsonObject) -> StoredPart | None:
        """Return the part that a delta continues; None if it is not a text of a known part."""
        field = text_of(values.get("field"))
        part = self._parts_of(values).get(text_of(values.get("partID")))
        is_text = isinstance(values.get("delta"), str) and part is not None and isinstance(part.value.get(field), str)
        return part if is_text else None

    def _parts_of(self, values: JsonObject) -> dict[str, StoredPart]:
        return self._parts.get((text_of(values.get("sessionID")), text_of(values.get("messageID"))), {})

    def _grow(self, part: StoredPart, values: JsonObject) -> None:
        """Note the text that a delta adds to its part."""
        place = (values["sessionID"], values["messageID"], part.id)
        self._grown.setdefault(place, {}).setdefault(values["field"], []).append(values["delta"])
        part.records += 1

    def _removal(self, values: JsonObject) -> None:
        message = self._found(values)
        if message is not None:
            message.is_removed = True
            message.records += 1

    def _part_removal(self, values: JsonObject) -> None:
        removed = self._parts_of(values).pop(text_of(values.get("partID")), None)
        count = 1
        if removed is not None:
            self._grown.pop((values["sessionID"], values["messageID"], removed.id), None)
            count += removed.records
        self._skipped["message.part.removed", "the part was removed in OpenCode"] += count

    def _other(self, kind: str, event: JsonObject, session: str) -> None:
        """Keep an event of a session that is about neither a message nor a part; count one that means nothing later."""
        if kind in _PASSING_TYPES or not session:
            self._skipped[f"event {kind}", _PASSING] += 1
            return
        place = f"{session}:event:{self._count}"
        self._home(session).messages.append(StoredMessage(place, event, [], kind=kind or "event"))


def _with_input(new: JsonObject, old: JsonObject) -> JsonObject:
    """Return a tool part with the input of the call, which the event about its end may lack."""
    state, known = new.get("state"), object_of(old.get("state")).get("input")
    if not isinstance(state, dict) or "input" in state or known is None:
        return new
    return {**new, "state": {**state, "input": known}}
