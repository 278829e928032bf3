"""Laws 2 and 9: catalogs in a database beside its logs: lost, old, newer, shared, and read-only."""

import os
import subprocess
import sys

import psycopg
import pytest

from tests.stores.catalog.own_catalogs import InPostgres, again, is_own
from tests.stores.postgres.rig import PostgresRig
from wakelog.errors import StoreError
from wakelog.stores.catalog.tables import CATALOG_VERSION
from wakelog.stores.postgres.catalog import PostgresCatalog
from wakelog.stores.sqlite.catalog import SqliteCatalog
from wakelog.testing.catalog_rig import CatalogFixture, all_results

# ── lost and found ───────────────────────────────────────────────────────────────────────────────

LOSSES = (
    "DELETE FROM {s}sessions",
    "DROP TABLE {s}sessions",
    "DROP TABLE {s}entries",
    "DROP TABLE {s}catalog",
    "DELETE FROM {s}catalog",
    "UPDATE {s}catalog SET version = 0",
    "UPDATE {s}sessions SET row = '{{'",
    "UPDATE {s}sessions SET size = -1",
    "ALTER TABLE {s}entries DROP COLUMN mark",
    "ALTER TABLE {s}sessions RENAME COLUMN places TO spaces",
)


@pytest.mark.parametrize("loss", LOSSES)
def test_lost_catalog_tables_change_no_answer(own, loss):
    """Law 2: whatever happens to the tables of the catalog, the answers are the same, and the tables come back."""
    own.talk(3)
    own.begin(agent="dove").user("nothing but words")
    own.assert_matches_fresh_index()
    own.rig.run(loss)
    own.talk(1)
    for shelf in (own, again(own)):
        shelf.assert_matches_fresh_index()
        assert is_own(shelf)
        assert shelf.refreshed() == 0


def test_a_store_without_a_catalog_gets_one(own):
    """Law 2: a store of an earlier wakelog gets its catalog at the first query."""
    own.talk(2)
    for table in ("sessions", "entries", "catalog", "words", "bookmarks"):
        own.rig.run(f"DROP TABLE IF EXISTS {{s}}{table}")
    own.rig.forget_schema()
    own.store.close()
    own.assert_matches_fresh_index()
    assert is_own(own)


def test_a_catalog_of_an_earlier_version_is_rebuilt(own):
    """Law 2, ST-5: its tables are created anew, and the logs are not changed."""
    own.talk(2)
    own.assert_matches_fresh_index()
    own.rig.run("ALTER TABLE {s}sessions DROP COLUMN state")
    own.rig.run(f"UPDATE {{s}}catalog SET version = {CATALOG_VERSION - 1}")
    for shelf in (again(own), own):
        shelf.assert_matches_fresh_index()
        assert is_own(shelf)


def test_a_newer_catalog_is_left_alone(own):
    """Law 10: the tables of a newer wakelog are not touched; the answers come from memory."""
    own.talk(2)
    own.assert_matches_fresh_index()
    own.rig.run(f"UPDATE {{s}}catalog SET version = {CATALOG_VERSION + 1}")
    own.rig.run("UPDATE {s}sessions SET agent = 'from the future'")
    for shelf in (own, again(own)):
        shelf.talk(1)
        shelf.assert_matches_fresh_index()
        assert not is_own(shelf)
    assert own.rig.run("SELECT agent, count(*) FROM {s}sessions GROUP BY agent") == [("from the future", 1)]


def test_a_catalog_that_was_made_newer_meanwhile_is_left_alone(own):
    """Law 10: the version of changed tables is checked before they are created anew."""
    own.talk(2)
    own.assert_matches_fresh_index()
    own.rig.run(f"UPDATE {{s}}catalog SET version = {CATALOG_VERSION + 1}")
    own.rig.run("ALTER TABLE {s}sessions RENAME COLUMN row TO card")
    assert len(own.catalog.rows()) == 1
    assert not is_own(own)
    assert own.rig.run("SELECT count(card) FROM {s}sessions") == [(1,)]


# ── not to be written ────────────────────────────────────────────────────────────────────────────


def test_a_read_only_file_gives_the_same_answers(in_sqlite, monkeypatch):
    """Laws 2 and 9: without an error or a notice."""
    shelf = in_sqlite
    shelf.talk(2)
    shelf.assert_matches_fresh_index()
    shelf.talk(1)

    def refuse(self, *, durable=True):
        raise StoreError("the file is read-only")

    monkeypatch.setattr("wakelog.stores.sqlite.file.SqliteFile.writing", refuse)
    shelf.assert_matches_fresh_index()
    assert not is_own(shelf)


def test_a_read_only_role_gives_the_same_answers(in_postgres, postgres_url):
    """Laws 2 and 9: from the tables while they are up to date, and then from memory."""
    own, rig = in_postgres, in_postgres.rig
    own.talk(2)
    own.assert_matches_fresh_index()
    name = f"reader_{postgres_url.rpartition('/')[2]}"
    rig.rig.run(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
    try:
        for words in ("USAGE ON SCHEMA wakelog", "SELECT ON ALL TABLES IN SCHEMA wakelog"):
            rig.rig.run(f"GRANT {words} TO {name}")
        url = psycopg.conninfo.conninfo_to_dict(postgres_url)
        theirs = f"postgresql://{name}:secret@{url['host']}:{url['port']}/{url['dbname']}"
        reading = InPostgres(PostgresRig(theirs), theirs)
        reader = CatalogFixture(reading)
        assert reader.refreshed() == 0
        assert all_results(reader.catalog) == all_results(own.catalog)
        assert is_own(reader)
        own.talk(1)
        reader.assert_matches_fresh_index()
        assert not is_own(reader)
        reading.close()
    finally:
        rig.rig.run(f"DROP OWNED BY {name}")
        rig.rig.run(f"DROP ROLE {name}")


def test_a_database_without_an_encoding_gives_the_same_answers(postgres):
    """Law 12: no excerpt ends inside a character."""
    name = f"bytes_{os.getpid()}"
    with postgres.connect() as server:
        server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'")
    url = postgres.url(name)
    rig = InPostgres(PostgresRig(url), url)
    shelf = CatalogFixture(rig)
    story = shelf.talk(2)
    story.user("xy" + "ß日é" * 3_000 + " naïveté")
    shelf.assert_matches_fresh_index()
    assert is_own(shelf)
    rig.close()
    postgres.drop(url)


# ── many at once ─────────────────────────────────────────────────────────────────────────────────

CHILD = """
import sys
from wakelog.stores import open_catalog, open_store
url, waits = sys.argv[1:]
def progress(done, total):
    if waits == "yes" and done == 20:
        print("half", flush=True)
        sys.stdin.read()
store = open_store(url)
catalog = open_catalog(url, store)
catalog.refresh(progress=progress)
print(catalog.count(), len(catalog.search("prompt", limit=1000)))
"""


def child(url, *, waits="no"):
    command = [sys.executable, "-c", CHILD, url, waits]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def small(monkeypatch):
    """Writes so small that those of several processes, and of one long log, interleave."""
    for tables in (SqliteCatalog, PostgresCatalog):
        monkeypatch.setattr(tables, "write_bytes", 300)


def test_concurrent_processes_refresh_the_catalog_together(own):
    """Law 2: the answers are the same."""
    for _ in range(30):
        own.talk(2)
    children = [child(own.rig.url) for _ in range(4)]
    assert [process.communicate()[0].split() for process in children] == [["30", "60"]] * 4
    assert [process.returncode for process in children] == [0] * 4
    assert own.refreshed() == 0
    own.assert_matches_fresh_index()


def test_after_a_killed_refresh_the_answers_are_right(own):
    """Law 2: kill -9 in the middle of it; the next query gives the right answers."""
    for _ in range(30):
        own.talk(2)
    process = child(own.rig.url, waits="yes")
    assert process.stdout.readline() == "half\n"
    process.kill()
    process.communicate()
    own.assert_matches_fresh_index()
    assert own.refreshed() == 0
    assert is_own(own)


def test_a_long_log_is_indexed_in_several_transactions(own, small):
    """Law 2: an interrupted refresh leaves a part, and the next one continues there."""
    story = own.talk(40)

    lines = own.counting._store.load
    for cut in (20, 90, 150):
        own.counting._store.load = lambda session, *, after=-1, cut=cut: interrupted(lines(session, after=after), cut)
        with pytest.raises(KeyboardInterrupt):
            own.catalog.refresh()
        own.counting._store.load = lines
        other = again(own)
        assert len(other.catalog.search("prompt")) <= 40
    story.user("one prompt more")
    own.assert_matches_fresh_index()
    assert len(own.catalog.search("prompt", limit=100)) == 41


def interrupted(lines, cut):
    for number, line in enumerate(lines):
        if number == cut:
            raise KeyboardInterrupt
        yield line


def test_an_older_row_never_replaces_a_newer_one(own, small):
    """Law 2: of two processes that read the same log, the row of the one that read more stays."""
    story, other, load = own.talk(10), again(own), own.counting._store.load

    def overtaken(session, *, after=-1):
        yield from load(session, after=after)
        own.counting._store.load = load
        story.session.archive()
        other.catalog.refresh()

    own.counting._store.load = overtaken
    own.catalog.refresh()
    assert [row.name for row in own.catalog.rows(archived=True)] == [story.session.name]
    own.assert_matches_fresh_index()
