"""Every store beside its own driver with the same bytes and the same durability, and many sessions beside one."""

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator

import msgspec

from bench.drivers import BareFiles, BareFts, BarePostgres, BareSqlite, BareTsvector, Driver, Finder
from bench.made import Words, sealed, talk
from bench.many_sessions import appending, appending_by_filesystem, running
from bench.measure import Figure, Times, compare, show, take_turns
from tests.servers.place import Place
from tests.servers.postgres import own_server
from wakelog.log.codec import encode
from wakelog.log.content import Reply
from wakelog.log.entry import Message, SessionHeader
from wakelog.log.lines import EntryReader
from wakelog.log.timestamps import parse_ms
from wakelog.ports.stores import Store
from wakelog.stores import open_catalog, open_store
from wakelog.stores.catalog.searchable import searchable_text

SIZE = 1_000
ROUNDS = 1_000
MESSAGES = 10_000
TAIL = 100
LOADS, FINDS = 15, 25
FOUND_SESSIONS = 200
FOUND_MESSAGES = 100
SHOWN = 50


class Kind(msgspec.Struct, frozen=True):
    """A store, and the driver under it."""

    name: str
    url: str
    store: Store
    bare: Driver
    finder: Finder

    @property
    def group(self) -> str:
        return f"Stores: {self.name}"


Opening = Callable[[str], contextlib.AbstractContextManager[Kind]]


def kind_of(name: str, url: str, bare: Driver, finder: Finder) -> Kind:
    return Kind(name, url, open_store(url), bare, finder)


@contextlib.contextmanager
def files(folder: str) -> Iterator[Kind]:
    os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
    bare, finder = BareFiles(os.path.join(folder, "bare")), BareFts(os.path.join(folder, "finder.db"))
    yield kind_of("files", os.path.join(folder, "store"), bare, finder)


@contextlib.contextmanager
def sqlite(folder: str) -> Iterator[Kind]:
    bare, finder = BareSqlite(os.path.join(folder, "bare.db")), BareFts(os.path.join(folder, "finder.db"))
    yield kind_of("SQLite", f"sqlite:{os.path.join(folder, 'store.db')}", bare, finder)


@contextlib.contextmanager
def postgres(folder: str) -> Iterator[Kind]:  # noqa: ARG001 - the server has a folder of its own
    with own_server(Place(os.getpid())) as server:
        bare, finder = BarePostgres(server.new_database()), BareTsvector(server.new_database())
        yield kind_of("PostgreSQL", server.new_database(), bare, finder)


def stores(folder: str, words: Words, *, opening: Opening) -> Iterator[Figure]:
    """Measure appending, many sessions at once, loading, tailing, listing and searching of one kind of store."""
    with opening(folder) as kind:
        try:
            yield durable(kind, words)
            yield from appending(kind.name, kind.store, kind.bare, words)
            if kind.name == "files":
                yield appending_by_filesystem(folder, words)
            yield running(kind.name, kind.store, words)
            yield from reading(kind, words)
            yield from finding(kind, words)
        finally:
            kind.finder.close()
            kind.bare.close()
            kind.store.close()


# ── appending ────────────────────────────────────────────────────────────────────────────────────

_ids = itertools.count()


def body(text: str) -> bytes:
    """Return an encoded message of some length."""
    return encode(Message(id=f"m{next(_ids):025}", parent_id="s", message=Reply(content=text)))


def begin(store: Store, session: str) -> str:
    """Create a session to append to."""
    return store.create(session, "bench", session, lambda number: encode(SessionHeader(id=session, number=number)))


def durable(kind: Kind, words: Words) -> Figure:
    """One session, one entry at a time: driver and store alternate, with lines of the same length."""
    name, seqs = begin(kind.store, "one"), {"bare": 0, "store": 0}
    taken: dict[str, list[float]] = {"bare": [], "store": []}

    def bare(raw: bytes) -> None:
        seqs["bare"] += 1
        kind.bare.append(name, seqs["bare"], raw)

    def store(raw: bytes) -> None:
        seqs["store"] = kind.store.append(name, raw, after=seqs["store"]).seq

    for turn in range(-20, ROUNDS):
        raw = body(words.text(SIZE))
        # What seq and seal add to a line.
        acts = [("bare", lambda raw=raw: bare(raw + b" " * 92)), ("store", lambda raw=raw: store(raw))]
        for what, act in acts if turn % 2 else acts[::-1]:
            start = time.perf_counter()
            act()
            if turn >= 0:
                taken[what].append(time.perf_counter() - start)
    floor, ours = Times(tuple(taken["bare"])), Times(tuple(taken["store"]))
    return Figure(
        group=kind.group,
        what="durable append, `store.append`",
        workload=f"one session, messages of {SIZE:,} characters",
        floor=kind.bare.words,
        goal="≤ 1.25 ×",
        ratio=ours.median / floor.median,
        limit=1.25,
        measured=compare(floor, ours),
    )


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def reading(kind: Kind, words: Words) -> Iterator[Figure]:
    """Read a long session as lines, whole and from its end."""
    lines = list(sealed(talk("long", words, messages=MESSAGES, size=600)))
    kind.bare.fill("long", lines)
    kind.store.adopt("long", "bench_user_1", b"".join(lines))
    size = sum(map(len, lines)) / 1e6
    taken = take_turns(
        {
            "bare load": lambda: kind.bare.load("long"),
            "load": lambda: list(kind.store.load("long")),
            "bare tail": lambda: kind.bare.tail("long", TAIL),
            "tail": lambda: list(itertools.islice(kind.store.tail("long"), TAIL)),
        },
        rounds=LOADS,
    )
    for what, workload in (
        ("load", f"{MESSAGES:,} messages, {size:.1f} MB, as lines with their places"),
        ("tail", f"the last {TAIL} lines of {MESSAGES:,}"),
    ):
        yield Figure(
            group=kind.group,
            what=f"`store.{what}`",
            workload=workload,
            floor=f"the same bytes from the driver, as a list ({kind.bare.words.partition(',')[0]})",
            goal="",
            ratio=taken[what].median / taken[f"bare {what}"].median,
            limit=None,
            measured=compare(taken[f"bare {what}"], taken[what]),
        )


# ── finding ──────────────────────────────────────────────────────────────────────────────────────


def finding(kind: Kind, words: Words) -> Iterator[Figure]:
    """Find the newest sessions, and the best matches of a word, in a catalog that is up to date."""
    for number in range(FOUND_SESSIONS):
        lines = sealed(talk(f"f{number:05}", words, messages=FOUND_MESSAGES, size=300, number=number))
        kind.store.adopt(f"f{number:05}", f"found_user_{number}", b"".join(lines))
    catalog = open_catalog(kind.url, kind.store)
    start = time.perf_counter()
    catalog.refresh()
    first = time.perf_counter() - start
    rows = [(parse_ms(row.updated) or 0, msgspec.json.encode(row)) for row in catalog.rows()]
    kind.finder.fill(rows, list(_texts(kind.store)))
    word = words.nth(60)

    def listed() -> object:
        catalog.refresh()
        return catalog.rows(limit=SHOWN)

    taken = take_turns(
        {
            "bare list": lambda: kind.finder.newest(SHOWN),
            "list": listed,
            "bare search": lambda: kind.finder.search(word, SHOWN),
            "search": lambda: catalog.search(word, limit=SHOWN),
        },
        rounds=FINDS,
    )
    count = FOUND_SESSIONS * FOUND_MESSAGES
    hits = len(catalog.search(word, limit=count))
    catalog.close()
    for what, workload in (
        ("list", f"looked for changes, then {SHOWN} of {FOUND_SESSIONS + 66} sessions as typed rows"),
        ("search", f"the best {SHOWN} of {hits:,} matches in {count:,} messages; indexed at first in {show(first)}"),
    ):
        yield Figure(
            group=kind.group,
            what=f"`catalog.{'rows' if what == 'list' else 'search'}`",
            workload=workload,
            floor=kind.finder.words,
            goal="",
            ratio=taken[what].median / taken[f"bare {what}"].median,
            limit=None,
            measured=compare(taken[f"bare {what}"], taken[what]),
        )


def _texts(store: Store) -> Iterator[str]:
    """Yield every text that a search could find."""
    for stat in store.sessions():
        for entry in EntryReader().feed_all(store.load(stat.name)):
            found = searchable_text(entry.value)
            if found is not None:
                yield found.text
