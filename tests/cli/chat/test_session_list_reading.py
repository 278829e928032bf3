"""Rows for `chat --pick` while a catalog is brought up to date: at once, then ever more rarely, then all of them."""

import pytest

from wakelog.cli.chat.session_list import FIRST_ROWS, read_rows
from wakelog.errors import StoreError
from wakelog.session import Session
from wakelog.stores.catalog.index import Index
from wakelog.stores.catalog.index_file import IndexTables
from wakelog.stores.memory import MemoryStore


class Slow:
    """A catalog that takes a second for each log."""

    def __init__(self, logs):
        self.logs, self.taken, self.asked, self.seconds = logs, 0, [], 0.0

    def refresh(self, *, progress):
        progress(0, self.logs)
        for done in range(1, self.logs + 1):
            self.taken, self.seconds = done, float(done)
            progress(done, self.logs)

    def rows(self, limit=None):
        self.asked.append((self.taken, limit))
        return [f"row {number}" for number in range(self.taken)][:limit]


def test_a_long_reading_is_shown_ever_more_rarely():
    """Showing costs the more the more there is: it stays a small part of the reading."""
    catalog, heard = Slow(1_000), []
    read_rows(catalog, heard.append, lambda: catalog.seconds)
    assert [done for done, limit in catalog.asked if limit is None] == [1, 3, 7, 15, 31, 63, 127, 255, 511, 1_000]
    assert [one.done for one in heard[:-2]] == list(range(1_001))
    assert [one.is_complete for one in heard] == [False] * (len(heard) - 1) + [True]
    assert len(heard[-1].rows) == 1_000


def test_a_quick_reading_is_told_once():
    """Steps between which no time passes are not worth a frame."""
    catalog, heard = Slow(100), []
    read_rows(catalog, heard.append, lambda: 0.0)
    assert [(one.done, one.total) for one in heard] == [(0, 100), (0, 0), (0, 0)]


def test_what_is_in_sight_comes_before_the_rest(tmp_path):
    """Over real tables: a page, then all."""
    store = MemoryStore()
    names = [Session.create(store, agent="crab", sender="user").name for _ in range(3 * FIRST_ROWS)]
    catalog = Index(store, IndexTables(str(tmp_path / "index.sqlite")))
    heard = []
    read_rows(catalog, heard.append, lambda: 0.0)
    assert [len(one.rows) for one in heard] == [0, FIRST_ROWS, 3 * FIRST_ROWS]
    assert {row.name for row in heard[-1].rows} == set(names)
    heard.clear()
    read_rows(catalog, heard.append, lambda: 0.0)
    assert [len(one.rows) for one in heard] == [FIRST_ROWS, 3 * FIRST_ROWS]
    catalog.close()


def test_what_cannot_be_read_is_raised():
    class Broken(Slow):
        def refresh(self, *, progress):
            raise StoreError("gone")

    with pytest.raises(StoreError, match="gone"):
        read_rows(Broken(1), lambda _: None)
