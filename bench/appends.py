"""The cost of an append beside the bare system calls, synced and not synced."""

import os
import time
from collections.abc import Iterator

from bench.made import Words
from bench.measure import Figure, Times, compare
from wakelog.log.codec import encode
from wakelog.log.content import Reply, Text
from wakelog.log.entry import Message, Partial
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore

GROUP = "Appending"
SIZE = 1_000
SYNCED_ROUNDS, UNSYNCED_ROUNDS = 400, 3_000
# The bytes that an entry adds to its text: id, parent, time, seal.
ENVELOPE = 320


class Raw:
    """The floor: the same bytes to a file of its own, one write each, and a sync where the subject makes one."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def append(self, line: bytes, *, durable: bool) -> float:
        start = time.perf_counter()
        os.write(self._file, line)
        if durable:
            os.fdatasync(self._file)
        return time.perf_counter() - start


class OneWriter:
    """Alternates a raw append, one through the store and one through a session, all with lines of the same length."""

    def __init__(self, folder: str, words: Words) -> None:
        store = JsonlStore(os.path.join(folder, "store"))
        self._raw = Raw(os.path.join(folder, "raw"))
        self._store = store
        self._words = words
        self._said = Session.create(store, agent="said")
        self._sealed = Session.create(store, agent="sealed")
        self._seq = 0

    def run(self, rounds: int, *, durable: bool) -> dict[str, Times]:
        acts = {"raw": self._write, "store": self._seal, "session": self._say}
        names = list(acts)
        taken: dict[str, list[float]] = {name: [] for name in acts}
        for turn in range(-12, rounds):
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                spent = acts[name](self._words.text(SIZE), durable=durable)
                if turn >= 0:
                    taken[name].append(spent)
        return {name: Times(tuple(runs)) for name, runs in taken.items()}

    def _write(self, text: str, *, durable: bool) -> float:
        line = text.encode() + b" " * ENVELOPE + b"\n"
        return self._raw.append(line, durable=durable)

    def _say(self, text: str, *, durable: bool) -> float:
        content = (Text(text=text),)
        # A partial is one of the entries that a session appends without a sync.
        body = Message(message=Reply(content=content)) if durable else Partial(reply_id="r", content=content)
        start = time.perf_counter()
        self._said.append(body)
        return time.perf_counter() - start

    def _seal(self, text: str, *, durable: bool) -> float:
        body = encode(Message(id=f"m{self._seq}", message=Reply(content=text + " " * (ENVELOPE - 190))))
        start = time.perf_counter()
        self._seq = self._store.append(self._sealed.name, body, after=self._seq, durable=durable).seq
        return time.perf_counter() - start


def one_writer(folder: str, words: Words) -> Iterator[Figure]:
    """Durable and process-crash safe appends of one writer."""
    writer = OneWriter(folder, words)
    for durable, goal, limit, floor in (
        (True, "≤ 1.2 ×", 1.2, "`os.write` + `os.fdatasync` of the same bytes"),
        (False, "≤ 8 ×", 8.0, "`os.write` of the same bytes"),
    ):
        taken = writer.run(SYNCED_ROUNDS if durable else UNSYNCED_ROUNDS, durable=durable)
        for name, call in (("session", "Session.append"), ("store", "store.append")):
            yield Figure(
                group=GROUP,
                what=f"{'durable append' if durable else 'append without sync'}, `{call}`",
                workload=f"one writer, messages of {SIZE:,} characters",
                floor=floor,
                goal=goal,
                ratio=taken[name].median / taken["raw"].median,
                limit=limit,
                measured=compare(taken["raw"], taken[name]),
            )
