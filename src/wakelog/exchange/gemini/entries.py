"""The operations of a Gemini CLI session as entries of wakelog, record by record.

Rule 1: nothing that was recorded is taken back. A message is recorded again whenever it changes, and all messages are
recorded again when a session is resumed, compressed or masked, then often with other ids and without models, usage and
reasoning. Such messages are recognised by their content (`Turn`), and only what is new in them becomes entries.
Rule 2: the last message of the model is held back until another record follows, because its calls are recorded when
they have ended. If an earlier import has ended there (`is_known`), the calls become a reply of their own. So do those
of a document, which has only the last form of a message.
Rule 3: messages that replace the beginning of the conversation are a compaction; `$rewindTo` moves the head; a list of
messages that only ends earlier moves it when the next message comes, as a resume empties the list and fills it again.
Rule 4: the id of an entry comes from the id of its message. Ids that are no UUIDs are only unique within a session.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from wakelog.exchange.gemini.content import (
    digest,
    injected_kind,
    parts_list,
    plain_part,
    reply_keys,
    response_of,
    responses_in,
    text_field,
    user_keys,
)
from wakelog.exchange.gemini.messages import MessageReader, shown_text
from wakelog.exchange.gemini.placement import Alignment, Turn, aligned, without_repeated_results
from wakelog.exchange.sessions import ImportedEntry, ImportedItem, SkippedRecords, timestamp_of
from wakelog.log.content import JsonObject, Text
from wakelog.log.entry import Compaction, Head, SessionRenamed

ACKNOWLEDGEMENT = "Got it. Thanks for the additional context!"
"""What Gemini CLI lets the model say to a summary."""
# What a metadata record says that is known from the messages, or changes all the time.
_DERIVED = frozenset(("sessionId", "projectHash", "startTime", "lastUpdated", "kind", "messages", "summary"))
_REPEATED = "repeats a message that was recorded before"
_IN_CALL = "the result is in the record of its call"
_LISTED = "repeats messages that were recorded before, or has the context of the next prompt"
_NO_NEWS = "when the session was changed, which the messages say"


class _Draft(msgspec.Struct):
    """A message of the model that may still change, and the number of records that it stands for."""

    message: JsonObject
    records: int


class EntryReader(MessageReader):
    """Turns the records of one session into entries; holds one message back."""

    def __init__(
        self, session: str, is_known: Callable[[str], bool] | None = None, children: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(session, is_known, children)
        self._title: str | None = None
        self._draft: _Draft | None = None
        self._replayed: int | None = None
        """While all messages are recorded again with other ids: how many turns have been."""

    # ── records ──────────────────────────────────────────────────────────────────────────────────

    def read(self, record: JsonObject) -> Iterator[ImportedItem]:
        """Yield what the next record becomes."""
        match record:
            case {"$rewindTo": str(target)}:
                yield from self._flush()
                yield from self._rewind(record, target)
            case {"id": str(own_id)}:
                yield from self._message_record(record, own_id)
            case {"$set": dict(changes)}:
                if set(changes) != {"lastUpdated"}:
                    yield from self._flush()
                kind, why = ("$set messages", _LISTED) if "messages" in changes else ("$set", _NO_NEWS)
                yield from self._counted(self._changes(changes), kind, why)
            case {"sessionId": str(), "projectHash": str()}:
                yield from self._flush()
                yield from self._counted(self._metadata(record), "metadata", _NO_NEWS)
            case _:
                yield from self._flush()
                yield self._verbatim("record", record, self._content_key(record))

    def close(self) -> Iterator[ImportedItem]:
        """Yield what was held back at the end of the file."""
        yield from self._flush()

    def _counted(self, entries: Iterator[ImportedEntry], kind: str, reason: str) -> Iterator[ImportedItem]:
        """Yield the entries of one record, the first of which accounts for it; without any, it is counted."""
        first = next(entries, None)
        if first is None:
            yield SkippedRecords(kind, 1, reason)
            return
        yield msgspec.structs.replace(first, records=1)
        for entry in entries:
            yield msgspec.structs.replace(entry, records=0)

    def _message_record(self, record: JsonObject, own_id: str) -> Iterator[ImportedItem]:
        draft = self._draft
        if draft is not None and draft.message.get("id") == own_id:
            if self._is_replaced(draft.message, record):
                self._draft = _Draft(record, draft.records + 1)
                return
            yield from self._flush(is_growing=True)
        elif draft is not None:
            yield from self._flush(is_growing=record.get("type") == "gemini")
        if own_id in self._contents and own_id in self._places:
            yield from self._counted(self._changed(record, own_id), text_field(record, "type"), _REPEATED)
        elif self._is_replayed(record):
            yield SkippedRecords(text_field(record, "type") or "message", 1, _REPEATED)
        elif record.get("type") == "gemini":
            self._draft = _Draft(record, 1)
        else:
            self._places.setdefault(own_id, self._visible)
            yield from self._counted(self._message(record), text_field(record, "type"), self._why_nothing(record))

    def _is_replaced(self, draft: JsonObject, record: JsonObject) -> bool:
        """Return whether a message that was held back is not taken, because this record of it is.

        One that makes the same reply is taken, so that its results and fields are those that came first, whenever it is
        imported; its usage may come with the next record.
        """
        if self._is_same_reply(draft, record):
            is_counted = not draft.get("tokens") and record.get("tokens")
            return bool(is_counted) and {**draft, "tokens": record["tokens"]} == record
        return not self._is_stored(draft)

    def _why_nothing(self, record: Mapping[str, Any]) -> str:
        parts = parts_list(record.get("content"))
        if injected_kind(parts) == "session_context":
            return "goes before the next prompt"
        return _IN_CALL if record.get("type") in ("user", "info") and parts else _REPEATED

    def _metadata(self, record: JsonObject) -> Iterator[ImportedEntry]:
        kept = {key: value for key, value in record.items() if key not in ("messages", "lastUpdated", "summary")}
        key = self._content_key(kept) if self._tip else f"{self._session}:session"
        yield self._verbatim("session", kept, key)
        yield from self._rename(record.get("summary"))
        messages = record.get("messages")
        for message in messages if isinstance(messages, list) else ():
            if _is_message(message):
                yield from self._listed(message)
            else:
                yield self._verbatim("message", message, self._content_key(message))

    def _changes(self, changes: JsonObject) -> Iterator[ImportedEntry]:
        if isinstance(messages := changes.get("messages"), list):
            yield from self._replaced(messages)
        yield from self._rename(changes.get("summary"))
        rest = {key: value for key, value in changes.items() if key not in _DERIVED}
        if rest:
            yield self._verbatim("metadata", rest, self._content_key(rest))

    def _rename(self, title: object) -> Iterator[ImportedEntry]:
        if isinstance(title, str) and title.strip() and title != self._title and self._tip:
            self._title = title
            key = self._content_key({"summary": title})
            yield self._annotation(SessionRenamed(title=title.strip()), key, self._tip)

    def _rewind(self, record: JsonObject, target: str) -> Iterator[ImportedEntry]:
        if not self._tip:
            yield self._verbatim("record", record, self._content_key(record))
            return
        self._visible = min(self._places.get(target, 0), len(self._turns))
        while self._places and self._places.popitem()[0] != target:
            pass
        place = self._node_at(self._visible)
        del self._turns[self._visible :]
        yield self._annotation(Head(target_id=place), self._content_key(record), place, records=1)
        self._tip = place

    def _flush(self, *, is_growing: bool = False) -> Iterator[ImportedItem]:
        """Yield the message that was held back. If it grows, its call may be recorded next."""
        draft, self._draft = self._draft, None
        if draft is None:
            return
        records = draft.records
        for entry in self._reply(draft.message, is_growing=is_growing):
            yield msgspec.structs.replace(entry, records=records)
            records = 0

    # ── lists of messages ────────────────────────────────────────────────────────────────────────

    def _is_replayed(self, record: JsonObject) -> bool:
        """Return whether a message with a new id repeats the turns from the first on, as when results are masked."""
        if self._replayed is None:
            parts = parts_list(record.get("content"))
            is_first = injected_kind(parts) == "session_context" and digest(parts[0]) == self._last_context
            if not (is_first and self._turns and record.get("type") == "user"):
                return False
            self._replayed = 0
        keys, at = _turn_keys(record), self._replayed
        if at < len(self._turns) and [turn.key for turn in self._turns[at : at + len(keys)]] == keys:
            self._replayed += len(keys)
            self._places.setdefault(record["id"], at)
            self._contents[record["id"]] = digest(record)
            return True
        self._replayed = None
        return False

    def _replaced(self, messages: list[Any]) -> Iterator[ImportedEntry]:
        """Yield what is new in a list that replaces all messages."""
        self._replayed = None
        listed = [each for each in messages if _is_message(each)]
        for message in listed:
            self._without_context(self._message_key(message["id"]), parts_list(message.get("content")), message)
        keys = without_repeated_results(_keys_in_list(listed))
        flat = [key for each in keys for key in each]
        shown = [(message, len(turns)) for message, turns in zip(listed, keys, strict=True) if turns]
        new = shown[0][1] if shown and shown[0][0]["id"] not in self._contents else 0
        is_summarised = bool(new) and len(shown) > 1 and _is_acknowledgement(shown[1][0])
        new += shown[1][1] if is_summarised else 0
        found = aligned(self._turns, flat, new, is_summarised=is_summarised)
        starts = list(accumulate((len(each) for each in keys), initial=0))[:-1]
        yield from self._shortened(listed)
        match found.kind:
            case "shorter":
                self._visible = found.prefix
            case "middle":
                self._visible = len(self._turns)
            case "tail" | "summary":
                yield from self._compaction(listed, keys, found)
            case "other":
                self._visible = len(self._turns)
                yield self._verbatim("messages", messages, self._content_key(messages), records=0)
            case "longer":
                self._visible = found.prefix
                yield from self._added(listed, keys, starts, found.prefix)
        for message, turns in zip(listed, keys, strict=True):
            if not turns and message["id"] not in self._contents:
                yield from self._message(message)
        if len(listed) < len(messages):
            odd = [each for each in messages if not _is_message(each)]
            yield self._verbatim("messages", odd, self._content_key(odd), records=0)
        self._places = {message["id"]: start for message, start in zip(listed, starts, strict=True)}
        for message in listed:
            self._contents.setdefault(message["id"], digest(message))

    def _added(
        self, listed: Sequence[JsonObject], keys: Sequence[Sequence[str]], starts: Sequence[int], known: int
    ) -> Iterator[ImportedEntry]:
        """Yield the messages behind the known turns."""
        for message, turns, start in zip(listed, keys, starts, strict=True):
            if start >= known and (turns or message["id"] not in self._contents):
                yield from self._listed(message)
            elif start + len(turns) > known:
                self._visible = len(self._turns)
                if message.get("type") == "gemini":
                    yield from self._grown(message, message["id"])
                else:
                    yield self._verbatim("changed_message", message, self._content_key(message), records=0)

    def _listed(self, message: JsonObject) -> Iterator[ImportedEntry]:
        own_id = message["id"]
        if own_id in self._contents and own_id in self._places:
            yield from self._changed(message, own_id)
        elif message.get("type") == "gemini":
            yield from self._reply(message, is_growing=True)
        else:
            self._places.setdefault(own_id, self._visible)
            yield from self._message(message)

    def _compaction(
        self, listed: Sequence[JsonObject], keys: Sequence[Sequence[str]], found: Alignment
    ) -> Iterator[ImportedEntry]:
        """Yield the compaction that a list of messages stands for, and the messages behind its summary."""
        kept = self._turns[len(self._turns) - found.suffix :] if found.suffix else []
        ends = accumulate(len(turns) for turns in keys)
        before = sum(len(turns) for turns in keys) - found.suffix
        new = [
            each for each, end in zip(zip(listed, keys, strict=True), ends, strict=True) if each[1] and end <= before
        ]
        self._visible = len(self._turns)
        summary, key, turns = "", self._content_key([turn.key for turn in kept]), list[Turn]()
        if found.kind == "summary" and new:
            first, said = new.pop(0)
            self._time = timestamp_of(first.get("timestamp"), self._time)
            texts = [plain_part(part) for part in parts_list(first.get("content"))]
            summary = "".join(part.text for part in texts if isinstance(part, Text))
            key = self._message_key(first["id"])
            turns = [Turn(turn, "", "") for turn in said]
            if new and _is_acknowledgement(new[0][0]):
                turns += [Turn(turn, "", "") for turn in new.pop(0)[1]]
        body = Compaction(
            summary=summary,
            first_kept_entry_id=kept[0].entry if kept else None,
            trigger="imported" if found.kind == "summary" else "reset",
        )
        yield from self._place(body, key)
        place = self._tip
        self._turns = [*(Turn(turn.key, place, place) for turn in turns), *kept]
        self._base = self._base if self._turns else place
        self._visible = len(self._turns)
        if kept and new:
            between = [message for message, _ in new]
            yield self._verbatim("messages", between, self._content_key(between), records=0)
        elif not kept:
            for message, _ in new:
                yield from self._listed(message)

    def _shortened(self, listed: Sequence[JsonObject]) -> Iterator[ImportedEntry]:
        """Yield the results that Gemini CLI has shortened to save context."""
        changed: dict[str, Any] = {}
        for message in listed:
            if message.get("type") != "user":
                continue
            for call_id, response in responses_in(parts_list(message.get("content"))):
                call = self._calls.get(call_id)
                shown = shown_text(response_of(response))
                if call is not None and call.result not in (None, shown):
                    changed[call_id], call.result = response, shown
        if changed:
            yield self._verbatim("shortened_results", changed, self._content_key(changed), records=0)


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("id"), str)


def _turn_keys(message: JsonObject) -> list[str]:
    match message.get("type"):
        case "user":
            return user_keys(parts_list(message.get("content")))
        case "gemini":
            return reply_keys(message)
    return []


def _keys_in_list(listed: Sequence[JsonObject]) -> Iterator[list[str]]:
    """Yield the turns of each message in a list. A summary is one, though it begins like a command."""
    for at, message in enumerate(listed):
        parts = parts_list(message.get("content"))
        is_summary = at + 1 < len(listed) and message.get("type") == "user" and _is_acknowledgement(listed[at + 1])
        keys = _turn_keys(message)
        if is_summary and parts and not keys and injected_kind(parts) is None:
            keys = [f"u:{digest(parts)}"]
        yield keys


def _is_acknowledgement(message: JsonObject) -> bool:
    texts = [part.get("text") for part in parts_list(message.get("content")) if isinstance(part, dict)]
    return message.get("type") == "gemini" and texts == [ACKNOWLEDGEMENT] and not message.get("toolCalls")
