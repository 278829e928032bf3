"""The cost of an append beside the bare driver of its store, synced and not synced."""

import os
import time
from collections.abc import Callable, Iterator

from bench.made import Words
from bench.measure import Figure, Times, compare
from bench.stores import Opening
from wakelog.log.codec import encode
from wakelog.log.content import Reply, Text
from wakelog.log.entry import Message, Partial
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore

GROUP = "Appending"
SIZE = 1_000
SYNCED_ROUNDS, UNSYNCED_ROUNDS = 400, 3_000
# How much slower than the bare driver a durable append through the public API may be.
SESSION_LIMIT = 1.25
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
    for durable, limits, floor in (
        (True, (SESSION_LIMIT, 1.2), "`os.write` + `os.fdatasync` of the same bytes"),
        (False, (8.0, 8.0), "`os.write` of the same bytes"),
    ):
        taken = writer.run(SYNCED_ROUNDS if durable else UNSYNCED_ROUNDS, durable=durable)
        kind = "durable append" if durable else "append without sync"
        yield _figure(f"{kind}, `Session.append`", floor, taken["raw"], taken["session"], limits[0])
        yield _figure(f"{kind}, `store.append`", floor, taken["raw"], taken["store"], limits[1])


def to_database(folder: str, words: Words, *, opening: Opening) -> Iterator[Figure]:
    """Durable appends of one writer to a database: the bare driver and a session alternate."""
    with opening(folder) as kind:
        session = Session.create(kind.store, agent="said")
        taken: dict[str, list[float]] = {"bare": [], "session": []}

        def write(text: str, seq: int) -> Callable[[], object]:
            line = text.encode() + b" " * ENVELOPE + b"\n"
            return lambda: kind.bare.append(session.name, seq, line)

        def say(text: str, _: int) -> Callable[[], object]:
            body = _reply(text)
            return lambda: session.append(body)

        acts = {"bare": write, "session": say}
        for turn in range(-12, SYNCED_ROUNDS):
            for name in acts if turn % 2 else reversed(acts):
                act = acts[name](words.text(SIZE), turn)
                start = time.perf_counter()
                act()
                if turn >= 0:
                    taken[name].append(time.perf_counter() - start)
        floor, ours = Times(tuple(taken["bare"])), Times(tuple(taken["session"]))
        yield _figure(f"durable append, `Session.append`, {kind.name}", kind.bare.words, floor, ours, SESSION_LIMIT)
        kind.finder.close()
        kind.bare.close()
        kind.store.close()


def _figure(what: str, floor: str, bare: Times, ours: Times, limit: float) -> Figure:
    return Figure(
        group=GROUP,
        what=what,
        workload=f"one writer, messages of {SIZE:,} characters",
        floor=floor,
        goal=f"≤ {limit:g} ×",
        ratio=ours.median / bare.median,
        limit=limit,
        measured=compare(bare, ours),
    )


def _reply(text: str) -> Message:
    return Message(message=Reply(content=(Text(text=text),)))
