"""A store with an index beside it, and the answers of an index that has never seen that store."""

import os

from wakelog.errors import StoreError
from wakelog.session import Session
from wakelog.stores.catalog.index import Index
from wakelog.stores.catalog.index_file import IndexTables
from wakelog.stores.jsonl import JsonlStore
from wakelog.testing.builders import FixedClock, SessionBuilder

QUERIES = ("prompt", "reply", "fork*", "bash -forked", '"taken up"', "title", "summary", "queued", "done", "label")


class Counted(JsonlStore):
    """A file store that counts the lines it returns."""

    def __init__(self, path):
        super().__init__(path)
        self.lines = 0
        self.broken = set()

    def load(self, session, *, after=-1):
        if session in self.broken:
            raise StoreError("cannot read it: the disk is on fire")
        for line in super().load(session, after=after):
            self.lines += 1
            yield line

    def tail(self, session):
        for line in super().tail(session):
            self.lines += 1
            yield line


class Rig:
    """A store in a folder with an index beside it."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.store = Counted(os.path.join(self.folder, "store"))
        self.path = os.path.join(self.folder, "cache", "index.sqlite")
        self.index = Index(self.store, IndexTables(self.path))
        self.clock = FixedClock()

    def begin(self, *, agent="crab"):
        """A session of this store; all of them share one clock, so that no two ids are the same."""
        story = SessionBuilder()
        story.store = self.store
        story.session = Session.create(self.store, agent=agent, cwd="/repo", clock=self.clock)
        return story

    def talk(self, turns, *, agent="crab"):
        """A session of some turns with a tool call each."""
        story = self.begin(agent=agent)
        for turn in range(turns):
            story.user(f"prompt {turn}")
            reply = story.reply("reply", calls=[("t", "bash", {"command": f"ls {turn}"})])
            story.result(reply, "t", "done")
            story.reply("reply done")
        return story

    def log(self, name):
        return os.path.join(self.folder, "store", f"{name}.jsonl")

    def read(self, name):
        with open(self.log(name), "rb") as file:
            return file.read()

    def write(self, name, raw):
        os.makedirs(os.path.dirname(self.log(name)), exist_ok=True)
        with open(self.log(name), "wb") as file:
            file.write(raw)

    def refreshed(self):
        """The answers after a refresh, and the number of lines it read."""
        before = self.store.lines
        self.index.refresh()
        return self.store.lines - before

    def answers(self):
        # As in a new process: what the store remembers of names is not what is tested here.
        self.store.close()
        self.index.refresh()
        return answers(self.index)

    def fresh_answers(self):
        """The answers of an index that has never seen this store before."""
        fresh = Index(JsonlStore(os.path.join(self.folder, "store")), IndexTables(":memory:"))
        fresh.refresh()
        said = answers(fresh)
        fresh.close()
        return said


def answers(index):
    """All answers of an index."""
    rows = index.rows(archived=None)
    return {
        "rows": rows,
        "put away": index.rows(archived=True),
        "counts": (index.count(), index.count(archived=None), index.count(agent="crab", sender="user")),
        "found": [index.find(ref) for row in rows for ref in (row.id, row.name, row.id[:3], row.name[:6])],
        "hits": [index.search(query, limit=limit) for query in QUERIES for limit in (3, 50)],
    }
