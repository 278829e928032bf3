"""The test environment of the catalog suites, and the sessions that they list and search.

The results of a catalog are compared with those of a new in-memory index, which is built from the logs alone.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, cast

from wakelog.errors import WakelogError
from wakelog.forking import fork
from wakelog.log.content import Prompt
from wakelog.log.entry import Activity, ModelCall, Queued
from wakelog.log.lines import Line
from wakelog.ports.catalogs import Catalog, SearchHit
from wakelog.ports.stores import Store
from wakelog.session import Session
from wakelog.stores.catalog.index import Index
from wakelog.stores.catalog.index_file import IndexTables
from wakelog.testing.builders import FixedClock, SessionBuilder

QUERIES = (
    "prompt",
    "reply",
    "fork*",
    "bash -forked",
    '"taken up"',
    "title",
    "summary",
    "naive",
    "PARSER -rest",
    "src/main.py",
    '"the naïve pars"*',
    "agent:crab",
    "-agent:crab prompt",
    "tool:bash",
    "type:message -prompt",
    "type:session_renamed",
    "cwd:/repo since:2026-01-01 -reply",
    "-since:2026-01-01T10:00:20Z type:message",
    "sender:missing",
    "nothing-like-this",
)


class CatalogRig(Protocol):
    """A store under test and its catalog."""

    store: Store

    def again(self) -> Store:
        """Return another store object on the same storage, as in another process."""
        ...

    def catalog(self, store: Store) -> Catalog:
        """Return a new catalog of a store object, which may be wrapped in `CountingStore`."""
        ...

    def plant(self, session: str, raw: bytes) -> None:
        """Add raw bytes to the end of a log, as a crash or another program would."""
        ...


class CountingStore:
    """Wrap a store and count the lines that are read. `meanwhile` is called when reading of a log begins."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lines = 0
        self.meanwhile: Callable[[str], object] = lambda _: None

    def load(self, session: str, *, after: int = -1) -> Iterator[Line]:
        """Yield the lines and count them."""
        self.meanwhile(session)
        for line in self._store.load(session, after=after):
            self.lines += 1
            yield line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class CatalogFixture:
    """A store with its catalog, and methods to fill it. All its sessions share one clock."""

    def __init__(self, rig: CatalogRig) -> None:
        self.rig = rig
        self.counting = CountingStore(rig.store)
        self.store = cast("Store", self.counting)
        self.catalog = rig.catalog(self.store)
        self.clock = FixedClock()

    def begin(self, *, agent: str = "crab", sender: str = "user", cwd: str = "/repo") -> SessionBuilder:
        """Create a session without messages."""
        story = SessionBuilder(agent=agent)
        story.store = self.store
        story.session = Session.create(self.store, agent=agent, sender=sender, cwd=cwd, clock=self.clock)
        return story

    def talk(self, turns: int, **about: str) -> SessionBuilder:
        """Create a session of `turns` turns with one tool call each."""
        story = self.begin(**about)
        for turn in range(turns):
            story.user(f"prompt {turn}: fix the naïve Parser in src/main.py")
            reply = story.reply("reply", calls=[("t", "bash", {"command": f"ls {turn}"})])
            story.result(reply, "t", "done")
            story.reply("reply and rest")
        return story

    def refreshed(self) -> int:
        """Refresh the catalog; return the number of lines read."""
        before = self.counting.lines
        self.catalog.refresh()
        return self.counting.lines - before

    def adopt_log(self, session: Session) -> str:
        """Copy a log from another store byte for byte; return its name here."""
        raw = b"".join(line.bytes for line in session.store.load(session.name))
        return self.store.adopt(session.id, session.name, raw)

    def assert_matches_fresh_index(self) -> None:
        """Assert that the catalog gives the same results as a newly built index."""
        self.catalog.refresh()
        fresh = self.fresh()
        assert all_results(self.catalog) == all_results(fresh)
        fresh.close()

    def fresh(self) -> Catalog:
        """Return a newly built in-memory index of this store."""
        made = Index(self.rig.again(), IndexTables(":memory:"))
        made.refresh()
        return made


def all_results(catalog: Catalog) -> dict[str, object]:
    """Return the results of all catalog queries. Ranks depend on the store, so hits are sorted without them."""
    rows = list(catalog.rows(archived=None))
    return {
        "rows": rows,
        "put away": list(catalog.rows(archived=True)),
        "counts": (catalog.count(), catalog.count(archived=None), catalog.count(agent="crab", cwd="/repo")),
        "found": [list(catalog.find(ref)) for row in rows for ref in (row.id, row.name, row.name[:6])],
        "damaged": [row.name for row in rows if catalog.is_damaged(row.name)],
        "hits": {query: sorted(map(hit_without_rank, catalog.search(query, limit=10_000))) for query in QUERIES},
    }


def hit_without_rank(hit: SearchHit) -> tuple[str, ...]:
    """Return a hit without its rank."""
    return (hit.session, hit.name, hit.entry, hit.type, hit.timestamp, hit.excerpt, str(hit.seq))


def session_names(hits: Sequence[SearchHit]) -> list[str]:
    """Return the session names of hits, in order."""
    return [hit.name for hit in hits]


def change_randomly(shelf: CatalogFixture, chance: random.Random, stories: list[SessionBuilder]) -> None:
    """Make one random change to the store."""
    story = chance.choice(stories)
    session = Session(shelf.store, story.session.name, clock=shelf.clock)
    nodes = list(session.tree.nodes)
    happenings: dict[str, Callable[[], object]] = {
        "say": lambda: session.say(f"prompt {chance.random()}"),
        "rename": lambda: session.rename(f"title {chance.random()}"),
        "archive": lambda: session.archive(archived=chance.random() < 0.5),
        "head": lambda: session.move_head(chance.choice(nodes)),
        "compact": lambda: session.compact("a summary of all that"),
        "retry": lambda: session.move_head(chance.choice(nodes), reason="retry"),
        "queue": lambda: session.append(Queued(message=Prompt(content="later")), at=chance.choice(nodes)),
        "attach": lambda: session.append(Activity(holder="w")),
        "work": lambda: session.append(ModelCall(reply_id="r")),
        "leave": lambda: session.append(Activity(holder="w", event="left")),
        "new": lambda: stories.append(shelf.talk(1, agent=chance.choice(["crab", "dove"]))),
        "fork": lambda: stories.append(_builder_of(shelf, fork(session, chance.choice(nodes)))),
        "garbage": lambda: shelf.rig.plant(session.id, b"\x00\xff garbage\n"),
        "repeat": lambda: shelf.rig.plant(session.id, list(shelf.store.load(session.name))[-1].bytes),
        "torn": lambda: shelf.rig.plant(session.id, b'{"v":1,"ty'),
    }
    try:
        happenings[chance.choice(list(happenings))]()
    except WakelogError:
        # Some changes are invalid, such as a fork from an entry that is not a node.
        return


def _builder_of(shelf: CatalogFixture, session: Session) -> SessionBuilder:
    story = SessionBuilder()
    story.store, story.session = shelf.store, session
    return story
