"""Stores made in bulk: logs as wakelog would have written them, without a sync for each line.

Every line is encoded and sealed by wakelog's own code, so the logs are like real ones. Texts come from a seeded
generator: the same run makes the same bytes.
"""

import os
import random
from collections.abc import Iterable, Iterator
from typing import Any

from wakelog.log.codec import encode
from wakelog.log.content import Prompt, Reply, Text, ToolCall, ToolResult, Usage
from wakelog.log.entry import RULES_VERSION, CarriedState, Compaction, KnownBody, Message, SessionHeader
from wakelog.log.integrity import LogEnd
from wakelog.log.timestamps import iso_timestamp

_START_MS = 1_767_261_600_000
_SYLLABLES = ("ka", "lo", "mi", "ner", "ta", "vo", "si", "rem", "pu", "dal", "eth", "quo")


class Words:
    """A generator of prose: a vocabulary of some thousand words, the common ones far more often."""

    def __init__(self, seed: int = 0) -> None:
        self._chance = random.Random(seed)
        self._vocabulary = sorted({"".join(self._chance.choices(_SYLLABLES, k=4)) for _ in range(6_000)})
        self._chance.shuffle(self._vocabulary)
        self._weights = [1 / (rank + 5) for rank in range(len(self._vocabulary))]
        # Drawn once and read in order: drawing word by word would take longer than what is measured.
        self._drawn = self._chance.choices(self._vocabulary, self._weights, k=200_000)
        self._lengths = [self._chance.lognormvariate(0, 0.6) for _ in range(9_973)]
        self._at = 0

    def text(self, size: int) -> str:
        """Return some words: `size` characters in the median, mostly fewer, now and then many more."""
        count = max(1, round(size / 10 * self._lengths[self._at % len(self._lengths)]))
        self._at = (self._at + count) % (len(self._drawn) - count)
        return " ".join(self._drawn[self._at : self._at + count])

    def nth(self, rank: int) -> str:
        """Return the word of that rank: 0 is the most common."""
        return self._vocabulary[rank]


class Script:
    """Makes the bodies of one log, in order, each below the last."""

    def __init__(self, session: str, *, number: int = 1) -> None:
        self.session = session
        self.number = number
        self._count = 0
        self._last: str | None = None
        self._now_ms = _START_MS + number * 1_000

    def begin(self) -> SessionHeader:
        """Return the first line."""
        self._last = self.session
        return SessionHeader(
            id=self.session,
            timestamp=iso_timestamp(self._now_ms),
            version=1,
            cwd="/repo",
            agent="bench",
            sender="user",
            number=self.number,
        )

    def message(self, said: Prompt | Reply | ToolResult) -> Message:
        """Return the next message."""
        return Message(message=said, **self._envelope())

    def turn(self, words: Words, size: int) -> Iterator[Message]:
        """Yield a prompt, a reply that calls a tool, its result, and a reply: four messages."""
        yield self.message(Prompt(content=(Text(text=words.text(size // 2)),)))
        call = ToolCall(id="call_1", name="bash", input={"command": words.text(60)})
        usage = Usage(input_tokens=1_000, output_tokens=100, cost_micros=1_500)
        reply = self.message(Reply(content=(Text(text=words.text(size)), call), model="example", usage=usage))
        yield reply
        result = ToolResult(
            tool_call_id="call_1", tool_name="bash", reply_id=reply.id, content=(Text(text=words.text(size)),)
        )
        yield self.message(result)
        yield self.message(Reply(content=(Text(text=words.text(size)),), model="example", usage=usage))

    def compaction(self) -> Compaction:
        """Return a compaction that carries what a reader needs from before it."""
        assert self._last is not None
        state = CarriedState(
            head=self._last,
            rules=RULES_VERSION,
            messages=self._count,
            model=None,
            answered_model="example",
            ends_in="reply",
        )
        return Compaction(summary="What was said so far.", state=state, **self._envelope())

    def _envelope(self) -> dict[str, Any]:
        self._count += 1
        self._now_ms += 1_000
        parent, self._last = self._last, f"{self.session}-{self._count:08}"
        return {"id": self._last, "parent_id": parent, "timestamp": iso_timestamp(self._now_ms)}


def sealed(bodies: Iterable[KnownBody]) -> Iterator[bytes]:
    """Yield the lines of a log as its store would have written them."""
    end = LogEnd()
    for body in bodies:
        written = end.seal(encode(body))
        end.advance(written)
        yield written


def talk(session: str, words: Words, *, messages: int, size: int, number: int = 1) -> Iterator[KnownBody]:
    """Yield a session of so many messages (rounded up to whole turns)."""
    script = Script(session, number=number)
    yield script.begin()
    for _ in range((messages + 3) // 4):
        yield from script.turn(words, size)


def compacted_talk(session: str, words: Words, *, bytes_before: int, size: int, tail: int) -> Iterator[KnownBody]:
    """Yield a long log, compacted, with a short active tail of so many turns."""
    script = Script(session)
    yield script.begin()
    for _ in range(max(1, bytes_before // (4 * size + 1_600))):
        yield from script.turn(words, size)
    yield script.compaction()
    for _ in range(tail):
        yield from script.turn(words, 1_000)


def write_log(folder: str, name: str, bodies: Iterable[KnownBody]) -> str:
    """Write a log file; return its path."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, f"{name}.jsonl")
    with open(path, "wb", buffering=1 << 20) as file:
        file.writelines(sealed(bodies))
    return path


def write_store(folder: str, words: Words, *, sessions: int, messages: int, size: int) -> None:
    """Write a folder of sessions of equal length."""
    for number in range(1, sessions + 1):
        bodies = talk(f"s{number:07}", words, messages=messages, size=size, number=number)
        write_log(folder, f"bench_user_{number}", bodies)
