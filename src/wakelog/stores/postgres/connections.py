"""Connections to one PostgreSQL database, opened on demand and shared by the threads of one process; array types.

The pool opens connections and limits their number. The last used connection is kept outside of the pool, because
returning it and getting it again takes longer than everything else that an append does here.
Rule 1: a connection that broke while it was idle is never used. A poll of its socket, without a round trip, shows
whether an idle connection has unexpected data.
Rule 2: a statement that failed on a broken connection is repeated once, on another one, and only if it is idempotent.
Longer outages are handled by `stores/retrying.py`.
Rule 3: no call waits longer than the leases held on its thread allow (`stores/locking.py`): a statement without an
answer by then is abandoned together with its connection.
Rule 4: a forked process does not touch its parent's connections and opens its own.
Array parameters are lists with a fixed element type, encoded in PostgreSQL's binary array format. psycopg would inspect
every value of a list to find its type, and would choose another type, and with it another prepared statement, whenever
a number gets longer.
"""

import contextlib
import logging
import os
import select
import struct
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any, ClassVar, LiteralString, Self, TypeAlias, TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import PQGen
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.rows import TupleRow
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.waiting import Ready, Wait
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from wakelog.errors import StoreBusy, StoreError, Unavailable
from wakelog.stores.locking import DEFAULT_WAIT, LockWait, is_time_up
from wakelog.stores.postgres.errors import (
    LockWatch,
    connection_error,
    lost_connection_error,
    statement_error,
    timeout_error,
)
from wakelog.stores.postgres.url import PostgresUrl

_TEXT, _BIGINT, _BYTEA = (25, 1009), (20, 1016), (17, 1001)
_NULL = struct.pack("!i", -1)


class Texts(list[str | None]):
    """A `text[]`."""


class Bigints(list[int | None]):
    """A `bigint[]`."""


class Byteas(list[bytes | None]):
    """A `bytea[]`."""


def _array(element: int, values: Iterable[bytes | None], length: int) -> bytes:
    if not length:
        return struct.pack("!iiI", 0, 0, element)
    items = (_NULL if value is None else struct.pack("!i", len(value)) + value for value in values)
    return struct.pack("!iiIii", 1, 1, element, length, 1) + b"".join(items)


class _Column(Dumper):
    format = Format.BINARY
    element: ClassVar[int]

    def dump(self, obj: Any) -> bytes:
        return _array(self.element, self.values(obj), len(obj))

    def values(self, obj: Iterable[bytes | None]) -> Iterable[bytes | None]:
        return obj


class _TextColumn(_Column):
    element, oid = _TEXT

    def values(self, obj: Iterable[Any]) -> Iterable[bytes | None]:
        return (None if value is None else value.encode() for value in obj)


class _BigintColumn(_Column):
    element, oid = _BIGINT

    def values(self, obj: Iterable[Any]) -> Iterable[bytes | None]:
        return (None if value is None else struct.pack("!q", value) for value in obj)


class _ByteaColumn(_Column):
    element, oid = _BYTEA


for _kind, _dumper in ((Texts, _TextColumn), (Bigints, _BigintColumn), (Byteas, _ByteaColumn)):
    # Registered globally, but only for these types, so other users of psycopg in this process are not affected.
    psycopg.adapters.register_dumper(_kind, _dumper)


Connection: TypeAlias = psycopg.Connection[TupleRow]
Parameters: TypeAlias = Mapping[str, Any]
Failures: TypeAlias = deque[tuple[float, psycopg.Error]]
_Result = TypeVar("_Result")
_CONNECTIONS_MAX = 8
_POOL_TIMEOUT_S = 30.0
# How often a caller that waits for a connection checks whether connecting failed: the pool does not report that.
_FAILURE_CHECK_S = 0.05
_TRIES_MAX = 10
# Errors after which the statement was rolled back.
_ROLLED_BACK = (errors.SerializationFailure, errors.DeadlockDetected)
# Set once for each connection, so that later changes of the server's configuration do not matter.
_WAIT_FOR_DISK = """
SELECT set_config('synchronous_commit',
  CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)
"""
_NO_ANSWER = "no answer in time"
_INHERITED: list[object] = []
# Without a handler, warnings of the pool would be printed to stderr; callers get errors as exceptions anyway.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


class _ConnectionBroke(Exception):
    """A connection broke while a statement was running."""


class _Connection(psycopg.Connection[TupleRow]):
    """A connection with a reusable cursor. Connection errors go into `failures`: the pool does not pass them on."""

    reused_cursor: psycopg.Cursor[TupleRow]
    poller: select.poll
    # None until the connection is set up completely.
    watch: LockWatch | None = None

    @classmethod
    def connect(  # type: ignore[override]
        cls, conninfo: str = "", *, failures: Failures, url: PostgresUrl, lock_wait: LockWait, **parameters: Any
    ) -> Self:
        try:
            connection = super().connect(conninfo, **parameters)
            connection.reused_cursor, connection.poller = connection.cursor(binary=True), select.poll()
            connection.poller.register(connection.fileno(), select.POLLIN)
            # By default psycopg chooses an integer type by size, which prepares a new statement when a number grows.
            connection.adapters.register_dumper(int, Int8BinaryDumper)
            if not url.is_pooled:
                connection.execute(_WAIT_FOR_DISK)
            connection.watch = LockWatch(url, lock_wait)
        except psycopg.Error as error:
            failures.append((time.monotonic(), error))
            raise
        return connection

    def wait(self, gen: PQGen[_Result], *given: Any, **more: Any) -> _Result:
        """Wait for the server as psycopg does, but not longer than the leases on this thread allow.

        A statement without an answer may wait for a lock, so it is watched by `LockWatch`.
        """
        if self.watch is not None:
            gen = self.watch.watched(gen, self.pgconn.backend_pid)
        return super().wait(_with_time_limit(gen), *given, **more)


def _with_time_limit(gen: PQGen[_Result]) -> Generator[Wait, Ready | int, _Result]:
    """Wrap a driver generator; end it with an error when the time is up. Checked in each interval without data."""
    try:
        ready = yield next(gen)
        while True:
            if not ready and is_time_up():
                raise psycopg.OperationalError(_NO_ANSWER)
            ready = yield gen.send(ready)
    except StopIteration as end:
        result: _Result = end.value
        return result


class Connections:
    """The connections of this process to the database at a URL."""

    def __init__(self, url: PostgresUrl, lock_wait: LockWait = DEFAULT_WAIT) -> None:
        self.url = url
        self._lock_wait = lock_wait
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._opening = threading.Lock()
        self._failures: Failures = deque(maxlen=1)
        self._pool: ConnectionPool[_Connection] | None = None
        self._spare: list[_Connection] = []

    def run(
        self, statement: LiteralString, given: Parameters | None = None, *, again: bool = True, writes: bool = False
    ) -> list[TupleRow]:
        """The rows of one statement, run as one transaction. `again`: it is idempotent and may be repeated."""
        cut: StoreError | None = None
        for _ in range(_TRIES_MAX):
            try:
                return self._once(statement, given, writes=writes)
            except _ConnectionBroke as error:
                failure = lost_connection_error(self.url, is_doubtful=writes)
                if cut or not again:
                    raise failure from error
                cut = failure
            except _ROLLED_BACK as error:
                undone = error
            except psycopg.Error as error:
                raise statement_error(error, self.url) from error
            except StoreError as error:
                # No other connection is available: report the error of the first try, if there was one.
                raise (cut or error) from error
        raise statement_error(undone, self.url) from undone

    def _once(self, statement: LiteralString, given: Parameters | None, *, writes: bool) -> list[TupleRow]:
        pool = self._opened()
        connection = self._taken(pool)
        is_done = False
        try:
            # Creating a cursor takes 10 % of an append. The kept cursor retains its last result, which must be small.
            cursor = connection.reused_cursor if writes else connection.cursor(binary=True)
            rows = cursor.execute(statement, given).fetchall()
            is_done = True
        except errors.LockNotAvailable as error:
            raise _busy_error(connection) from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if str(error) == _NO_ANSWER:
                # A late answer on this connection would belong to the abandoned statement.
                connection.close()
                raise timeout_error(self.url) from error
            if connection.broken:
                raise _ConnectionBroke from error
            raise
        finally:
            if is_done and pool is self._pool and not self._spare:
                self._spare.append(connection)
            else:
                pool.putconn(connection)
        return rows

    @contextlib.contextmanager
    def using(self) -> Iterator[Connection]:
        """A connection in autocommit mode, for statements and explicit transactions."""
        pool = self._opened()
        connection = self._taken(pool)
        try:
            yield connection
        except errors.LockNotAvailable as error:
            raise _busy_error(connection) from error
        except psycopg.Error as error:
            raise statement_error(error, self.url) from error
        finally:
            pool.putconn(connection)

    def _opened(self) -> ConnectionPool[_Connection]:
        if self._pid != os.getpid():
            # Kept and never closed: closing would end the parent's sessions on the server.
            _INHERITED.extend((self._pool, self._spare))
            self._begin()
        pool = self._pool
        if pool is not None:
            return pool
        with self._opening:
            if self._pool is None:
                self._pool = self._new_pool()
            return self._pool

    def _new_pool(self) -> ConnectionPool[_Connection]:
        pool = ConnectionPool(
            connection_class=_Connection,
            kwargs=self.url.parameters() | {"failures": self._failures, "url": self.url, "lock_wait": self._lock_wait},
            min_size=0,
            max_size=_CONNECTIONS_MAX,
            reconnect_timeout=0.0,
            num_workers=1,
            open=False,
        )
        pool.open()
        return pool

    def _taken(self, pool: ConnectionPool[_Connection]) -> _Connection:
        begun = time.monotonic()
        while True:
            try:
                connection = self._spare.pop() if self._spare else pool.getconn(timeout=_FAILURE_CHECK_S)
            except IndexError:
                continue  # another thread was faster
            except PoolTimeout:
                self._check_failures(begun)
                continue
            except PoolClosed as error:
                raise StoreError("the store was closed during the call", hint="try again") from error
            if not connection.poller.poll(0) or _is_alive(connection):
                return connection
            connection.close()
            pool.putconn(connection)

    def _check_failures(self, begun: float) -> None:
        if self._failures and self._failures[-1][0] >= begun:
            raise connection_error(self._failures[-1][1], self.url) from self._failures[-1][1]
        if is_time_up():
            raise timeout_error(self.url)
        if time.monotonic() > begun + _POOL_TIMEOUT_S:
            raise Unavailable(
                f"all {_CONNECTIONS_MAX} connections to {self.url} are in use", hint="use fewer threads at once"
            )

    def close(self) -> None:
        """Close all connections; the next use opens new ones."""
        pool, is_ours = self._pool, self._pid == os.getpid()
        if pool is not None and is_ours:
            self._pool = None
            with contextlib.suppress(IndexError):
                while True:
                    pool.putconn(self._spare.pop())
            pool.close()


def _busy_error(connection: _Connection) -> StoreBusy:
    assert connection.watch is not None
    return connection.watch.busy()


def _is_alive(connection: Connection) -> bool:
    """Whether the server still answers. Unexpected data on an idle connection may be its last message."""
    with contextlib.suppress(psycopg.Error):
        connection.execute("SELECT")
        return True
    return False
