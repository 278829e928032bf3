"""Notifications of new entries: followers mark the log's row, and appenders that find the mark send a NOTIFY.

Rule 1: a notification is sent after the commit it announces, in its own transaction, and only if the log is followed.
NOTIFY inside the append would make the commits of the whole server wait for one another.
Rule 2: appenders update the same row that followers mark. So a follower that listens, marks the row and then reads the
log either sees an append or is notified of it. Only if an appender dies between commit and NOTIFY is there no
notification; therefore followers also read again after `look_s`.
Rule 3: all followers of a process share one listening connection. A daemon thread fetches its notifications at once,
because the server stores each until all listeners have fetched it, and closes the connection when it is not used.
Rule 4: of the pieces that are added to journals in quick succession only some are announced. A follower that was
notified therefore reads once more a moment later.
"""

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import psycopg

from wakelog.errors import WakelogError
from wakelog.stores.followers import Follower
from wakelog.stores.postgres.connections import Connection, Texts
from wakelog.stores.postgres.database import Database

_READ_AGAIN_S = 15.0
# Polling interval where notifications are not available.
_POLL_S = 0.2
# The shortest time between two notifications of pieces, and when a notified follower reads once more.
_PIECES_S = 0.05
_READ_ONCE_MORE_S = 0.1
_FOLLOWED_S = 60.0
# How long a follower polls before it tries again to listen.
_LISTEN_AGAIN_S = 30.0
# How long the listener is kept without a follower.
_KEPT_S = 10.0
_SESSIONS_MAX = 1_000
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
        self.look_s = look_s
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._listener: _Listener | None = None
        self._turn = threading.Lock()
        self._marked_until: dict[str, float] = {}
        self._piece_notified: dict[str, float] = {}

    def notify(self, sessions: Sequence[str]) -> None:
        """Notify the followers of sessions. Errors are ignored, because the entries are committed already."""
        if sessions:
            with contextlib.suppress(WakelogError):
                self._database.connections.run(_NOTIFY, {"sessions": Texts(sessions)})

    def notify_of_piece(self, session: str) -> None:
        """Notify the followers of a session of a new piece, unless they were notified a moment ago."""
        now = time.monotonic()
        if now - self._piece_notified.get(session, 0.0) >= _PIECES_S:
            _remember(self._piece_notified, session, now)
            self.notify([session])

    @contextlib.contextmanager
    def watching(self, session: str, follower: Follower) -> Iterator[Callable[[], None]]:
        """See `StoreTables`."""
        if self._pid != os.getpid():
            _INHERITED_LISTENERS.append(self._listener)
            self._begin()
        waiting = _NotificationWait(self, session, follower)
        try:
            yield waiting.wait
        finally:
            waiting.leave()

    def listening(self) -> "_Listener | None":
        """The listener of this process; None where notifications are not available."""
        place = self._database.url.listening
        if place is None:
            return None
        with self._turn:
            if self._listener is not None and self._listener.keep():
                return self._listener
            with contextlib.suppress(psycopg.Error):
                connection = psycopg.connect(**place.parameters())
                with contextlib.suppress(psycopg.Error):
                    connection.execute("LISTEN wakelog")
                    self._listener = _Listener(connection)
                    return self._listener
                connection.close()
        return None

    def mark(self, session: str) -> bool:
        """Mark a log as followed, unless it was marked a short time ago; return whether it is marked."""
        now = time.monotonic()
        if self._marked_until.get(session, 0.0) > now:
            return True
        enough_s = _FOLLOWED_S / 2
        given = {"session": session, "followed_s": _FOLLOWED_S, "enough_s": enough_s}
        try:
            self._database.connections.run(_FOLLOW, given, writes=True)
        except WakelogError:
            return False
        _remember(self._marked_until, session, now + enough_s / 2)
        return True

    def close(self) -> None:
        """Close the listener."""
        if self._pid != os.getpid():
            return
        with self._turn:
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()


def _remember(times: dict[str, float], session: str, moment: float) -> None:
    """Store a time for a session; the oldest ones are dropped when there are too many."""
    times.pop(session, None)
    times[session] = moment
    while len(times) > _SESSIONS_MAX:
        times.pop(next(iter(times)))


class _NotificationWait:
    """The wait of one follower. It polls while notifications are not available, and tries again to listen."""

    def __init__(self, notifications: Notifications, session: str, follower: Follower) -> None:
        self._notifications = notifications
        self._session = session
        self._follower = follower
        # The notification that ended the last call may be followed by pieces that are not announced.
        self._reads_once_more = True
        self._listen()

    def _listen(self) -> None:
        self._listener = self._notifications.listening()
        self._listen_again_at = time.monotonic() + _LISTEN_AGAIN_S
        if self._listener is not None:
            self._listener.add(self._session, self._follower.wake)
            if not self._notifications.mark(self._session):
                # A read-only role may listen, but it cannot say that it does.
                self.leave()

    def wait(self) -> None:
        """Wait for a notification of the session, or until it is time to read again."""
        if self._listener is None:
            self._follower.wait(_POLL_S)
            if time.monotonic() >= self._listen_again_at:
                self._listen()
        elif self._listener.is_lost:
            self.leave()
        else:
            at_most_s = _READ_ONCE_MORE_S if self._reads_once_more else self._notifications.look_s
            self._reads_once_more = self._follower.wait(at_most_s)
            self._notifications.mark(self._session)

    def leave(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.remove(self._session, self._follower.wake)
            self._listener = None


class _Listener:
    """A connection that listens, and the thread that fetches its notifications and wakes the followers."""

    def __init__(self, connection: Connection) -> None:
        self.is_lost = False
        """Whether the connection broke or was closed."""
        self._connection = connection
        self._lock = threading.Lock()
        self._wakes: dict[str, list[Callable[[], None]]] = {}
        self._unused_since: float | None = time.monotonic()
        self._closing, self._close = os.pipe()
        threading.Thread(target=self._run, name="wakelog-notifications", daemon=True).start()

    def add(self, session: str, wake: Callable[[], None]) -> None:
        """Call `wake` with every notification of a session, and when the connection is lost."""
        with self._lock:
            self._wakes.setdefault(session, []).append(wake)

    def remove(self, session: str, wake: Callable[[], None]) -> None:
        """Stop calling `wake`."""
        with self._lock:
            self._wakes[session].remove(wake)
            if not self._wakes[session]:
                del self._wakes[session]
            self._unused_since = None if self._wakes else time.monotonic()

    def keep(self) -> bool:
        """Keep the listener for another follower; return False if it is lost."""
        with self._lock:
            self._unused_since = time.monotonic()
            return not self.is_lost

    def close(self) -> None:
        """End the thread, which closes the connection."""
        with self._lock:
            if self._close >= 0:
                os.close(self._close)
                self._close = -1

    def _run(self) -> None:
        poller = select.poll()
        poller.register(self._closing, select.POLLIN)
        # When the connection breaks, the followers poll.
        with contextlib.suppress(psycopg.Error, OSError):
            poller.register(self._connection.fileno(), select.POLLIN)
            while self._is_needed():
                if any(descriptor == self._closing for descriptor, _ in poller.poll(_KEPT_S * 1000)):
                    break
                self._dispatch({notice.payload for notice in self._connection.notifies(timeout=0)})
        self._end()

    def _is_needed(self) -> bool:
        with self._lock:
            if self._wakes or self._unused_since is None or time.monotonic() - self._unused_since < _KEPT_S:
                return True
            self.is_lost = True
            return False

    def _dispatch(self, sessions: set[str]) -> None:
        with self._lock:
            for session in sessions:
                for wake in self._wakes.get(session, ()):
                    wake()

    def _end(self) -> None:
        self.close()
        self._connection.close()
        os.close(self._closing)
        with self._lock:
            self.is_lost = True
            for wakes in self._wakes.values():
                for wake in wakes:
                    wake()
