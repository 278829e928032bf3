"""Memory store: keeps logs, journals and blobs in memory. It is the reference for the other stores.

It implements all of `ports.Store` and `ports.Blobs` except durability: nothing outlives the process. Blobs are checked
against their digest on read, as in the other stores, so that one suite can test all of them.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from wakelog.errors import BadId, Conflict, Damaged, LeaseLost, NotFound, UsageError
from wakelog.log.content import BlobRef
from wakelog.log.ids import checked_id, digest_of
from wakelog.log.integrity import LogEnd, can_append_after, find_appended, sealed_lines
from wakelog.log.lines import Line, lines_after, split_lines
from wakelog.log.session_names import checked_name, is_name, name_stem, split_name
from wakelog.ports.stores import (
    Exposure,
    FirstLine,
    FollowResult,
    JournalPiece,
    Lease,
    SealedLine,
    SessionStat,
    StopSignal,
    StoredBlob,
    missing_blob,
)
from wakelog.stores.followers import Followers
from wakelog.stores.session_numbers import last_old_number


class _StoredContent(msgspec.Struct):
    content: bytes
    put_at: float


class MemoryBlobs:
    """Blobs by digest. `now` is the clock of their ages, in seconds."""

    def __init__(self, *, now: Callable[[], float]) -> None:
        self._now = now
        self._kept: dict[str, _StoredContent] = {}
        self._lock = threading.Lock()

    def put(self, content: bytes, media_type: str = "") -> BlobRef:
        """See `ports.Blobs`."""
        digest = digest_of(content)
        with self._lock:
            self._kept[digest] = _StoredContent(bytes(content), self._now())
        return BlobRef(digest=digest, bytes=len(content), media_type=media_type)

    def get(self, ref: BlobRef) -> bytes:
        """See `ports.Blobs`."""
        with self._lock:
            kept = self._kept.get(ref.digest)
        if kept is None:
            raise missing_blob(ref.digest, "this memory store")
        if len(kept.content) != ref.bytes or digest_of(kept.content) != ref.digest:
            raise Damaged(f"the blob {ref.digest} does not match its digest", hint="put the bytes again")
        return kept.content

    def check(self, ref: BlobRef) -> None:
        """See `ports.Blobs`."""
        self.get(ref)

    def stored(self) -> Iterator[StoredBlob]:
        """See `ports.Blobs`."""
        with self._lock:
            found = [StoredBlob(digest, len(kept.content), self._age_s(kept)) for digest, kept in self._kept.items()]
        return iter(found)

    def remove(self, digest: str, *, older_than_s: float) -> bool:
        """See `ports.Blobs`."""
        with self._lock:
            kept = self._kept.get(digest)
            if kept is None or self._age_s(kept) < older_than_s:
                return False
            del self._kept[digest]
            return True

    def tidy(self, *, older_than_s: float, dry_run: bool = False) -> int:  # noqa: ARG002 - there are no drafts
        """See `ports.Blobs`. Always 0: a put leaves nothing behind in memory."""
        return 0

    def _age_s(self, kept: _StoredContent) -> float:
        return max(0.0, self._now() - kept.put_at)


class _Log(msgspec.Struct):
    id: str
    data: bytearray
    end: LogEnd
    lease: Lease | None = None
    expires: float = 0.0
    journals: dict[str, list[bytes]] = {}


class MemoryStore:
    """Sessions in memory. `now` is the clock of leases and blob ages, in seconds."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._logs: dict[str, _Log] = {}
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._followers = Followers()
        self._blobs = MemoryBlobs(now=now)

    @property
    def _changing(self) -> "threading.RLock":
        """Held while the store is read or changed; `UsageError` in a forked child, whose copy would end with it."""
        if self._pid != os.getpid():
            hint = "open a store on disk, such as sqlite:FILE, anew in each process"
            raise UsageError("this memory store belongs to the parent process", hint=hint)
        return self._lock

    def create(
        self, session: str, agent: str, sender: str, first_line: Callable[[int], bytes], more: Sequence[bytes] = ()
    ) -> str:
        """See `ports.Store`."""
        checked_id(session)
        with self._changing:
            for name, log in self._logs.items():
                if log.id == session:
                    return name
            stem = name_stem(agent, sender)
            number = 1 + (self._last(stem) or last_old_number(self.first_lines, agent, sender))
            name = f"{stem}{number}"
            self._logs[name] = _Log(session, bytearray(sealed_lines((first_line(number), *more))), LogEnd())
            return name

    def first_lines(self, stem: str) -> Iterator[FirstLine]:
        """See `ports.Store`."""
        for _, name in sorted(self._numbers(stem), reverse=True):
            yield FirstLine(name, bytes(self._logs[name].data.partition(b"\n")[0]))

    def _numbers(self, stem: str) -> Iterator[tuple[int, str]]:
        """The number and name of every session whose name is `stem` and a number."""
        for name in list(self._logs):
            found, number = split_name(name)
            if found == stem and number is not None:
                yield number, name

    def _last(self, stem: str) -> int:
        return max((number for number, _ in self._numbers(stem)), default=0)

    def adopt(self, session: str, name: str, raw: bytes, *, size: int = 0) -> str:
        """See `ports.Store`."""
        checked_id(session)
        with self._changing:
            if not size and all(log.id != session for log in self._logs.values()):
                name = self._free_name(checked_name(name))
                self._logs[name] = _Log(session, bytearray(), LogEnd())
            log = self._log(session)
            if len(log.data) != size:
                raise Conflict(f"the session has {len(log.data):,} bytes in this store, not {size:,}")
            log.data += raw
            self._followers.wake()
            return self.name(session)

    def _free_name(self, name: str) -> str:
        stem, _ = split_name(name)
        return f"{stem}{self._last(stem) + 1}" if name in self._logs else name

    def replace(self, session: str, name: str, raw: bytes = b"") -> None:
        """Replace the log of a name with these bytes, or create it. For replay and tests."""
        with self._changing:
            self._logs[name] = _Log(checked_id(session), bytearray(raw), LogEnd())

    def plant(self, session: str, raw: bytes) -> None:
        """Add raw bytes to a log without sealing them, as another program would. For replay and tests."""
        with self._changing:
            self._log(session).data += raw
            self._followers.wake()

    def append(
        self,
        session: str,
        body: bytes,
        *,
        after: int,
        behind: int = 0,
        fence: int | None = None,
        durable: bool = True,  # noqa: ARG002 - nothing is synced in memory
    ) -> SealedLine:
        """See `ports.Store`."""
        with self._changing:
            log = self._log(session)
            self._check_fence(log, fence)
            sealed = self._append(log, body, after=after, behind=behind)
            self._followers.wake()
            return sealed

    def _append(self, log: _Log, body: bytes, *, after: int, behind: int) -> SealedLine:
        end = self._end(log)
        if not can_append_after(end, after=after, torn_bytes=behind):
            stored = find_appended(body, self._lines(log, after), after=after)
            if stored is None:
                raise Conflict(f"the session already has entry {end.seq}")
            return SealedLine(*stored)
        written = end.seal(body)
        log.data += written
        raw = written.strip(b"\n")
        return SealedLine(end.advance(written), Line(raw, end.size - len(raw) - 1))

    def _end(self, log: _Log) -> LogEnd:
        if log.end.size != len(log.data):
            log.end = LogEnd()
            for line in split_lines([bytes(log.data)]):
                log.end.add(line)
        return log.end

    def load(self, session: str, *, after: int = -1) -> Iterator[Line]:
        """See `ports.Store`."""
        with self._changing:
            lines = list(self._lines(self._log(session), after))
        return iter(lines)

    def _lines(self, log: _Log, after: int) -> Iterator[Line]:
        return lines_after(split_lines([bytes(log.data)]), after)

    def tail(self, session: str) -> Iterator[Line]:
        """See `ports.Store`."""
        return reversed(list(self.load(session)))

    def sessions(self) -> Iterator[SessionStat]:
        """See `ports.Store`."""
        with self._changing:
            stats = [SessionStat(name, len(log.data), len(log.data)) for name, log in self._logs.items()]
        return iter(stats)

    def name(self, session: str) -> str:
        """See `ports.Store`."""
        by_id = {log.id: name for name, log in self._logs.items()}
        if session in by_id or session in self._logs:
            return by_id.get(session, session)
        if not is_name(session):
            raise BadId(f"not a session id or name: {session[:60]!r}")
        raise NotFound(f"no session {session}")

    def set_title(self, session: str, title: str) -> None:
        """See `ports.Store`. Does nothing: memory cannot be browsed."""

    # ── leases ───────────────────────────────────────────────────────────────────────────────────

    def acquire(self, session: str, body: bytes, *, after: int, behind: int = 0, holder: str, ttl_s: float) -> Lease:
        """See `ports.Store`."""
        with self._changing:
            log = self._log(session)
            if log.lease is not None and log.expires > self._now():
                if self._took(log, body, after, holder):
                    return log.lease
                raise Conflict(f"the session is being run by {log.lease.holder}")
            sealed = self._append(log, body, after=after, behind=behind)
            log.lease, log.expires = Lease(log.id, holder, sealed.seq), self._now() + ttl_s
            self._followers.wake()
            return log.lease

    def _took(self, log: _Log, body: bytes, after: int, holder: str) -> bool:
        """Whether an earlier try of the same call took the lease in force."""
        entry = find_appended(body, self._lines(log, after), after=after)
        return entry is not None and log.lease is not None and (entry[0], holder) == (log.lease.fence, log.lease.holder)

    def renew(self, lease: Lease, *, ttl_s: float) -> None:
        """See `ports.Store`."""
        with self._changing:
            log = self._log(lease.session)
            self._check_fence(log, lease.fence)
            log.expires = self._now() + ttl_s

    def release(self, lease: Lease) -> None:
        """See `ports.Store`."""
        with self._changing:
            log = self._log(lease.session)
            if log.lease == lease:
                log.expires = 0.0

    def held(self, session: str) -> Lease | None:
        """See `ports.Store`."""
        with self._changing:
            log = self._log(session)
            return log.lease if log.lease is not None and log.expires > self._now() else None

    def _check_fence(self, log: _Log, fence: int | None) -> None:
        if fence is not None and (log.lease is None or log.lease.fence != fence):
            raise LeaseLost("another worker has taken over this session")

    # ── following and journals ───────────────────────────────────────────────────────────────────

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
        with self._followers.waiting(timeout_s, stop) as follower:
            seen: object = None
            while True:
                state = self._state(session)
                news = self._news(session, after, pieces) if state != seen else FollowResult()
                if news.lines or news.pieces or follower.is_over:
                    return news
                seen = state
                follower.wait(timeout_s)

    def _state(self, session: str) -> tuple[int, dict[str, int]]:
        """The size of a log and the number of pieces of each of its journals."""
        with self._changing:
            log = self._log(session)
            return len(log.data), {reply_id: len(pieces) for reply_id, pieces in log.journals.items()}

    def _news(self, session: str, after: int, pieces: Mapping[str, int] | None) -> FollowResult:
        with self._changing:
            log = self._log(session)
            journals = {} if pieces is None else log.journals
            fresh = tuple(
                JournalPiece(reply_id, at, journal[at])
                for reply_id, journal in journals.items()
                for at in range((pieces or {}).get(reply_id, 0), len(journal))
            )
            return FollowResult(tuple(self._lines(log, after)), fresh)

    def journal(self, session: str, reply_id: str, piece: bytes, *, fence: int | None = None) -> None:
        """See `ports.Store`."""
        with self._changing:
            log = self._log(session)
            self._check_fence(log, fence)
            log.journals.setdefault(checked_id(reply_id), []).append(piece)
            self._followers.wake()

    def journals(self, session: str) -> Mapping[str, Iterable[bytes]]:
        """See `ports.Store`."""
        with self._changing:
            return {reply_id: tuple(pieces) for reply_id, pieces in self._log(session).journals.items()}

    def drop(self, session: str, reply_id: str) -> None:
        """See `ports.Store`."""
        with self._changing:
            self._log(session).journals.pop(reply_id, None)

    def custody(self, session: str | None = None, *, blobs: Iterable[str] = ()) -> tuple[Exposure, ...]:  # noqa: ARG002
        """See `ports.Store`. Always empty: other users cannot write to the memory of this process."""
        if session is not None:
            self.name(session)
        return ()

    @property
    def blobs(self) -> MemoryBlobs:
        """See `ports.Store`."""
        return self._blobs

    def close(self) -> None:
        """See `ports.Store`."""
        self._followers.close()

    def _log(self, session: str) -> _Log:
        return self._logs[self.name(session)]
