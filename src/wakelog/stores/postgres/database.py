"""PostgreSQL database: run reading and writing statements, and apply schema migrations.

Rule 1: reading creates nothing. Without a schema there are no rows; the first write creates the schema.
Rule 2: a commit waits for the disk, even if the server's default is not to wait, unless the caller needs no durability.
Rule 3: the schema version is read once and cached. Migrations are applied in one transaction, by one process at a time;
a second process finds them applied.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, LiteralString, TypeAlias

from psycopg import errors
from psycopg.rows import TupleRow

from wakelog.errors import NewerFormat, StoreError
from wakelog.stores.database.migrations import migrations, newest
from wakelog.stores.locking import DEFAULT_WAIT, LockWait
from wakelog.stores.postgres.connections import Connection, Connections, Parameters
from wakelog.stores.postgres.url import PostgresUrl

ScalarQuery: TypeAlias = Callable[[LiteralString], Any]

_KIND = "postgres"
_SERVER_MIN = 130000
_ENCODINGS = ("UTF8", "SQL_ASCII")
# The lock key is "wake", "logs" in ASCII.
_LOCK = "SELECT pg_advisory_xact_lock(2002872165, 1819240307)"
# Asked of the catalog: `to_regclass` may answer from a cache of the server that is older than the lock above.
_HAS_VERSION_TABLE = """SELECT EXISTS (
  SELECT FROM pg_catalog.pg_tables WHERE schemaname = 'wakelog' AND tablename = 'schema_version')"""
_HAS_SCHEMA = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'wakelog')"
_VERSION = "SELECT coalesce(max(version), 0) FROM wakelog.schema_version"
_CREATE_VERSION_TABLE = "CREATE TABLE wakelog.schema_version (version bigint PRIMARY KEY, applied timestamptz NOT NULL)"
# "off": do not wait for the disk. "on": wait, in the way the server is configured. NULL: keep the connection's setting.
_COMMIT = """CASE WHEN %(commit)s::text IS NOT NULL THEN set_config('synchronous_commit',
  CASE WHEN %(commit)s = 'off' THEN 'off' WHEN current_setting('synchronous_commit') = 'off' THEN 'on'
    ELSE current_setting('synchronous_commit') END, true) END"""
_RECORD_MIGRATION = "INSERT INTO wakelog.schema_version VALUES (%s, clock_timestamp())"


def with_commit_mode(statement: LiteralString) -> LiteralString:
    """A statement with `<commit>` replaced by an expression that sets how its transaction commits."""
    return statement.replace("<commit>", _COMMIT)


class Database:
    """A PostgreSQL database with the schema `wakelog`, which the first write creates."""

    def __init__(self, url: PostgresUrl, *, lock_wait: LockWait = DEFAULT_WAIT) -> None:
        self.url = url
        self.connections = Connections(url, lock_wait)
        self._version = 0

    def read(self, statement: LiteralString, given: Parameters | None = None) -> list[TupleRow]:
        """The rows of a statement that changes nothing; none if there is no schema yet."""
        return self.connections.run(statement, given) if self.version() else []

    def write(
        self, statement: LiteralString, given: Parameters, *, durable: bool = True, again: bool = True
    ) -> list[TupleRow]:
        """The rows of a writing statement, which was built by `with_commit_mode`.

        `durable`: its commit is on disk before this returns. `again`: the statement is idempotent and may be repeated.
        """
        if self._version < newest(_KIND):
            self.bring_up_to_date()
        # A direct connection is set to wait for the disk when it is opened; one of a pooler may have other settings.
        durably = "on" if self.url.is_pooled else None
        commit = durably if durable else "off"
        return self.connections.run(statement, {**given, "commit": commit}, again=again, writes=True)

    def version(self) -> int:
        """The version of the schema; 0 if there is none yet."""
        if not self._version:
            self._version = self._checked(_schema_version(lambda question: self.connections.run(question)[0][0]))
        return self._version

    def bring_up_to_date(self, *, to: int | None = None) -> None:
        """Apply missing migrations, up to version `to` or the newest one."""
        wanted = newest(_KIND) if to is None else to
        if self.version() < wanted:
            with self.connections.using() as connection, self._needing_rights():
                self._migrate(connection, wanted)
            self._version = wanted

    def _migrate(self, connection: Connection, wanted: int) -> None:
        self._check_server(connection)
        with connection.transaction():
            connection.execute(_LOCK)
            ask = _scalar_query(connection)
            version = self._checked(_schema_version(ask))
            # An administrator may have created it for a role without that permission.
            if not ask(_HAS_SCHEMA):
                connection.execute("CREATE SCHEMA wakelog")
            if not version:
                connection.execute(_CREATE_VERSION_TABLE)
            for step in migrations(_KIND):
                if version < step.version <= wanted:
                    # Without parameters and preparation the text may contain many statements.
                    connection.execute(step.sql, prepare=False)
                    connection.execute(_RECORD_MIGRATION, (step.version,))

    def _checked(self, version: int) -> int:
        if version > newest(_KIND):
            raise NewerFormat(
                f"{self.url} has schema {version}; this wakelog knows {newest(_KIND)}", hint="upgrade wakelog"
            )
        return version

    def _check_server(self, connection: Connection) -> None:
        if connection.info.server_version < _SERVER_MIN:
            raise StoreError(f"{self.url} is too old", hint="PostgreSQL 13 or newer is needed")
        if connection.info.parameter_status("server_encoding") not in _ENCODINGS:
            raise StoreError(
                f"the database {self.url.database} does not use the encoding UTF8",
                hint="create one with `createdb --encoding=UTF8 --template=template0 NAME`",
            )

    @contextlib.contextmanager
    def _needing_rights(self) -> Iterator[None]:
        try:
            yield
        except errors.InsufficientPrivilege as error:
            raise StoreError(
                f"{self.url}: the role {self.url.user} may not create or change the schema `wakelog`",
                hint=f"GRANT CREATE ON DATABASE {self.url.database} TO it, or let its owner run this wakelog once",
            ) from error

    def close(self) -> None:
        """Close all connections; the next use opens new ones and reads the schema version again."""
        self.connections.close()
        self._version = 0


def _schema_version(ask: ScalarQuery) -> int:
    # Two queries: without the table the second one would be an error, which would abort the transaction.
    return int(ask(_VERSION)) if ask(_HAS_VERSION_TABLE) else 0


def _scalar_query(connection: Connection) -> ScalarQuery:
    """A function that runs a query on this connection and returns its first value."""

    def ask(question: LiteralString) -> Any:
        found = connection.execute(question).fetchone()
        return found[0] if found else None

    return ask
