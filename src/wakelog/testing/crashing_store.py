"""A store that simulates a crash of its process before or after the nth write; every later call fails.

The underlying store keeps its content, as a disk outlives a process. Only writes are counted (a crash between two
reads equals a crash before the next write). `SimulatedCrash` is not an `Exception`, so that code which handles
errors of stores or tools cannot continue after it. A test catches it and continues with another store object on the
same storage.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

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

_Result = TypeVar("_Result")


class SimulatedCrash(BaseException):
    """The simulated process has ended."""


class SimulatedProcess:
    """The number of writes of a simulated process, and the write at which it ends."""

    def __init__(self, dies_at: int | None, *, after: bool) -> None:
        self.writes = 0
        self.is_over = False
        self._dies_at = dies_at
        self._after = after

    def read(self) -> None:
        """Raise `SimulatedCrash` if the process has ended."""
        if self.is_over:
            raise SimulatedCrash

    def write(self, act: Callable[[], _Result]) -> _Result:
        """Perform one write; raise `SimulatedCrash` before or after it if it is the last one."""
        self.read()
        is_last = self.writes == self._dies_at
        self.writes += 1
        if is_last and not self._after:
            self.end()
        result = act()
        if is_last:
            self.end()
        return result

    def end(self) -> None:
        """End the process: raise `SimulatedCrash` now and on every later call."""
        self.is_over = True
        raise SimulatedCrash


class CrashingStore:
    """A store used by a process that ends at write number `dies_at`, counted from 0; None: never."""

    def __init__(self, store: Store, *, dies_at: int | None = None, after: bool = False) -> None:
        self.life = SimulatedProcess(dies_at, after=after)
        self._store = store
        self._blobs = _CrashingBlobs(store.blobs, self.life)

    # ── writes ───────────────────────────────────────────────────────────────────────────────────

    def create(
        self, session: str, agent: str, sender: str, first_line: Callable[[int], bytes], more: Sequence[bytes] = ()
    ) -> str:
        """See `ports.Store`."""
        return self.life.write(lambda: self._store.create(session, agent, sender, first_line, more))

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
        return self.life.write(
            lambda: self._store.append(session, body, after=after, behind=behind, fence=fence, durable=durable)
        )

    def adopt(self, session: str, name: str, raw: bytes, *, size: int = 0) -> str:
        """See `ports.Store`."""
        return self.life.write(lambda: self._store.adopt(session, name, raw, size=size))

    def acquire(self, session: str, body: bytes, *, after: int, behind: int = 0, holder: str, ttl_s: float) -> Lease:
        """See `ports.Store`."""
        return self.life.write(
            lambda: self._store.acquire(session, body, after=after, behind=behind, holder=holder, ttl_s=ttl_s)
        )

    def renew(self, lease: Lease, *, ttl_s: float) -> None:
        """See `ports.Store`."""
        self.life.write(lambda: self._store.renew(lease, ttl_s=ttl_s))

    def release(self, lease: Lease) -> None:
        """See `ports.Store`."""
        self.life.write(lambda: self._store.release(lease))

    def journal(self, session: str, reply_id: str, piece: bytes, *, fence: int | None = None) -> None:
        """See `ports.Store`."""
        self.life.write(lambda: self._store.journal(session, reply_id, piece, fence=fence))

    def drop(self, session: str, reply_id: str) -> None:
        """See `ports.Store`."""
        self.life.write(lambda: self._store.drop(session, reply_id))

    def set_title(self, session: str, title: str) -> None:
        """See `ports.Store`."""
        self.life.write(lambda: self._store.set_title(session, title))

    # ── reads ────────────────────────────────────────────────────────────────────────────────────

    def first_lines(self, stem: str) -> Iterator[FirstLine]:
        """See `ports.Store`."""
        self.life.read()
        return self._store.first_lines(stem)

    def load(self, session: str, *, after: int = -1) -> Iterator[Line]:
        """See `ports.Store`."""
        self.life.read()
        return self._store.load(session, after=after)

    def tail(self, session: str) -> Iterator[Line]:
        """See `ports.Store`."""
        self.life.read()
        return self._store.tail(session)

    def sessions(self) -> Iterator[SessionStat]:
        """See `ports.Store`."""
        self.life.read()
        return self._store.sessions()

    def name(self, session: str) -> str:
        """See `ports.Store`."""
        self.life.read()
        return self._store.name(session)

    def held(self, session: str) -> Lease | None:
        """See `ports.Store`."""
        self.life.read()
        return self._store.held(session)

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
        self.life.read()
        return self._store.follow(session, after=after, pieces=pieces, timeout_s=timeout_s, stop=stop)

    def journals(self, session: str) -> Mapping[str, Iterable[bytes]]:
        """See `ports.Store`."""
        self.life.read()
        return self._store.journals(session)

    def custody(self, session: str | None = None, *, blobs: Iterable[str] = ()) -> tuple[Exposure, ...]:
        """See `ports.Store`."""
        self.life.read()
        return self._store.custody(session, blobs=blobs)

    @property
    def blobs(self) -> Blobs:
        """See `ports.Store`."""
        return self._blobs

    def close(self) -> None:
        """See `ports.Store`. Does nothing after the end of the process."""
        if not self.life.is_over:
            self._store.close()


class _CrashingBlobs:
    """The blobs of the same process."""

    def __init__(self, blobs: Blobs, life: SimulatedProcess) -> None:
        self._blobs = blobs
        self._life = life

    def put(self, content: bytes, media_type: str = "") -> BlobRef:
        """See `ports.Blobs`."""
        return self._life.write(lambda: self._blobs.put(content, media_type))

    def get(self, ref: BlobRef) -> bytes:
        """See `ports.Blobs`."""
        self._life.read()
        return self._blobs.get(ref)

    def check(self, ref: BlobRef) -> None:
        """See `ports.Blobs`."""
        self._life.read()
        self._blobs.check(ref)

    def stored(self) -> Iterator[StoredBlob]:
        """See `ports.Blobs`."""
        self._life.read()
        return self._blobs.stored()

    def remove(self, digest: str, *, older_than_s: float) -> bool:
        """See `ports.Blobs`."""
        return self._life.write(lambda: self._blobs.remove(digest, older_than_s=older_than_s))

    def tidy(self, *, older_than_s: float, dry_run: bool = False) -> int:
        """See `ports.Blobs`."""
        return self._life.write(lambda: self._blobs.tidy(older_than_s=older_than_s, dry_run=dry_run))
