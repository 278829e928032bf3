"""Places of entries in a session of Gemini CLI, and the comparison of recorded messages with those that are known.

The conversation is kept as a list of turns, the parts of messages that the model sees: texts, calls and results, each
with what identifies it. A list of messages that is recorded again is compared with them turn by turn.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from wakelog.exchange.gemini.content import TOOL, digest
from wakelog.exchange.sessions import ImportedEntry, entry_id
from wakelog.log.entry import Custom, Head, KnownBody

_KIND_CHARS = 60


class Turn(msgspec.Struct, frozen=True):
    """A part of the conversation: what identifies it, its entry, and the node that the next part goes under."""

    key: str
    entry: str
    node: str


class Alignment(msgspec.Struct, frozen=True):
    """How recorded turns relate to known ones, and how many are equal at the beginning and at the end.

    `shorter`: they are the beginning of the known ones, or all of them. `tail`: they are the end. `summary`: others
    stand for the beginning. `longer`: others follow the beginning. `middle`: some are missing in between.
    `other`: others stand in between.
    """

    kind: Literal["shorter", "tail", "summary", "longer", "middle", "other"]
    prefix: int
    suffix: int


def aligned(known: Sequence[Turn], recorded: Sequence[str], new: int = 0, *, is_summarised: bool = False) -> Alignment:
    """Compare recorded turns with known ones.

    The first `new` turns are those of a message that is certainly new; `is_summarised`: it is certainly a summary.
    """
    prefix = 0 if new else _common(known, recorded)
    rest = min(len(known), len(recorded) - new) - prefix
    suffix = min(rest, _common(reversed(known), reversed(recorded)))
    if prefix == len(recorded):
        return Alignment("shorter", prefix, 0)
    if prefix + suffix == len(recorded):
        return Alignment("middle" if prefix else "tail", prefix, suffix)
    if prefix == 0 and (known or is_summarised) and recorded[0].startswith("u:"):
        return Alignment("summary", 0, suffix)
    return Alignment("other" if prefix and suffix else "longer", prefix, suffix)


def _common(known: Iterable[Turn], recorded: Iterable[str]) -> int:
    """Return how many turns are equal from the first on. No more of them are looked at."""
    count = 0
    for turn, key in zip(known, recorded, strict=False):
        if turn.key != key:
            break
        count += 1
    return count


def without_repeated_results(messages: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return the turns of messages, each result once: Gemini CLI stores it with the call and as a message."""
    answered: set[str] = set()
    found: list[list[str]] = []
    for turns in messages:
        found.append([])
        for turn in turns:
            kind, call_id = turn[:2], turn[2:]
            if kind == "c:":
                answered.discard(call_id)
            elif kind == "r:" and call_id in answered:
                continue
            elif kind == "r:":
                answered.add(call_id)
            found[-1].append(turn)
    return found


class Placement:
    """The turns of a session and the place of the next entry."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._time = ""
        self._tip = self._base = ""
        """The last node, and the node that the first message goes under."""
        self._turns: list[Turn] = []
        self._visible = 0
        """How many of the turns are in the list of messages at present."""
        self._used: Counter[str] = Counter()
        self._keys: Counter[str] = Counter()

    def _node_at(self, turns: int) -> str:
        """Return what goes on after a number of turns."""
        if turns == len(self._turns):
            return self._tip
        return self._turns[turns - 1].node if turns else self._base

    def _place(
        self, body: KnownBody, key: str, turns: Sequence[str] = (), *, time: str = ""
    ) -> Iterator[ImportedEntry]:
        """Yield a node behind the last turn in the list, after a move of the head if that is not the last node."""
        parent = self._node_at(self._visible)
        if parent != self._tip:
            yield self._annotation(Head(target_id=parent), f"{key}:head", parent)
        del self._turns[self._visible :]
        self._tip = parent
        yield ImportedEntry(self._append(body, key, turns, time), records=0)
        self._visible = len(self._turns)

    def _append(self, body: KnownBody, key: str, turns: Sequence[str] = (), time: str = "") -> KnownBody:
        """Return a node behind the last one."""
        placed = msgspec.structs.replace(
            body, id=self._new_id(key), parent_id=self._tip or None, timestamp=time or self._time
        )
        self._tip = placed.id
        if turns:
            self._base = self._base or placed.id
            self._turns += [Turn(turn, placed.id, placed.id) for turn in turns]
        elif self._turns:
            self._turns[-1] = msgspec.structs.replace(self._turns[-1], node=placed.id)
        else:
            self._base = placed.id
        return placed

    def _annotation(self, body: KnownBody, key: str, parent: str, *, records: int = 0) -> ImportedEntry:
        placed = msgspec.structs.replace(body, id=self._new_id(key), parent_id=parent, timestamp=self._time)
        return ImportedEntry(placed, records=records)

    def _verbatim(self, kind: str, value: Any, key: str, *, records: int = 1) -> ImportedEntry:
        """Return something without a counterpart, behind the last node: it is no part of the list of messages."""
        body = Custom(custom_type=f"{TOOL}:{(kind or 'record')[:_KIND_CHARS]}", data=value)
        return ImportedEntry(self._append(body, key), records=records, is_verbatim=True)

    def _new_id(self, key: str) -> str:
        """Return the id for a key. A key that occurs again, as a message with other content has it, is numbered."""
        self._used[key] += 1
        return entry_id(TOOL, key if self._used[key] == 1 else f"{key}#{self._used[key]}")

    def _content_key(self, record: object) -> str:
        """Return a key for a record without an id: its content, and how many with the same content came before."""
        content = digest(record)
        self._keys[content] += 1
        return f"{self._session}:{content}:{self._keys[content]}"
