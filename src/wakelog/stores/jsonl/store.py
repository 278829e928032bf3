"""JSONL store, the default: one append-only file for each session, readable with `tail`, `grep` and `jq`.

    DIR/{agent}_{sender}_{n}.jsonl     the logs
    DIR/by-id/ID        → ../NAME.jsonl   derived
    DIR/by-title/TITLE--NAME → ../NAME.jsonl   derived
    DIR/.locks/NAME.lock, NAME.lease   append lock and lease
    DIR/.journals/NAME/REPLY           replies in progress
    DIR/.blobs/AB/AB…                  content that is too large for a line

Rule 1: an append is one write to an `O_APPEND` file under the append lock, synced if the caller requests it. After a
failed write or sync the descriptor is closed and never synced again, and the log is in doubt: before the next append
its bytes are written and synced again (`stores/files.py`).
Rule 2: written bytes are never changed (law 1, append-only). A torn tail stays in place; the next line begins after an
LF.
Rule 3: reading never writes (law 9): it creates no folder and no lock file.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from wakelog.errors import Conflict, LeaseLost, TooManyOpenFiles
from wakelog.log.integrity import LogEnd, can_append_after, find_appended, sealed_lines
from wakelog.log.lines import Line, lines_after, split_lines
from wakelog.log.seal import find_seal, find_seq
from wakelog.ports.stores import (
    Exposure,
    FirstLine,
    FollowResult,
    Lease,
    SealedLine,
    SessionStat,
    StopSignal,
)
from wakelog.stores import file_events, load
from wakelog.stores.file_events import watching_paths
from wakelog.stores.files import storage, storage_error, write_all
from wakelog.stores.followers import Followers
from wakelog.stores.group_commit import Group, GroupCommit, GroupFailed
from wakelog.stores.jsonl.blob_files import BlobFiles
from wakelog.stores.jsonl.folder import LOG_SUFFIX, Folder, blocks, lines_backwards
from wakelog.stores.jsonl.journal_files import JournalFiles
from wakelog.stores.jsonl.log_locks import LeaseFiles, OpenLog, OpenLogs
from wakelog.stores.jsonl.session_names import SessionNames
from wakelog.stores.locking import DEFAULT_WAIT, LockWait
from wakelog.stores.ownership import Owners

if TYPE_CHECKING:
    from wakelog.stores.jsonl.file_sync import FileSync

# How long a follower waits before it looks at the sizes of its files again: with file events, and without them.
_LOOK_S = 1.0
_POLL_S = 0.05
# Loaded on first use: appends to one session at a time do not need it.
_FILE_SYNC = "wakelog.stores.jsonl.file_sync"


class JsonlStore:
    """Sessions as files in one folder. `now` returns seconds since boot, for leases.

    `sync`: how appends to several sessions are made durable: file by file, or by a sync of the whole file system, which
    is faster unless other programs write a lot there. `trusted_owners`: other users and groups whose files may be run,
    such as `("ada", "uid:1000", "group:agents")`; see `custody`. `lock_wait`: the limit on waits for other processes.
    """

    def __init__(
        self,
        path: str,
        *,
        now: Callable[[], float] | None = None,
        sync: Literal["file", "filesystem"] = "file",
        trusted_owners: Owners = (),
        lock_wait: LockWait = DEFAULT_WAIT,
    ) -> None:
        self.folder = Folder(path, trusted_owners, lock_wait=lock_wait)
        self._leases = LeaseFiles(self.folder, now=now)
        self._logs = OpenLogs(self.folder)
        self._naming = SessionNames(self.folder)
        self._journals = JournalFiles(self.folder)
        self._blobs = BlobFiles(self.folder)
        self._followers = Followers()
        self._commits: GroupCommit[int, OSError | None] = GroupCommit()
        self._syncs: FileSync | None = load(_FILE_SYNC).FilesystemSync() if sync == "filesystem" else None

    # ── creating and finding ─────────────────────────────────────────────────────────────────────

    def create(
        self, session: str, agent: str, sender: str, first_line: Callable[[int], bytes], more: Sequence[bytes] = ()
    ) -> str:
        """See `ports.Store`."""
        return self._naming.create(session, agent, sender, lambda number: sealed_lines((first_line(number), *more)))

    def name(self, session: str) -> str:
        """See `ports.Store`."""
        return self._naming.name(session)

    def listed_once(self) -> contextlib.AbstractContextManager[None]:
        """See `ports.ListsOnce`."""
        return self._naming.listed_once()

    def first_lines(self, stem: str) -> Iterator[FirstLine]:
        """See `ports.Store`."""
        return self._naming.first_lines(stem)

    def set_title(self, session: str, title: str) -> None:
        """See `ports.Store`."""
        self._naming.set_title(self.name(session), title)

    def relink(self, titles: Mapping[str, str]) -> list[str]:
        """Create missing links in `by-id/` and `by-title/`; `titles` are by session name. Returns the new paths."""
        return self._naming.relink(titles)

    def sessions(self) -> Iterator[SessionStat]:
        """See `ports.Store`."""
        for entry in self.folder.log_names():
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            self.folder.custody.notice(entry.path, found)
            yield SessionStat(entry.name.removesuffix(LOG_SUFFIX), found.st_size, found.st_mtime_ns)

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
    ) -> SealedLine:
        """See `ports.Store`."""
        name = self.name(session)
        with self._logs.append_lock(name) as log:
            if fence is not None:
                self._check_fence(name, fence)
            return self._append(name, log, body, after=after, behind=behind, durable=durable)

    def adopt(self, session: str, name: str, raw: bytes, *, size: int = 0) -> str:
        """See `ports.Store`."""
        made = None if size else self._naming.adopt(session, name, raw)
        if made is not None:
            return made
        name = self.name(session)
        with self._logs.append_lock(name) as log:
            if log.size != size:
                raise Conflict(f"{name} has {log.size:,} bytes in this store, not {size:,}")
            if log.doubt is not None:
                self._logs.resolve_doubt(name, log)
            self._write(name, log, raw, durable=True)
        return name

    def _append(self, name: str, log: OpenLog, body: bytes, *, after: int, behind: int, durable: bool) -> SealedLine:
        if log.doubt is not None:
            self._logs.resolve_doubt(name, log)
        end = log.end = self._caught_up(log)
        if not can_append_after(end, after=after, torn_bytes=behind):
            stored = find_appended(body, self._lines_after(log.log, end.size, after), after=after)
            if stored is None:
                raise Conflict(f"{name} already has entry {end.seq}")
            if durable:
                self._sync(name, log)
            return SealedLine(*stored)
        written = end.seal(body)
        self._write(name, log, written, durable=durable)
        seq = end.advance(written)
        log.end, log.size = end, end.size
        if durable:
            log.synced = end.size
        raw = written.strip(b"\n")
        return SealedLine(seq, Line(raw, end.size - len(raw) - 1))

    def _write(self, name: str, log: OpenLog, raw: bytes, *, durable: bool) -> None:
        # The end of the log is unknown until the bytes are written and synced.
        log.end = None
        try:
            write_all(log.log, raw)
        except OSError as error:
            log.fail()
            raise storage_error(f"append to {name}", error) from error
        if durable:
            self._sync(name, log)

    def _sync(self, name: str, log: OpenLog) -> None:
        try:
            error = self._commits.submit(log.log, self._sync_group)
        except GroupFailed:
            error = OSError(errno.EINTR, "the sync was interrupted")
        except BaseException:
            # The result of the sync is lost, and a second one might not report the same error.
            log.fail()
            raise
        if error is not None:
            log.fail()
            raise storage_error(f"make the last entry of {name} durable", error) from error

    def _sync_group(self, group: Group[int, OSError | None]) -> Sequence[OSError | None]:
        """Sync the logs of several threads, each of which holds the append lock of its log; return the errors."""
        logs = group.take()
        if len(logs) > 1 and (syncs := self._loaded_syncs()) is not None:
            return syncs.sync(logs)
        return [_fdatasync(log) for log in logs]

    def _loaded_syncs(self) -> "FileSync | None":
        """The way to sync many files at once; None if it cannot be loaded, as in a process without free descriptors."""
        if self._syncs is None:
            with contextlib.suppress(ImportError, OSError):
                self._syncs = load(_FILE_SYNC).open_file_sync()
        return self._syncs

    def _caught_up(self, log: OpenLog) -> LogEnd:
        """The current end of the log. New lines are trusted if they are sealed; else the log is read from its start."""
        if log.end is not None and log.end.size == log.size:
            return log.end
        # Bytes after a last line without LF belong to that line, so the line is read again.
        previous, log.end = log.end, None
        is_good = previous is not None and previous.size < log.size and not previous.lacks_newline
        known = previous if is_good else _last_sealed(log.log, log.size)
        end = known or LogEnd()
        for line in split_lines(blocks(log.log, end.size, log.size), offset=end.size):
            if known is not None and line.ended and find_seal(line.raw) is None:
                return self._from_start(log.log, log.size)
            end.add(line)
        return end

    def _from_start(self, descriptor: int, size: int) -> LogEnd:
        end = LogEnd()
        for line in split_lines(blocks(descriptor, 0, size)):
            end.add(line)
        return end

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def load(self, session: str, *, after: int = -1) -> Iterator[Line]:
        """See `ports.Store`."""
        name = self.name(session)
        if self._is_read(name, after):
            return
        with self._reading(name) as (log, size):
            yield from self._lines_after(log, size, after)

    def _is_read(self, name: str, seq: int) -> bool:
        """Whether the log is known to end with this seq. Opens nothing: every decision asks for new entries."""
        try:
            size = os.lstat(self.folder.log_path(name)).st_size
        except OSError:
            # Opening the log reports it.
            return False
        return self._logs.known_to_end(name, size, seq)

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
            yield from split_lines(blocks(log, 0, size))
            return
        last: int | None = None
        for line in lines_backwards(log, size):
            seq = find_seq(line.raw)
            if seq is None and line.ended:
                break
            if seq is not None and line.ended:
                last = seq if last is None else last
                if seq <= after:
                    start = line.offset + len(line.raw) + 1 if last >= after else size
                    yield from split_lines(blocks(log, start, size), offset=start, number=0)
                    return
        # Some of the last lines have no seq: their places are known only by counting from the start.
        yield from lines_after(split_lines(blocks(log, 0, size)), after)

    # ── leases ───────────────────────────────────────────────────────────────────────────────────

    def acquire(self, session: str, body: bytes, *, after: int, behind: int = 0, holder: str, ttl_s: float) -> Lease:
        """See `ports.Store`."""
        name = self.name(session)
        with self._logs.append_lock(name) as log:
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
        with self._logs.append_lock(name):
            self._check_fence(name, lease.fence)
            self._leases.write(name, lease, ttl_s)

    def release(self, lease: Lease) -> None:
        """See `ports.Store`."""
        name = self.name(lease.session)
        with self._logs.append_lock(name):
            record = self._leases.read(name)
            if record is not None and record.fence == lease.fence:
                self._leases.end(name, record)

    def held(self, session: str) -> Lease | None:
        """See `ports.Store`."""
        record = self._leases.in_force(self.name(session))
        return Lease(session, record.holder, record.fence) if record else None

    def _check_fence(self, name: str, fence: int) -> None:
        try:
            record = self._leases.read(name)
        except TooManyOpenFiles:
            # The logs that stay open may have all the descriptors.
            self._logs.close()
            record = self._leases.read(name)
        if record is None or record.fence != fence:
            raise LeaseLost(f"another worker has taken over {name}")

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
        """See `ports.Store`. The log is read when its size changes, journals when they change."""
        name = self.name(session)
        if timeout_s <= 0:
            return self._news(name, after, pieces)
        with self._followers.waiting(timeout_s, stop) as follower, watching_paths(follower.wake) as watches:
            seen: object = None
            while True:
                is_watched = watches.set(self._followed_paths(name, with_journals=pieces is not None))
                state = self._followed_state(name, with_journals=pieces is not None)
                news = self._news(name, after, pieces) if state != seen else FollowResult()
                if news.lines or news.pieces or follower.is_over:
                    return news
                seen = state
                follower.wait(_LOOK_S if is_watched else _POLL_S)

    def _news(self, name: str, after: int, pieces: Mapping[str, int] | None) -> FollowResult:
        # A piece is written after the entries it refers to. Reading the log second ensures that they are found.
        fresh = () if pieces is None else tuple(self._journals.read_new(name, pieces))
        return FollowResult(tuple(self.load(name, after=after)), fresh)

    def _followed_paths(self, name: str, *, with_journals: bool) -> dict[str, int]:
        """The paths that change with the log and its journals, with the events to watch for."""
        log = {self.folder.log_path(name): file_events.MODIFIED}
        return log | self._journals.watched_paths(name) if with_journals else log

    def _followed_state(self, name: str, *, with_journals: bool) -> tuple[object, ...]:
        """A value that changes with the log and its journals, found without reading them."""
        with storage(f"follow {name}"):
            size = os.stat(self.folder.log_path(name), follow_symlinks=False).st_size
        return size, self._journals.sizes(name) if with_journals else ()

    def journal(self, session: str, reply_id: str, piece: bytes, *, fence: int | None = None) -> None:
        """See `ports.Store`."""
        name = self.name(session)
        if fence is None:
            self._journals.add(name, reply_id, piece)
            return
        with self._logs.append_lock(name):
            self._check_fence(name, fence)
            self._journals.add(name, reply_id, piece)

    def journals(self, session: str) -> Mapping[str, Iterable[bytes]]:
        """See `ports.Store`."""
        return self._journals.read(self.name(session))

    def drop(self, session: str, reply_id: str) -> None:
        """See `ports.Store`."""
        self._journals.drop(self.name(session), reply_id)

    @property
    def blobs(self) -> BlobFiles:
        """See `ports.Store`."""
        return self._blobs

    def custody(self, session: str | None = None, *, blobs: Iterable[str] = ()) -> tuple[Exposure, ...]:
        """See `ports.Store`. Checks the folders, the log, its lock, lease and journals, and the blobs."""
        name = None if session is None else self.name(session)
        beside = () if name is None else (*self._leases.files(name), *self._journals.files(name))
        return tuple(self.folder.exposures((*beside, *self._blobs.files(blobs)), log=name))

    def close(self) -> None:
        """See `ports.Store`."""
        self._followers.close()
        self._logs.close()
        self._naming.forget()
        if self._syncs is not None:
            self._syncs.close()


def _fdatasync(log: int) -> OSError | None:
    """Sync the content of one log; return the error, or None."""
    try:
        os.fdatasync(log)
    except OSError as error:
        return error
    return None


def _last_sealed(descriptor: int, size: int) -> LogEnd | None:
    """The end after the last complete line, if that line has a seal and a seq; else None."""
    for line in lines_backwards(descriptor, size):
        if not line.ended:
            continue
        if find_seal(line.raw) is None or find_seq(line.raw) is None:
            return None
        end = LogEnd()
        end.add(line)
        return end
    return None
