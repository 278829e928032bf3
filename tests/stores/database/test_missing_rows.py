"""Missing rows of a database are damage: reported, and appended behind (law 9), with a bounded number of tries."""

import pytest

from tests.stores.postgres.rig import PostgresRig
from tests.stores.sqlite.test_store import SqliteRig
from wakelog import Session
from wakelog.errors import StoreError
from wakelog.log.retry_limit import IDLE_TRIES_MAX
from wakelog.stores.memory import MemoryStore

UNREADABLE = b"\0" * 40 + b"\n"


class SqliteDamage(SqliteRig):
    def lose(self, session, number):
        with self.store.file.writing() as db:
            db.execute("DELETE FROM lines WHERE number = ?", (number,))

    def overwrite(self, session, number):
        with self.store.file.writing() as db:
            db.execute("UPDATE lines SET bytes = ? WHERE number = ?", (UNREADABLE, number))


class PostgresDamage(PostgresRig):
    def lose(self, session, number):
        self.run("DELETE FROM wakelog.lines WHERE number = %(n)s", n=number)

    def overwrite(self, session, number):
        self.run("UPDATE wakelog.lines SET bytes = %(raw)s WHERE number = %(n)s", raw=UNREADABLE, n=number)


@pytest.fixture(params=["sqlite", "postgres"])
def rig(request, tmp_path):
    if request.param == "sqlite":
        rows = SqliteDamage(tmp_path / "store.db")
        yield rows
        rows.store.close()
        return
    server_rows = PostgresDamage(request.getfixturevalue("postgres_url"))
    yield server_rows
    server_rows.close()


def written(rig):
    session = Session.create(rig.store, agent="crab", sender="ada")
    for number in range(4):
        session.user(f"message {number}")
        session.assistant(f"reply {number}")
    last = len(list(rig.store.load(session.name)))
    session.close()
    return session, len(list(rig.store.load(session.name))), last


@pytest.mark.parametrize("lost", [2, 4, -1])
def test_an_entry_follows_missing_and_unreadable_rows(rig, lost):
    """Law 9: a missing row before an unreadable last row is reported, and the next entry is appended behind."""
    session, last, _ = written(rig)
    rig.overwrite(session.id, last)
    rig.lose(session.id, lost if lost > 0 else last - 1)
    again = Session.get(rig.again(), session.name)
    before = b"".join(line.bytes for line in again.store.load(session.name))
    entry = again.say("go on")
    kinds = {defect.kind for defect in again.read().damage}
    assert {"unreadable", "missing"} & kinds
    assert b"".join(line.bytes for line in again.store.load(session.name)) == before + entry.raw + b"\n"
    assert Session.get(rig.again(), session.name).tree.head is not None


def test_an_entry_follows_missing_last_rows(rig):
    """Law 9: the log goes on after its last rows are gone, also for an object that has read them."""
    session, last, _ = written(rig)
    rig.lose(session.id, last)
    fresh = Session.get(rig.again(), session.name)
    fresh.say("from a new object")
    rig.lose(session.id, last + 1)
    rig.lose(session.id, last)
    assert session.say("from the object that has read them").raw in [
        line.raw for line in rig.again().load(session.name)
    ]


class RefusingStore(MemoryStore):
    """Refuses every append, though its log does not change."""

    tries = 0

    def append(self, *given, **more):
        self.tries += 1
        return super().append(*given, **more | {"after": 10_000})


def test_tries_without_progress_are_bounded():
    """Law 9: an append that is refused while the log stays the same ends with an error, not with thousands of tries."""
    store = RefusingStore()
    session = Session.create(store, agent="crab", sender="ada")
    with pytest.raises(StoreError, match="did not change"):
        session.say("hi")
    assert store.tries == IDLE_TRIES_MAX + 1
