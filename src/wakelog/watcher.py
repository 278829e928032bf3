"""Watch sessions: one daemon thread for each followed session of a process reads what is new, for all subscribers.

A `Subscription` is a position in a log and its journals. Once started, it shares the thread of its session: the thread
waits in `Store.follow` and gives its news to every subscription, which gets each entry and each piece once, in order.
Rule 1: the result of a wait counts only if no other read has moved the position meanwhile (`_Watch.catch_up`).
Rule 2: a subscription that is behind the thread, because it was started later or did not fetch its news, reads the
missing part from the store, up to the position of the thread.
Rule 3: after an error the thread tries again, with growing pauses; each subscription gets the error, and empty news
when the store answers again. Closing the store ends the thread and its subscriptions.
Rule 4: the thread ends with its last subscription. After a fork the child process starts its own.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from types import TracebackType
from typing import Self

from wakelog.decide.timing import retry_pause_s
from wakelog.errors import StoreClosed, Unavailable, WakelogError
from wakelog.log.entry import Entry
from wakelog.ports.stores import FollowResult, StopSignal, Store
from wakelog.session_news import Cursor, News
from wakelog.stores.retrying import without_retries

_WAIT_S = 3_600.0
_RETRY_MAX_S = 5.0
# A torn tail is returned by every `follow`: the first and the longest pause before the log is read again.
_TORN_FIRST_S, _TORN_MAX_S = 0.01, 1.0
# A subscription with this many news does not get more until it has fetched them.
_QUEUE_MAX = 1_000


# ── subscriptions ────────────────────────────────────────────────────────────────────────────────


class Subscription:
    """A position in a session; started, it gets what any process adds after it. Used by one thread at a time.

    `pieces`: the number of pieces known of each journal; None if journals are not wanted. A `with` block starts and
    closes the subscription. Closed, it keeps its position, and can be started again.
    """

    def __init__(self, store: Store, name: str, *, after: int, pieces: Mapping[str, int] | None = None) -> None:
        self.store = store
        self.name = name
        self.cursor = Cursor(after + 1, pieces)
        self.is_over = False
        """Whether the store was closed; no more news arrive."""
        self._watch: _Watch | None = None
        self._on_news: Callable[[], None] = _do_nothing
        self._queue: deque[News] = deque()
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._arrived = threading.Event()
        self._error: BaseException | None = None
        self._is_behind = False

    def start(self, on_news: Callable[[], None] | None = None) -> None:
        """Follow the session from here on. `on_news` is called by another thread when there is something to fetch."""
        self._on_news = on_news or _do_nothing
        self.is_over, self._error = False, None
        self._watch = _join(self)

    def close(self) -> None:
        """Stop following."""
        watch, self._watch = self._watch, None
        if watch is not None and self._pid == os.getpid():
            _leave(watch, self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ── fetching ─────────────────────────────────────────────────────────────────────────────────

    @property
    def has_news(self) -> bool:
        """Whether `fetch` would return or raise something."""
        return self._arrived.is_set()

    def fetch(self) -> list[News]:
        """Return what has arrived, without waiting. Raises an error of the thread once, after the news before it."""
        watch = self._current_watch()
        if watch is None:
            return self._take_queue()
        with watch.lock:
            if self._is_behind:
                self._read_missing(watch.cursor)
                self._is_behind = False
                watch.go_back_to(self.cursor.next_seq)
            self._arrived.clear()
            if self._error is not None and not self._queue:
                error, self._error = self._error, None
                raise error
            if self._error is not None:
                self._arrived.set()
            return self._take_queue()

    def catch_up(self) -> list[News]:
        """Read the log now; return everything that was added before this call and not fetched yet."""
        watch = self._current_watch()
        if watch is None:
            self._read_missing(None)
            return self._take_queue()
        with watch.lock:
            watch.catch_up(self.store)
            return self.fetch()

    def wait(self, timeout_s: float | None = None) -> list[News]:
        """Wait for news; empty after the timeout, or if the store was closed. Blocks the thread.

        While the store is unavailable, its own retry policy (`stores/retrying.py`) decides when to give up.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            try:
                found = self.fetch()
            except Unavailable:
                if self.store is without_retries(self.store):
                    raise
                self.store.held(self.name)
                continue
            left_s = None if until is None else until - time.monotonic()
            if found or self.is_over or (left_s is not None and left_s <= 0):
                return found
            self._arrived.wait(left_s)

    def _current_watch(self) -> "_Watch | None":
        if self._watch is not None and self._pid != os.getpid():
            # The thread belongs to the parent process. News that were not fetched are kept.
            self._reset()
            self._watch = _join(self)
        return self._watch

    def _take_queue(self) -> list[News]:
        found = list(self._queue)
        self._queue.clear()
        return found

    def _read_missing(self, limit: Cursor | None) -> None:
        """Read from the store what lies between this position and `limit`, or the end of the log."""
        while True:
            result = self.cursor.follow(self.store, self.name)
            news = self.cursor.advance(result, limit)
            if not news.is_empty:
                self._queue.append(news)
            # Of many pieces only the first are returned, and those of restarted journals are read again.
            if not result.pieces or not (news.entries or news.pieces):
                return

    # ── for the thread, which holds the lock ─────────────────────────────────────────────────────

    def push(self, news: News) -> None:
        """Add news, unless this subscription is behind or has too many. An error before them is over."""
        self._error = None
        if not self._is_behind:
            if len(self._queue) >= _QUEUE_MAX:
                self._is_behind = True
            elif not (passed := self.cursor.pass_on(news)).is_empty or news.is_empty:
                self._queue.append(passed)
            else:
                return
        self.notify()

    def fall_behind(self) -> None:
        """Make the next `fetch` read from the store up to the position of the thread."""
        self._is_behind = True
        self.notify()

    def fail(self, error: BaseException) -> None:
        """Make the next `fetch` raise this error."""
        self._error = error
        self.notify()

    def end(self) -> None:
        """Mark the subscription as over."""
        self.is_over = True
        self.notify()

    def notify(self) -> None:
        """Tell the subscriber that there is something to fetch."""
        self._arrived.set()
        self._on_news()


def _do_nothing() -> None:
    return


def follow_entries(
    store: Store, name: str, *, after: int, timeout_s: float | None = None
) -> Generator[Entry, None, None]:
    """Yield the entries after seq `after` as any process appends them.

    Ends when none has arrived for `timeout_s` seconds, when the store is closed, or when the generator is closed.
    """
    with Subscription(store, name, after=after) as subscription:
        while found := subscription.wait(timeout_s):
            for news in found:
                yield from news.entries


# ── the thread of a session ──────────────────────────────────────────────────────────────────────


class _Watch:
    """The thread that follows one session, its position, and its subscriptions."""

    def __init__(self, store: Store, name: str, first: Subscription) -> None:
        self.store = store
        self.name = name
        self.cursor = Cursor(first.cursor.next_seq, first.cursor.pieces)
        self.lock = threading.RLock()
        self._subscriptions = [first]
        self._generation = 0
        self._stop = StopSignal()
        self._is_over = False

    def add(self, subscription: Subscription) -> bool:
        """Add a subscription; return False if the thread is about to end."""
        with self.lock:
            if self._is_over:
                return False
            self._subscriptions.append(subscription)
            given = subscription.cursor
            if given.next_seq < self.cursor.next_seq or (given.pieces is not None and self.cursor.pieces is not None):
                subscription.fall_behind()
            if given.pieces is not None and self.cursor.pieces is None:
                self.cursor.pieces = dict(given.pieces)
                self._generation += 1
                self._stop.set()
            return True

    def remove(self, subscription: Subscription) -> bool:
        """Remove a subscription; return whether it was the last one, so that the thread ends."""
        with self.lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
            if not self._subscriptions:
                self._is_over = True
                self._stop.set()
            elif all(other.cursor.pieces is None for other in self._subscriptions):
                self.cursor.pieces = None
            return self._is_over

    def go_back_to(self, next_seq: int) -> None:
        """Follow from an earlier seq if the log ends before the position: a subscription may begin behind its end."""
        if next_seq < self.cursor.next_seq:
            self.cursor.next_seq = next_seq
            self._generation += 1
            self._stop.set()

    def catch_up(self, store: Store) -> None:
        """Read what is new now, for all subscriptions. The caller holds the lock."""
        self._accept(self.cursor.follow(store, self.name))

    def _accept(self, result: FollowResult) -> bool:
        """Give the news of a result to the subscriptions; return whether there were any."""
        before = self.cursor.next_seq
        news = self.cursor.advance(result)
        if not news.is_empty:
            self._generation += 1
            self._give(news)
        return self.cursor.next_seq > before or bool(result.pieces)

    def run(self) -> None:
        """Follow the session until the last subscription is closed, or the store is."""
        failures = torn_reads = 0
        while (position := self._position()) is not None:
            generation, cursor = position
            try:
                result = cursor.follow(self.store, self.name, timeout_s=_WAIT_S, stop=self._stop)
            except StoreClosed:
                self._end(None)
                return
            except WakelogError as error:
                failures += 1
                self._fail(error, generation)
                self._stop.pause(min(retry_pause_s(failures), _RETRY_MAX_S))
                continue
            except BaseException as error:  # noqa: BLE001 - a store may be any code; the subscribers raise the error
                self._end(error)
                return
            if failures:
                failures = 0
                self._give(News())
            with self.lock:
                is_progress = generation != self._generation or self._accept(result)
            torn_reads = 0 if is_progress or not result.lines else torn_reads + 1
            if torn_reads:
                self._stop.pause(min(_TORN_FIRST_S * 2**torn_reads, _TORN_MAX_S))

    def _position(self) -> tuple[int, Cursor] | None:
        """Return the generation and a copy of the position; None if the thread has to end."""
        self._stop.clear()
        with self.lock:
            if self._is_over:
                return None
            return self._generation, Cursor(self.cursor.next_seq, self.cursor.pieces)

    def _give(self, news: News) -> None:
        with self.lock:
            for subscription in self._subscriptions:
                subscription.push(news)

    def _fail(self, error: BaseException, generation: int | None = None) -> None:
        """Give an error to the subscriptions, unless another read has succeeded since the failed one began."""
        with self.lock:
            if generation in (None, self._generation):
                for subscription in self._subscriptions:
                    subscription.fail(error)

    def _end(self, error: BaseException | None) -> None:
        with _REGISTRY.lock:
            _REGISTRY.forget(self)
            with self.lock:
                self._is_over = True
                if error is not None:
                    self._fail(error)
                for subscription in self._subscriptions:
                    subscription.end()


class _Registry:
    """The threads of this process, by store and session. A thread keeps its store alive, so its id is unique."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start without threads, also in a forked process: the threads of the parent are not in it."""
        self.lock = threading.RLock()
        self.watches: dict[tuple[int, str], _Watch] = {}

    def forget(self, watch: _Watch) -> None:
        """Remove a thread that ends."""
        key = id(watch.store), watch.name
        if self.watches.get(key) is watch:
            del self.watches[key]


_REGISTRY = _Registry()
os.register_at_fork(after_in_child=_REGISTRY.begin)


def _join(subscription: Subscription) -> _Watch:
    """Add a subscription to the thread of its session; start the thread if there is none."""
    store = without_retries(subscription.store)
    key = id(store), subscription.name
    with _REGISTRY.lock:
        watch = _REGISTRY.watches.get(key)
        if watch is None or not watch.add(subscription):
            watch = _REGISTRY.watches[key] = _Watch(store, subscription.name, subscription)
            threading.Thread(target=watch.run, name="wakelog-watcher", daemon=True).start()
        return watch


def _leave(watch: _Watch, subscription: Subscription) -> None:
    with _REGISTRY.lock:
        if watch.remove(subscription):
            _REGISTRY.forget(watch)
