"""Retrying store: a wrapper that repeats store calls that fail with `Unavailable`, for a limited time.

Rule 1: this is the only place where calls to a store are repeated. Only `Unavailable` leads to a retry: no usage
error, conflict, damage or full disk does.
Rule 2: the limit is a few seconds. A run that holds a lease retries until the stop time of that lease instead; then
the call ends in `LeaseLost`, and so does every later one: nothing is written after that.
Rule 3: only idempotent calls are repeated. An append is recognised by the id of its entry, a piece of a journal by
its position.
Rule 4: outages are reported, once when they begin and once when they are over.
Calls block the thread while they wait. A task that can wait without blocking uses `without_retries`.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol, TypeVar

from wakelog.decide.timing import retry_pause_s
from wakelog.errors import LeaseLost, StoreError, Unavailable
from wakelog.log.content import BlobRef
from wakelog.log.lines import Line
from wakelog.ports.stores import (
    Blobs,
    Exposure,
    FirstLine,
    FollowResult,
    Lease,
    SealedLine,
    SessionStat,
    StopSignal,
    Store,
    StoredBlob,
)
from wakelog.stores.locking import earliest_stop
from wakelog.stores.process_identity import seconds_since_boot

RETRY_S = 5.0
"""How long a call is repeated without a lease, in seconds."""
_HINT = "wake the session again when the store answers"
_Result = TypeVar("_Result")


class Uptime(Protocol):
    """The monotonic clock of leases and retries; it counts time during which the machine is suspended."""

    def now(self) -> float:
        """Seconds since a fixed moment."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block the thread."""
        ...


class SystemUptime:
    """This machine's time since boot."""

    def now(self) -> float:
        """See `Uptime`."""
        return seconds_since_boot()

    def sleep(self, seconds: float) -> None:
        """See `Uptime`."""
        time.sleep(seconds)


SYSTEM_UPTIME = SystemUptime()


def without_retries(store: Store) -> Store:
    """The wrapped store of a `RetryingStore`; any other store itself."""
    return store.inner if isinstance(store, RetryingStore) else store


def with_retries(
    store: Store, *, uptime: Uptime = SYSTEM_UPTIME, notice: Callable[[str], None] | None = None
) -> "RetryingStore":
    """A retrying store around a store. Outages are logged as warnings and passed to `notice`.

    A store that is already retrying is not wrapped twice: its inner store gets a new wrapper, with its own lease state
    and, unless `notice` is given, the same notice.
    """
    given_notice = notice or (store.notice if isinstance(store, RetryingStore) else None)
    return RetryingStore(without_retries(store), uptime, given_notice)


def _log_warning(text: str, *, is_told: bool) -> None:
    # Importing logging takes longer than opening a store, and outages are rare.
    import logging  # noqa: PLC0415

    logger = logging.getLogger("wakelog")
    if is_told and not logger.handlers:
        # Without a handler, logging would print every warning to stderr a second time.
        logger.addHandler(logging.NullHandler())
    logger.warning("%s", text)


class RetryingStore:
    """See `ports.Store`. `inner` is the store whose calls are repeated."""

    def __init__(self, inner: Store, uptime: Uptime, notice: Callable[[str], None] | None) -> None:
        self.inner = inner
        self.notice = notice
        self._uptime = uptime
        self._blobs = _RetryingBlobs(inner, self)
        self._lost: LeaseLost | None = None
        self._renew: Callable[[], bool] | None = None
        self._leave_by: float | None = None
        self._pieces: dict[tuple[str, str], int] = {}

    # ── the lease of the calls ───────────────────────────────────────────────────────────────────

    @property
    def lost(self) -> LeaseLost | None:
        """Why the lease of this store is lost; None while it is not."""
        return self._lost

    def set_lease_renewal(self, renew: Callable[[], bool]) -> None:
        """Make later calls under a lease. `renew` tries to renew it and returns whether that succeeded."""
        self._renew = renew

    def limit_retries(self) -> None:
        """Limit retries to the next `RETRY_S` seconds. Called when the run is over, before its last writes."""
        self._leave_by = self._uptime.now() + RETRY_S

    def mark_lease_lost(self, error: LeaseLost) -> None:
        """Mark the lease as lost: every later call raises this error. The first error is kept."""
        self._lost = self._lost or error

    def check(self) -> None:
        """Raise `LeaseLost` if the lease of this store is lost."""
        if self._lost is not None:
            raise LeaseLost(self._lost.message, hint=self._lost.hint) from self._lost

    # ── repeating ────────────────────────────────────────────────────────────────────────────────

    def repeat(self, act: Callable[[], _Result]) -> _Result:
        """Call `act` and return its result; repeat it while the store is unavailable."""
        self.check()
        try:
            return act()
        except Unavailable as error:
            return self.retry(error, act)

    def retry(self, error: Unavailable, act: Callable[[], _Result]) -> _Result:
        """Repeat `act`, which has failed with `error`, until it succeeds or the time is up."""
        tries = 1
        limit = self._limit()
        self.report(f"{error.message}; trying again for {max(0.0, limit - self._uptime.now()):.0f} s")
        while True:
            pause_s = retry_pause_s(tries)
            if self._uptime.now() + pause_s >= limit:
                limit = self._extended(error, limit)
            self._uptime.sleep(pause_s)
            try:
                result = act()
            except Unavailable as next_error:
                error, tries = next_error, tries + 1
                continue
            self.report("the store answers again")
            return result

    def _limit(self) -> float:
        """When to give up. Other leases of this thread count too: their runs are blocked while this call waits."""
        now, stop_at = self._uptime.now(), earliest_stop()
        if self._renew is not None and self._leave_by is None and stop_at is not None:
            return stop_at
        ends = (now + RETRY_S, stop_at, self._leave_by)
        return min(end for end in ends if end is not None)

    def _extended(self, error: Unavailable, limit: float) -> float:
        """A later limit, if the lease can be renewed now; else raises the final error of the call."""
        if self._renew is None:
            raise error
        if self._leave_by is None and self._renew():
            later = self._limit()
            if later > limit:
                return later
        lost = LeaseLost(f"the lease was given up because the store did not answer: {error.message}", hint=_HINT)
        self.mark_lease_lost(lost)
        raise lost from error

    def report(self, text: str) -> None:
        """Report an outage, or its end, to the logger and to `notice`."""
        _log_warning(text, is_told=self.notice is not None)
        if self.notice is not None:
            self.notice(text)

    def _resumed(self, read: Callable[[], Iterator[Line]], *, backwards: bool) -> Iterator[Line]:
        """The lines of a log. After an outage the log is read again and lines already yielded are skipped."""
        lines = self.repeat(read)
        last = -1
        while True:
            try:
                for line in lines:
                    if last < 0 or (line.offset < last if backwards else line.offset > last):
                        last = line.offset
                        yield line
            except Unavailable as error:
                lines = self.retry(error, read)
            else:
                return

    # ── writes ───────────────────────────────────────────────────────────────────────────────────

    def create(
        self, session: str, agent: str, sender: str, first_line: Callable[[int], bytes], more: Sequence[bytes] = ()
    ) -> str:
        """See `ports.Store`."""
        return self.repeat(lambda: self.inner.create(session, agent, sender, first_line, more))

    def append(
        self,
        session: str,
        body: bytes,
        *,
        after: int,
        behind: int = 0,
        fence: int | None = None,
        durable: bool = True,
    ) -> SealedLine:
        """See `ports.Store`."""
        return self.repeat(
            lambda: self.inner.append(session, body, after=after, behind=behind, fence=fence, durable=durable)
        )

    def adopt(self, session: str, name: str, raw: bytes, *, size: int = 0) -> str:
        """See `ports.Store`; not repeated: raw bytes have no id that shows whether they were added."""
        self.check()
        return self.inner.adopt(session, name, raw, size=size)

    def set_title(self, session: str, title: str) -> None:
        """See `ports.Store`."""
        self.repeat(lambda: self.inner.set_title(session, title))

    def acquire(self, session: str, body: bytes, *, after: int, behind: int = 0, holder: str, ttl_s: float) -> Lease:
        """See `ports.Store`."""
        return self.repeat(
            lambda: self.inner.acquire(session, body, after=after, behind=behind, holder=holder, ttl_s=ttl_s)
        )

    def renew(self, lease: Lease, *, ttl_s: float) -> None:
        """See `ports.Store`."""
        self.repeat(lambda: self.inner.renew(lease, ttl_s=ttl_s))

    def release(self, lease: Lease) -> None:
        """See `ports.Store`."""
        self.repeat(lambda: self.inner.release(lease))

    def journal(self, session: str, reply_id: str, piece: bytes, *, fence: int | None = None) -> None:
        """See `ports.Store`. After an unknown outcome the journal is read, and the piece is added only if missing."""
        place = (session, reply_id)
        before = self._pieces.get(place, 0)
        self.check()
        try:
            self.inner.journal(session, reply_id, piece, fence=fence)
        except Unavailable as error:
            self.retry(error, lambda: self._journal_again(session, reply_id, piece, before, fence))
        self._pieces[place] = before + 1

    def _journal_again(self, session: str, reply_id: str, piece: bytes, before: int, fence: int | None) -> None:
        stored = tuple(self.inner.journals(session).get(reply_id, ()))
        if len(stored) == before:
            self.inner.journal(session, reply_id, piece, fence=fence)
        elif len(stored) != before + 1 or stored[-1] != piece:
            raise StoreError(f"the journal of {reply_id} has other pieces than were written to it", hint=_HINT)

    def drop(self, session: str, reply_id: str) -> None:
        """See `ports.Store`."""
        self.repeat(lambda: self.inner.drop(session, reply_id))
        self._pieces.pop((session, reply_id), None)

    # ── reads ────────────────────────────────────────────────────────────────────────────────────

    def first_lines(self, stem: str) -> Iterator[FirstLine]:
        """See `ports.Store`; not repeated: sessions and their numbers may be created meanwhile."""
        return self.inner.first_lines(stem)

    def load(self, session: str, *, after: int = -1) -> Iterator[Line]:
        """See `ports.Store`."""
        return self._resumed(lambda: self.inner.load(session, after=after), backwards=False)

    def tail(self, session: str) -> Iterator[Line]:
        """See `ports.Store`."""
        return self._resumed(lambda: self.inner.tail(session), backwards=True)

    def sessions(self) -> Iterator[SessionStat]:
        """See `ports.Store`; not repeated: sessions may be created meanwhile."""
        return self.inner.sessions()

    def name(self, session: str) -> str:
        """See `ports.Store`."""
        return self.repeat(lambda: self.inner.name(session))

    def held(self, session: str) -> Lease | None:
        """See `ports.Store`."""
        return self.repeat(lambda: self.inner.held(session))

    def follow(
        self,
        session: str,
        *,
        after: int,
        pieces: Mapping[str, int] | None,
        timeout_s: float,
        stop: StopSignal | None = None,
    ) -> FollowResult:
        """See `ports.Store`."""
        return self.repeat(
            lambda: self.inner.follow(session, after=after, pieces=pieces, timeout_s=timeout_s, stop=stop)
        )

    def journals(self, session: str) -> Mapping[str, Iterable[bytes]]:
        """See `ports.Store`."""
        found = self.repeat(lambda: self.inner.journals(session))
        return {reply_id: _RetryingPieces(self, session, reply_id, pieces) for reply_id, pieces in found.items()}

    def custody(self, session: str | None = None, *, blobs: Iterable[str] = ()) -> tuple[Exposure, ...]:
        """See `ports.Store`."""
        return self.repeat(lambda: self.inner.custody(session, blobs=blobs))

    @property
    def blobs(self) -> Blobs:
        """See `ports.Store`."""
        return self._blobs

    def close(self) -> None:
        """See `ports.Store`."""
        self.inner.close()


class _RetryingPieces:
    """The pieces of a journal. After an outage the journal is read again and pieces already yielded are skipped."""

    def __init__(self, store: RetryingStore, session: str, reply_id: str, pieces: Iterable[bytes]) -> None:
        self._store = store
        self._session = session
        self._reply_id = reply_id
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        """Read the journal."""
        given, pieces = 0, self._pieces
        while True:
            try:
                for piece in islice(pieces, given, None):
                    given += 1
                    yield piece
            except Unavailable as error:
                pieces = self._store.retry(error, self._read)
            else:
                return

    def _read(self) -> Iterable[bytes]:
        return self._store.inner.journals(self._session).get(self._reply_id, ())


class _RetryingBlobs:
    """The blobs of the same store."""

    def __init__(self, store: Store, retrying: RetryingStore) -> None:
        self._store = store
        self._repeat = retrying.repeat

    def put(self, content: bytes, media_type: str = "") -> BlobRef:
        """See `ports.Blobs`."""
        return self._repeat(lambda: self._store.blobs.put(content, media_type))

    def get(self, ref: BlobRef) -> bytes:
        """See `ports.Blobs`."""
        return self._repeat(lambda: self._store.blobs.get(ref))

    def check(self, ref: BlobRef) -> None:
        """See `ports.Blobs`."""
        self._repeat(lambda: self._store.blobs.check(ref))

    def stored(self) -> Iterator[StoredBlob]:
        """See `ports.Blobs`; not repeated: blobs may be added or removed meanwhile."""
        return self._store.blobs.stored()

    def remove(self, digest: str, *, older_than_s: float) -> bool:
        """See `ports.Blobs`; not repeated: a second try would report that there is no such blob."""
        return self._store.blobs.remove(digest, older_than_s=older_than_s)

    def tidy(self, *, older_than_s: float, dry_run: bool = False) -> int:
        """See `ports.Blobs`."""
        return self._repeat(lambda: self._store.blobs.tidy(older_than_s=older_than_s, dry_run=dry_run))
