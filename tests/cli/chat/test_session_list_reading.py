"""Rows for `chat --pick` while a catalog is refreshed: at once, then at growing intervals, then all of them."""

import pytest

from wakelog.cli.chat.session_list import FIRST_ROWS, ReadProgress, read_rows
from wakelog.errors import StoreError
from wakelog.session import Session
from wakelog.stores.catalog.index import Index
from wakelog.stores.catalog.index_file import IndexTables
from wakelog.stores.memory import MemoryStore


class SlowCatalog:
    """A catalog that takes a second for each log."""

    def __init__(self, logs):
        self.logs, self.taken, self.seconds = logs, 0, 0.0
        self.asked: list[tuple[int, int | None]] = []

    def refresh(self, *, progress):
        progress(0, self.logs)
        for done in range(1, self.logs + 1):
            self.taken, self.seconds = done, float(done)
            progress(done, self.logs)

    def rows(self, limit=None):
        self.asked.append((self.taken, limit))
        return [f"row {number}" for number in range(self.taken)][:limit]


def reports_of(catalog, clock=lambda: 0.0):
    """Read all rows of a catalog; return the reports that came meanwhile."""
    reports: list[ReadProgress] = []
    read_rows(catalog, reports.append, clock)
    return reports


def row_counts(reports):
    return [len(report.rows) for report in reports]


def test_a_long_reading_is_reported_at_growing_intervals():
    """Reports cost more the more rows there are; with growing intervals they stay a small part of the reading."""
    catalog = SlowCatalog(1_000)
    reports = reports_of(catalog, lambda: catalog.seconds)
    assert [done for done, limit in catalog.asked if limit is None] == [1, 3, 7, 15, 31, 63, 127, 255, 511, 1_000]
    assert [one.done for one in reports[:-2]] == list(range(1_001))
    assert [one.is_complete for one in reports] == [False] * (len(reports) - 1) + [True]
    assert row_counts(reports[-1:]) == [1_000]


def test_steps_without_elapsed_time_are_not_reported():
    """A fast reading reports its start, the first page and the end."""
    reports = reports_of(SlowCatalog(100))
    assert [(one.done, one.total) for one in reports] == [(0, 100), (0, 0), (0, 0)]


def test_the_first_page_is_reported_before_the_rest(tmp_path):
    """With the tables of a real index: one page, then all rows."""
    store = MemoryStore()
    names = [Session.create(store, agent="crab", sender="user").name for _ in range(3 * FIRST_ROWS)]
    catalog = Index(store, IndexTables(str(tmp_path / "index.sqlite")))
    reports = reports_of(catalog)
    assert row_counts(reports) == [0, FIRST_ROWS, 3 * FIRST_ROWS]
    assert {row.name for row in reports[-1].rows} == set(names)
    assert row_counts(reports_of(catalog)) == [FIRST_ROWS, 3 * FIRST_ROWS]
    catalog.close()


def test_an_error_of_the_catalog_is_raised():
    class BrokenCatalog(SlowCatalog):
        def refresh(self, *, progress):
            raise StoreError("gone")

    with pytest.raises(StoreError, match="gone"):
        reports_of(BrokenCatalog(1))
