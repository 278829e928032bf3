"""What a store's test file gives the suite of catalogs, and the stories that the suite lists and searches.

What a catalog says is judged by an index in memory that has never seen the store before: it has no history that
could be wrong.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, cast

from wakelog.errors import WakelogError
from wakelog.forking import fork
from wakelog.log.content import Prompt
from wakelog.log.entry import Activity, Call, Queued
from wakelog.log.lines import Line
from wakelog.ports import Catalog, Hit, Store
from wakelog.session import Session
from wakelog.stores.catalog.index import Index
from wakelog.stores.catalog.index_tables import IndexTables
from wakelog.testing.builders import FixedClock, Story

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
    "sender:nobody",
    "nothing-like-this",
)


class CatalogRig(Protocol):
    """A store under test and the catalog that goes with it."""

    store: Store

    def again(self) -> Store:
        """Another store object on the same storage, as another process would have."""
        ...

    def catalog(self, store: Store) -> Catalog:
        """A new catalog of a store object (or of one that stands before it and counts)."""
        ...

    def plant(self, session: str, raw: bytes) -> None:
        """Adds raw bytes to the end of a log, as a crash or a stranger would."""
        ...


class Counting:
    """Stands before a store and counts the lines that are read. `meanwhile` happens when a log is begun."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lines = 0
        self.meanwhile: Callable[[str], object] = lambda _: None

    def load(self, session: str, *, after: int = -1) -> Iterator[Line]:
        """The lines, counted."""
        self.meanwhile(session)
        for line in self._store.load(session, after=after):
            self.lines += 1
            yield line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Shelf:
    """A store with its catalog, and short words for filling it. All its stories share one clock."""

    def __init__(self, rig: CatalogRig) -> None:
        self.rig = rig
        self.counting = Counting(rig.store)
        self.store = cast("Store", self.counting)
        self.catalog = rig.catalog(self.store)
        self.clock = FixedClock()

    def begin(self, *, agent: str = "crab", sender: str = "user", cwd: str = "/repo") -> Story:
        """A story without a word."""
        story = Story(agent=agent)
        story.store = self.store
        story.session = Session.create(self.store, agent=agent, sender=sender, cwd=cwd, clock=self.clock)
        return story

    def talk(self, turns: int, **about: str) -> Story:
        """A story of some turns with a tool call each."""
        story = self.begin(**about)
        for turn in range(turns):
            story.user(f"prompt {turn}: fix the naïve Parser in src/main.py")
            reply = story.reply("reply", calls=[("t", "bash", {"command": f"ls {turn}"})])
            story.result(reply, "t", "done")
            story.reply("reply and rest")
        return story

    def refreshed(self) -> int:
        """Brings the catalog up to date; gives the number of lines that this read."""
        before = self.counting.lines
        self.catalog.refresh()
        return self.counting.lines - before

    def put_in(self, session: Session) -> str:
        """Takes in a log from another store, as it is there; gives its name here."""
        raw = b"".join(line.bytes for line in session.store.load(session.name))
        return self.store.adopt(session.id, session.name, raw)

    def agrees(self) -> None:
        """The catalog says what an index says that has never seen this store before."""
        self.catalog.refresh()
        fresh = self.fresh()
        assert said(self.catalog) == said(fresh)
        fresh.close()

    def fresh(self) -> Catalog:
        """An index in memory that has just met this store."""
        made = Index(self.rig.again(), IndexTables(":memory:"))
        made.refresh()
        return made


def said(catalog: Catalog) -> dict[str, object]:
    """All that a catalog can be asked. Ranks are a store's own, and so is the order of hits that are not equal."""
    rows = list(catalog.rows(archived=None))
    return {
        "rows": rows,
        "put away": list(catalog.rows(archived=True)),
        "counts": (catalog.count(), catalog.count(archived=None), catalog.count(agent="crab", cwd="/repo")),
        "found": [list(catalog.find(ref)) for row in rows for ref in (row.id, row.name, row.name[:6])],
        "damaged": [row.name for row in rows if catalog.is_damaged(row.name)],
        "hits": {query: sorted(map(shown, catalog.search(query, limit=10_000))) for query in QUERIES},
    }


def shown(hit: Hit) -> tuple[str, ...]:
    """A hit without its rank."""
    return (hit.session, hit.name, hit.entry, hit.type, hit.timestamp, hit.excerpt, str(hit.seq))


def names(hits: Sequence[Hit]) -> list[str]:
    """The sessions of hits, in their order."""
    return [hit.name for hit in hits]


def change(shelf: Shelf, chance: random.Random, stories: list[Story]) -> None:
    """One thing that may happen to a store."""
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
        "work": lambda: session.append(Call(reply_id="r")),
        "leave": lambda: session.append(Activity(holder="w", event="left")),
        "new": lambda: stories.append(shelf.talk(1, agent=chance.choice(["crab", "dove"]))),
        "fork": lambda: stories.append(_told(shelf, fork(session, chance.choice(nodes)))),
        "garbage": lambda: shelf.rig.plant(session.id, b"\x00\xff garbage\n"),
        "repeat": lambda: shelf.rig.plant(session.id, list(shelf.store.load(session.name))[-1].bytes),
        "torn": lambda: shelf.rig.plant(session.id, b'{"v":1,"ty'),
    }
    try:
        happenings[chance.choice(list(happenings))]()
    except WakelogError:
        # Some of it cannot be, as a branch from what is not a node.
        return


def _told(shelf: Shelf, session: Session) -> Story:
    story = Story()
    story.store, story.session = shelf.store, session
    return story
