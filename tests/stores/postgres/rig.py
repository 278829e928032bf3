"""A PostgreSQL store in a database of its own, and direct access to its server."""

import contextlib
import select

import psycopg

from wakelog.stores.postgres import PostgresStore

PATIENCE_S = 600
PLANT = """
WITH moved AS (
  UPDATE wakelog.logs SET rows = rows + 1, size = size + octet_length(%(raw)s::bytea)
  WHERE session = %(session)s RETURNING session, rows, size)
INSERT INTO wakelog.lines (session, number, size, bytes) SELECT session, rows, size, %(raw)s FROM moved
"""
WAITING = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()
"""


class PostgresRig:
    """A store under test. `direct` is the URL of the server itself, where the store uses a pooler."""

    def __init__(self, url, *, direct=None):
        self.url = url
        self.direct = direct or url
        self._server = None
        self._stores = []
        self.store = self.again()

    def again(self):
        self._stores.append(PostgresStore(self.url))
        return self._stores[-1]

    def run(self, words, **given):
        """Run a statement on a connection of its own."""
        if self._server is None or self._server.closed:
            self._server = psycopg.connect(self.direct, autocommit=True)
        cursor = self._server.execute(words, given or None)
        return cursor.fetchall() if cursor.description else []

    def advance(self, seconds):
        self.run("UPDATE wakelog.logs SET expires = expires - %(by)s * interval '1 second'", by=seconds)

    def files(self, session):
        return ()

    def plant(self, session, raw):
        *lines, rest = raw.split(b"\n")
        for piece in (*(line + b"\n" for line in lines), *([rest] if rest else ())):
            self.run(PLANT, session=session, raw=piece)

    def corrupt(self, session, old, new):
        words = "UPDATE wakelog.lines SET bytes = %(raw)s WHERE session = %(session)s AND number = %(number)s"
        for number, raw in self.run("SELECT number, bytes FROM wakelog.lines WHERE session = %(s)s", s=session):
            self.run(words, session=session, number=number, raw=raw.replace(old, new))

    @contextlib.contextmanager
    def holding(self, session):
        """Hold the lock of the log's row: appends have to wait."""
        with psycopg.connect(self.direct) as other:
            other.execute("SELECT FROM wakelog.logs WHERE session = %s FOR UPDATE", (session,))
            yield other

    def wait_for(self, words, **given):
        """Run a query until it has a result, and return it; a server that was just stopped is waited for."""
        for _ in range(int(PATIENCE_S / 0.01)):
            with contextlib.suppress(psycopg.OperationalError):
                if found := self.run(words, **given):
                    return found
            select.select([], [], [], 0.01)
        raise AssertionError(f"never happened: {words}")

    def waiting(self):
        """The server process that waits for a lock, as soon as there is one."""
        return self.wait_for(WAITING)[0][0]

    def close(self):
        for store in self._stores:
            store.close()
        if self._server is not None:
            self._server.close()
