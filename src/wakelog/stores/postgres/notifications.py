"""Notifications of new entries: followers mark the log's row, and appenders that find the mark send a NOTIFY.

Rule 1: a notification is sent after the commit it announces, in its own transaction, and only if the log is followed.
NOTIFY inside the append would make the commits of the whole server wait for one another.
Rule 2: appenders update the same row that followers mark. So a follower that marks the row and then reads the log
either sees an append or is notified of it. Only if an appender dies between commit and NOTIFY is there no notification;
therefore followers also read again after `look_s`.
Rule 3: a listener has its own connection. It is kept for the next follower, but after UNLISTEN, because the server
stores every notification until all listeners have fetched it.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import psycopg

from wakelog.errors import WakelogError
from wakelog.stores.postgres.connections import Connection, Texts
from wakelog.stores.postgres.database import Database

_READ_AGAIN_S = 1.0
# Polling interval where notifications are not available.
_POLL_S = 0.2
_FOLLOWED_S = 60.0
_NOTIFY = "SELECT pg_notify('wakelog', session) FROM unnest(%(sessions)s) AS session"
_FOLLOW = """
UPDATE wakelog.logs SET followed = clock_timestamp() + %(followed_s)s * interval '1 second'
WHERE session = %(session)s AND (followed IS NULL OR followed < clock_timestamp() + %(enough_s)s * interval '1 second')
RETURNING set_config('synchronous_commit', 'off', true)
"""
_INHERITED_LISTENERS: list[object] = []


class Notifications:
    """Notifications of one database. `look_s`: the longest wait, in seconds, before a follower reads again."""

    def __init__(self, database: Database, *, look_s: float = _READ_AGAIN_S) -> None:
        self._database = database
        self._look_s = look_s
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._idle: list[_Listener] = []
        self._turn = threading.Lock()

    def notify(self, sessions: Sequence[str]) -> None:
        """Notify the followers of sessions. Errors are ignored, because the entries are committed already."""
        if sessions:
            with contextlib.suppress(WakelogError):
                self._database.connections.run(_NOTIFY, {"sessions": Texts(sessions)})

    @contextlib.contextmanager
    def watching(self, session: str) -> Iterator[Callable[[float], None]]:
        """See `StoreTables`."""
        listener = self._listener(session)
        if listener is None:
            yield lambda seconds: time.sleep(min(seconds, _POLL_S))
            return
        try:
            yield lambda seconds: listener.wait(session, min(seconds, self._look_s))
        finally:
            self._keep(listener)

    def _listener(self, session: str) -> "_Listener | None":
        """A listener for a session; None where notifications are not available."""
        if self._pid != os.getpid():
            _INHERITED_LISTENERS.append(self._idle)
            self._begin()
        place = self._database.url.listening
        if place is None:
            return None
        with self._turn:
            kept = self._idle.pop() if self._idle else None
        if kept is not None and kept.start(session):
            return kept
        # A read-only role, a standby, or a server without a free connection: the caller polls instead.
        with contextlib.suppress(psycopg.Error):
            listener = _Listener(psycopg.connect(**place.parameters()))
            if listener.start(session):
                return listener
        return None

    def _keep(self, listener: "_Listener") -> None:
        with self._turn:
            if not self._idle and listener.stop():
                self._idle.append(listener)
                return
        listener.close()

    def close(self) -> None:
        """Close the kept listener."""
        if self._pid == os.getpid():
            with self._turn:
                kept, self._idle = self._idle, []
            for listener in kept:
                listener.close()


class _Listener:
    """A connection that listens for notifications."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session, self._until = "", 0.0

    def start(self, session: str) -> bool:
        """Start to listen and mark the log as followed; on an error close the connection and return False."""
        try:
            self._connection.execute("LISTEN wakelog")
            self._follow(session)
        except psycopg.Error:
            self.close()
            return False
        return True

    def _follow(self, session: str) -> None:
        now = time.monotonic()
        if self._session != session or now > self._until:
            enough_s = _FOLLOWED_S / 2
            given = {"session": session, "followed_s": _FOLLOWED_S, "enough_s": enough_s}
            self._connection.execute(_FOLLOW, given)
            self._session, self._until = session, now + enough_s / 2

    def wait(self, session: str, seconds: float) -> None:
        """Wait for a notification of this session, or until the time is up."""
        deadline = time.monotonic() + seconds
        try:
            for notice in self._connection.notifies(timeout=seconds):
                if notice.payload == session:
                    break
            self._follow(session)
        except psycopg.Error:
            time.sleep(max(0.0, min(deadline - time.monotonic(), _POLL_S)))

    def stop(self) -> bool:
        """Stop listening; return whether the connection can be used again."""
        try:
            self._connection.execute("UNLISTEN wakelog")
        except psycopg.Error:
            return False
        return True

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
