"""Laws 2 and 12: a catalog beside its logs stores no text twice, and cuts excerpts from the lines of the logs."""

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.stores.catalog.own_catalogs import InPostgres, again, is_own
from tests.stores.postgres.rig import PostgresRig
from wakelog.log.codec import encode
from wakelog.log.content import Prompt
from wakelog.log.entry import Message
from wakelog.stores.catalog import fts_tables
from wakelog.stores.catalog.fts_tables import create_catalog_tables
from wakelog.stores.postgres import catalog as postgres_catalog
from wakelog.stores.postgres.full_text import build_tsvector
from wakelog.stores.sqlite import catalog as sqlite_catalog
from wakelog.testing.catalog_rig import CatalogFixture

SPOKEN = "the quick brown fox jumps over a lazy dog"
LOG = {"in_sqlite": "SELECT * FROM lines ORDER BY key", "in_postgres": "SELECT * FROM wakelog.lines ORDER BY 1, 2"}
EVERYTHING = {
    "in_sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'",
    "in_postgres": "SELECT tablename FROM pg_tables WHERE schemaname = 'wakelog'",
}


def excerpts(shelf, query):
    return [hit.excerpt for hit in shelf.catalog.search(query)]


def planted(entry_id, text, *, seq=None):
    """A line that another program wrote: without a seal."""
    return encode(Message(id=entry_id, seq=seq, message=Prompt(content=text))) + b"\n"


def stored(shelf, which):
    """The names of the tables with a row that has the text."""
    tables = [name for (name,) in shelf.rig.run(EVERYTHING[which])]
    rows = {name: repr(shelf.rig.run(f"SELECT * FROM {{s}}{name}")) for name in tables}
    return {name.partition("_")[0] for name, found in rows.items() if SPOKEN in found}


@pytest.fixture
def which(request):
    return request.node.callspec.params["own"]


def test_a_text_is_stored_once(own, which):
    """Law 12: the line of the log is the only place that has it."""
    own.begin().reply(SPOKEN)
    own.assert_matches_fresh_index()
    assert is_own(own)
    assert excerpts(own, "fox") == ["the quick brown «fox» jumps over a lazy dog"]
    assert stored(own, which) == {"lines"}


# ── catalogs of the version before ───────────────────────────────────────────────────────────────


def old_entry_values(name, one, folded):
    vector, _ = build_tsvector(folded)
    about = (one.place, one.id, one.type, one.tools, one.timestamp, one.time_ms, one.mark, one.seq)
    return (name, *about, one.text, f" {folded} ", vector)


@pytest.fixture
def version_6(monkeypatch):
    """Catalogs are written as version 6 was: with the texts."""
    with monkeypatch.context() as patch:
        for module in (fts_tables, sqlite_catalog, postgres_catalog):
            patch.setattr(module, "CATALOG_VERSION", 6)
        patch.setattr(sqlite_catalog, "create_catalog_tables", lambda db, **_: create_catalog_tables(db))
        patch.setattr(postgres_catalog, "_entry_values", old_entry_values)
        patch.setattr(postgres_catalog, "_index_at_once", lambda _: None)
        yield patch


def test_a_database_of_the_version_before(own, which, version_6):
    """Law 1, law 2: it is read, searched and appended to; its catalog is rebuilt, and the rows of its logs stay."""
    story = own.talk(2)
    story.reply(SPOKEN)
    own.catalog.refresh()
    assert len(stored(own, which)) == 2
    log = own.rig.run(LOG[which])
    version_6.undo()
    new = again(own)
    assert excerpts(new, '"quick brown"') == ["the «quick brown» fox jumps over a lazy dog"]
    new.assert_matches_fresh_index()
    assert is_own(new)
    assert stored(new, which) == {"lines"}
    assert own.rig.run(LOG[which]) == log
    story.reply("appended to an old database")
    new.assert_matches_fresh_index()
    assert own.rig.run(LOG[which])[: len(log)] == log


def test_a_role_that_does_not_own_the_tables_rebuilds_the_catalog(in_postgres, postgres_url, version_6):
    """Law 2: with the permissions that docs/stores.md names; only the setting of the GIN index needs the owner."""
    own, name = in_postgres, f"user_{postgres_url.rpartition('/')[2]}"
    own.talk(2)
    own.catalog.refresh()
    version_6.undo()
    own.rig.run(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
    try:
        for right in (
            "USAGE ON SCHEMA wakelog",
            "USAGE ON ALL SEQUENCES IN SCHEMA wakelog",
            "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA wakelog",
            "TRUNCATE ON wakelog.sessions, wakelog.entries",
        ):
            own.rig.run(f"GRANT {right} TO {name}")
        url = conninfo_to_dict(postgres_url)
        theirs = f"postgresql://{name}:secret@{url['host']}:{url['port']}/{url['dbname']}"
        rig = InPostgres(PostgresRig(theirs), theirs)
        user = CatalogFixture(rig)
        user.assert_matches_fresh_index()
        assert is_own(user)
        rig.close()
    finally:
        own.rig.run(f"DROP OWNED BY {name}")
        own.rig.run(f"DROP ROLE {name}")


# ── logs that are not plain ──────────────────────────────────────────────────────────────────────


def test_entries_without_an_id_or_seq_of_their_own_have_their_own_excerpts(own):
    """Law 9: an id that is repeated with another text, two records on one line, and a line without a seq."""
    story = own.begin()
    first = story.user("apple one")
    story.user("apple two")
    own.rig.plant(story.session.id, planted(first.id, "apple three", seq=1))
    own.rig.plant(story.session.id, planted("g1", "apple four").strip() + planted("g2", "apple five"))
    own.rig.plant(story.session.id, planted("g3", "apple six"))
    own.assert_matches_fresh_index()
    assert is_own(own)
    numbers = ("one", "two", "three", "four", "five", "six")
    assert sorted(excerpts(own, "apple")) == sorted(f"«apple» {number}" for number in numbers)
    assert sorted(excerpts(own, "type:message")) == sorted(f"apple {number}" for number in numbers)


def test_a_line_that_another_program_has_changed_is_noticed_by_a_search(own):
    """Law 2: an excerpt shows the text of the log; where the index does not match it, the index is rebuilt."""
    story = own.begin()
    story.user("an apple a day")
    story.user("a cherry")
    own.catalog.refresh()
    own.rig.corrupt(story.session.id, b"apple", b"grape")
    assert excerpts(own, "apple") == []
    assert excerpts(own, "grape") == ["an «grape» a day"]
    own.assert_matches_fresh_index()
    assert is_own(own)


def test_removed_texts_leave_the_index_of_sqlite(in_sqlite, monkeypatch):
    """Law 2: ranks depend on the number of indexed texts, so none of a removed session stays."""
    story, other = in_sqlite.talk(3), in_sqlite.talk(1)
    in_sqlite.catalog.refresh()
    counts = "SELECT (SELECT count(*) FROM words_docsize), (SELECT count(*) FROM entries)"
    assert in_sqlite.rig.run(counts) == [(16, 16)]

    def fail(session):
        if session == story.session.name:
            raise MemoryError

    story.user("one more")
    in_sqlite.counting.meanwhile = fail
    monkeypatch.setattr(sqlite_catalog, "create_catalog_tables", lambda *_, **__: pytest.fail("it was rebuilt"))
    in_sqlite.catalog.refresh()
    assert in_sqlite.rig.run(counts) == [(4, 4)]
    assert {hit.name for hit in in_sqlite.catalog.search("prompt")} == {other.session.name}
    in_sqlite.counting.meanwhile = lambda _: None
    in_sqlite.assert_matches_fresh_index()
    assert in_sqlite.rig.run(counts) == [(17, 17)]


def test_a_session_that_another_program_has_removed(own, which):
    """Law 2: without its lines its texts are unknown, and the answers are those of a new index."""
    story, _ = own.talk(2), own.talk(1)
    own.catalog.refresh()
    ids = {"in_sqlite": "(SELECT key FROM logs WHERE id = '{0}')", "in_postgres": "'{0}'"}[which]
    key = ids.format(story.session.id)
    own.rig.run(f"DELETE FROM {{s}}lines WHERE session = {key}")
    own.rig.run(f"DELETE FROM {{s}}logs WHERE {'key' if which == 'in_sqlite' else 'session'} = {key}")
    if which == "in_postgres":
        own.rig.run(f"DELETE FROM wakelog.directory WHERE session = {key}")
    new = again(own)
    new.assert_matches_fresh_index()
    assert len(new.catalog.rows()) == 1
    assert is_own(new)


# ── vectors ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("folded", "is_complete"),
    [
        ("", True),
        ("one two one", True),
        ("same " * 254 + "same", True),
        ("same " * 255 + "same", False),
        ("x" * 2_045, True),
        ("x" * 2_046, False),
        (" ".join(f"w{number}" for number in range(16_383)), True),
        (" ".join(f"w{number}" for number in range(16_384)), False),
    ],
)
def test_a_vector_says_whether_it_has_the_whole_text(folded, is_complete):
    """ST-5: phrases are looked for in the vector only where it has the position of every word."""
    assert build_tsvector(folded)[1] == is_complete
