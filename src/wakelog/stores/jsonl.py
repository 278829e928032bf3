"""The default store: one append-only JSONL file a session, readable with `tail`, `grep` and `jq`.

    DIR/{agent}_{sender}_{n}.jsonl     the logs, and nothing else worth keeping
    DIR/by-id/ID        → ../NAME.jsonl   derived
    DIR/by-title/TITLE--NAME → ../NAME.jsonl   derived
    DIR/.locks/NAME.lock, NAME.lease   who may append, who runs it
    DIR/.journals/NAME/REPLY           replies under way

Rule 1: an append is one write to an `O_APPEND` file under the append lock, synced where the caller
asks for it. After a failed sync the descriptor is closed and never synced again: the kernel may have
dropped the very pages it failed to write.
Rule 2: bytes once written stay. A torn tail is left where it is; the next line begins behind an LF.
Rule 3: reading changes nothing, not even by making a folder or a lock file.
"""

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from wakelog.errors import BadId, Conflict, LeaseLost, NotFound, UsageError
from wakelog.log.codec import id_of
from wakelog.log.end import End, already_there, check_place
from wakelog.log.ids import checked_id, is_id, slug
from wakelog.log.lines import Line, lines_after, split
from wakelog.log.seal import seal_of, seq_of
from wakelog.ports import Lease, News, Piece, Sealed, Stat
from wakelog.stores.files import (
    LOG_SUFFIX,
    Folder,
    blocks,
    checked_name,
    lines_backwards,
    storage,
    sync_folder,
    write_all,
)
from wakelog.stores.lease_file import Leases

_OPEN_MAX = 64
_NUMBERS_MAX = 1_000_000
_POLL_S = 0.02
_FIRST_LINE_BYTES = 64 * 1024


class _OpenLog:
    """A log this process appends to: its descriptors, its end as far as known, and a lock among threads."""

    def __init__(self, log: int, lock: int) -> None:
        self.log = log
        self.lock = lock
        self.end: End | None = None
        self.turn = threading.Lock()

    def close(self) -> None:
        for descriptor in (self.log, self.lock):
            with contextlib.suppress(OSError):
                os.close(descriptor)


class JsonlStore:
    """Sessions as files in one folder. `now` counts seconds since boot, for leases."""

    def __init__(self, path: str, *, now: Callable[[], float] | None = None) -> None:
        self.folder = Folder(path)
        self._leases = Leases(self.folder, now=now)
        self._open: dict[str, _OpenLog] = {}
        self._opening = threading.Lock()
        self._names: dict[str, str] = {}
        self._last_number: dict[str, int] = {}

    # ── creating and finding ─────────────────────────────────────────────────────────────────────

    def create(self, session: str, agent: str, sender: str, first_line: Callable[[int], bytes]) -> str:
        """See `ports.Store`."""
        checked_id(session)
        self.folder.make("by-id")
        with contextlib.suppress(NotFound):
            return self._linked_name(session)
        prefix = f"{slug(agent)}_{slug(sender)}_"
        draft = os.path.join(self.folder.path, f".new-{os.getpid()}-{session}")
        for number in range(self._next_number(prefix), _NUMBERS_MAX):
            name = f"{prefix}{number}"
            with storage(f"create a session in {self.folder.path}"):
                self._write_draft(draft, End().seal(first_line(number)))
                self._link_by_id(session, name)
                try:
                    os.link(draft, self.folder.log_path(name))
                except FileExistsError:
                    continue
                finally:
                    os.unlink(draft)
                sync_folder(self.folder.path)
                sync_folder(os.path.join(self.folder.path, "by-id"))
            self._last_number[prefix] = number
            return name
        raise Conflict(f"{prefix}N has no free number left")

    def _next_number(self, prefix: str) -> int:
        if prefix in self._last_number:
            return self._last_number[prefix] + 1
        taken = (entry.name[len(prefix) : -len(LOG_SUFFIX)] for entry in self._entries(prefix))
        return 1 + max((int(number) for number in taken if number.isdigit()), default=0)

    def _entries(self, prefix: str) -> Iterator[os.DirEntry[str]]:
        return (entry for entry in self.folder.log_names() if entry.name.startswith(prefix))

    def _write_draft(self, path: str, content: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _link_by_id(self, session: str, name: str) -> None:
        """Points `by-id` at a name. It may point at a file that is not there yet, or never will be."""
        path = os.path.join(self.folder.path, "by-id", session)
        fresh = f"{path}.{os.getpid()}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        os.symlink(f"../{name}{LOG_SUFFIX}", fresh)
        os.replace(fresh, path)

    def name(self, session: str) -> str:
        """See `ports.Store`. By `by-id` first, then as a name, then by reading the first line of every log."""
        if session in self._names:
            return self._names[session]
        if not is_id(session):
            raise BadId(f"not a session id or name: {session[:60]!r}")
        for way in (self._linked_name, self._plain_name, self._searched_name):
            with contextlib.suppress(NotFound):
                self._names[session] = way(session)
                return self._names[session]
        raise NotFound(f"no session {session} in {self.folder.path}")

    def _linked_name(self, session: str) -> str:
        try:
            target = os.readlink(os.path.join(self.folder.path, "by-id", session))
        except OSError:
            raise NotFound(session) from None
        name = target.removeprefix("../").removesuffix(LOG_SUFFIX)
        if target != f"../{name}{LOG_SUFFIX}" or not is_id(name) or self._id_of(name) not in (session, None):
            raise NotFound(session)
        return self._plain_name(name)

    def _plain_name(self, session: str) -> str:
        os.close(self.folder.open_log(session))
        return session

    def _searched_name(self, session: str) -> str:
        for entry in self.folder.log_names():
            name = entry.name.removesuffix(LOG_SUFFIX)
            if self._id_of(name) == session:
                return name
        raise NotFound(session)

    def _id_of(self, name: str) -> str | None:
        """The session id in a log's first line; None where that cannot be read."""
        with contextlib.suppress(NotFound), self._reading(name) as (log, _):
            first = os.pread(log, _FIRST_LINE_BYTES, 0).partition(b"\n")[0]
            return id_of(first.removeprefix(b"\xef\xbb\xbf"))
        return None

    def sessions(self) -> Iterator[Stat]:
        """See `ports.Store`."""
        for entry in self.folder.log_names():
            with contextlib.suppress(FileNotFoundError):
                found = entry.stat(follow_symlinks=False)
                yield Stat(entry.name.removesuffix(LOG_SUFFIX), found.st_size, found.st_mtime_ns)

    def entitle(self, session: str, title: str) -> None:
        """Keeps `by-title/` in step: a relative link named after the title."""
        name = self.name(session)
        with storage("link the title"):
            folder = self.folder.make("by-title")
            ending = f"--{name}{LOG_SUFFIX}"
            for old in os.listdir(folder):
                if old.endswith(ending):
                    os.unlink(os.path.join(folder, old))
            if title:
                os.symlink(f"../{name}{LOG_SUFFIX}", os.path.join(folder, slug(title) + ending))

    # ── appending ────────────────────────────────────────────────────────────────────────────────

    def append(
        self,
        session: str,
        body: bytes,
        *,
        after: int,
        behind: int = 0,
        fence: int | None = None,
        durable: bool = True,
    ) -> Sealed:
        """See `ports.Store`."""
        name = self.name(session)
        with self._locked(name) as log:
            self._check_fence(name, fence)
            return self._append(name, log, body, after=after, behind=behind, durable=durable)

    def _append(self, name: str, log: _OpenLog, body: bytes, *, after: int, behind: int, durable: bool) -> Sealed:
        end = log.end = self._caught_up(log)
        if not check_place(end, after=after, behind=behind):
            there = already_there(body, list(self._lines_after(log.log, end.size, after)))
            if there is None:
                raise Conflict(f"{name} has moved on to entry {end.seq}")
            self._sync(name, log, durable=durable)
            return Sealed(seq_of(there.raw) or 0, there)
        written = end.seal(body)
        # Until the bytes are written and synced nobody knows where the log ends.
        log.end = None
        with storage(f"append to {name}"):
            write_all(log.log, written)
        self._sync(name, log, durable=durable)
        seq = end.advance(written)
        log.end = end
        raw = written.strip(b"\n")
        return Sealed(seq, Line(raw, end.size - len(raw) - 1))

    def _sync(self, name: str, log: _OpenLog, *, durable: bool) -> None:
        if not durable:
            return
        try:
            os.fdatasync(log.log)
        except OSError:
            with storage(f"make the last entry of {name} durable"):
                self._forget(name, log)
                raise

    def _caught_up(self, log: _OpenLog) -> End:
        """The end of the log as it is now. Sealed lines are taken at their word; else it is read from the start."""
        size = os.fstat(log.log).st_size
        if log.end is not None and log.end.size == size:
            return log.end
        known = log.end if log.end is not None and log.end.size < size else _last_sealed(log.log, size)
        end = known or End()
        for line in split(blocks(log.log, end.size, size), offset=end.size):
            if known is not None and line.ended and seal_of(line.raw) is None:
                return self._from_start(log.log, size)
            end.take(line)
        return end

    def _from_start(self, descriptor: int, size: int) -> End:
        end = End()
        for line in split(blocks(descriptor, 0, size)):
            end.take(line)
        return end

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[_OpenLog]:
        """The append lock: among threads by a lock, among processes by flock."""
        log = self._opened(name)
        with log.turn:
            with storage(f"lock {name}"):
                fcntl.flock(log.lock, fcntl.LOCK_EX)
            try:
                yield log
            finally:
                with contextlib.suppress(OSError):
                    fcntl.flock(log.lock, fcntl.LOCK_UN)

    def _opened(self, name: str) -> _OpenLog:
        with self._opening:
            if name in self._open:
                # A file that was replaced or removed under us must not swallow what is appended.
                if os.fstat(self._open[name].log).st_nlink:
                    return self._open[name]
                self._open.pop(name).close()
            self.folder.make()
            while len(self._open) >= _OPEN_MAX and (idle := self._idle()) is not None:
                self._open.pop(idle).close()
            log = self.folder.open_log(name, write=True)
            with storage(f"lock {name}"):
                lock = self.folder.open_lock(name, make=True)
            assert lock is not None
            self._open[name] = _OpenLog(log, lock)
            return self._open[name]

    def _idle(self) -> str | None:
        return next((name for name, log in self._open.items() if not log.turn.locked()), None)

    def _forget(self, name: str, log: _OpenLog) -> None:
        """Closes a log whose descriptor can no longer be trusted; the next append opens it anew."""
        with self._opening:
            self._open.pop(name, None)
        log.close()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def load(self, session: str, *, after: int = -1) -> Iterator[Line]:
        """See `ports.Store`."""
        with self._reading(self.name(session)) as (log, size):
            yield from self._lines_after(log, size, after)

    def tail(self, session: str) -> Iterator[Line]:
        """See `ports.Store`."""
        with self._reading(self.name(session)) as (log, size):
            yield from lines_backwards(log, size)

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[tuple[int, int]]:
        log = self.folder.open_log(name)
        try:
            with storage(f"read {name}"):
                yield log, self.folder.settled_size(name, log)
        finally:
            os.close(log)

    def _lines_after(self, log: int, size: int, after: int) -> Iterator[Line]:
        if after < 0:
            yield from split(blocks(log, 0, size))
            return
        for line in lines_backwards(log, size):
            seq = seq_of(line.raw)
            if seq is None and line.ended:
                break
            if seq is not None and seq <= after and line.ended:
                start = line.offset + len(line.raw) + 1
                yield from split(blocks(log, start, size), offset=start, number=0)
                return
        # Lines without seq stand at the end: their places are only known by counting from the start.
        yield from lines_after(split(blocks(log, 0, size)), after)

    # ── leases ───────────────────────────────────────────────────────────────────────────────────

    def acquire(self, session: str, body: bytes, *, after: int, behind: int = 0, holder: str, ttl_s: float) -> Lease:
        """See `ports.Store`."""
        name = self.name(session)
        with self._locked(name) as log:
            record = self._leases.in_force(name)
            if record is not None:
                raise Conflict(f"{name} is being run by {record.holder}", hint="wait for it, or stop that process")
            sealed = self._append(name, log, body, after=after, behind=behind, durable=True)
            lease = Lease(session, holder, sealed.seq)
            self._leases.write(name, lease, ttl_s)
            return lease

    def renew(self, lease: Lease, *, ttl_s: float) -> None:
        """See `ports.Store`."""
        name = self.name(lease.session)
        with self._locked(name):
            self._check_fence(name, lease.fence)
            self._leases.write(name, lease, ttl_s)

    def release(self, lease: Lease) -> None:
        """See `ports.Store`."""
        name = self.name(lease.session)
        with self._locked(name):
            record = self._leases.read(name)
            if record is not None and record.fence == lease.fence:
                self._leases.end(name, record)

    def held(self, session: str) -> Lease | None:
        """See `ports.Store`."""
        record = self._leases.in_force(self.name(session))
        return Lease(session, record.holder, record.fence) if record else None

    def _check_fence(self, name: str, fence: int | None) -> None:
        if fence is None:
            return
        record = self._leases.read(name)
        if record is None or record.fence != fence:
            raise LeaseLost(f"another worker has taken {name} over")

    # ── live ─────────────────────────────────────────────────────────────────────────────────────

    def follow(self, session: str, *, after: int, pieces: Mapping[str, int], timeout_s: float) -> News:
        """See `ports.Store`. The file's size is looked at again and again: no watcher is needed for that."""
        deadline = time.monotonic() + timeout_s
        seen = -1
        while True:
            size = os.stat(self.folder.log_path(self.name(session)), follow_symlinks=False).st_size
            lines = tuple(self.load(session, after=after)) if size != seen else ()
            seen = size
            news = News(lines, tuple(self._pieces(session, pieces)))
            left = deadline - time.monotonic()
            if news.lines or news.pieces or left <= 0:
                return news
            time.sleep(min(_POLL_S, left))

    def _pieces(self, session: str, had: Mapping[str, int]) -> Iterator[Piece]:
        for reply_id, journal in self.journals(session).items():
            for at in range(had.get(reply_id, 0), len(journal)):
                yield Piece(reply_id, at, journal[at])

    def journal(self, session: str, reply_id: str, piece: bytes) -> None:
        """See `ports.Store`."""
        if b"\n" in piece:
            raise UsageError("a journal piece is one line")
        folder = self.folder.make(".journals", self.name(session))
        path = os.path.join(folder, checked_name(reply_id))
        with storage(f"write the journal of {reply_id}"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(path, flags, 0o600)
            try:
                write_all(descriptor, piece + b"\n")
            finally:
                os.close(descriptor)

    def journals(self, session: str) -> dict[str, tuple[bytes, ...]]:
        """See `ports.Store`. A piece without its LF was never shown to anybody, and is none."""
        folder = os.path.join(self.folder.path, ".journals", self.name(session))
        found = {}
        try:
            replies = sorted(os.listdir(folder))
        except FileNotFoundError:
            return {}
        for reply_id in replies:
            with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, reply_id), "rb") as file:
                found[reply_id] = tuple(file.read().split(b"\n")[:-1])
        return found

    def drop(self, session: str, reply_id: str) -> None:
        """See `ports.Store`."""
        path = os.path.join(self.folder.path, ".journals", self.name(session), checked_name(reply_id))
        with storage("drop a journal"), contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def close(self) -> None:
        """See `ports.Store`."""
        with self._opening:
            for log in self._open.values():
                log.close()
            self._open.clear()
            self._names.clear()


def _last_sealed(descriptor: int, size: int) -> End | None:
    """The end behind the last line we sealed, if only a torn fragment can follow it."""
    for line in lines_backwards(descriptor, size):
        if not line.ended:
            continue
        if seal_of(line.raw) is None or seq_of(line.raw) is None:
            return None
        end = End()
        end.take(line)
        return end
    return None
