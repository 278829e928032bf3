"""Ports of storage: `Store` (sessions as lines of bytes, leases, journals) and `Blobs` (content-addressed bytes).

A store holds lines. It orders and seals them and returns the same bytes, damaged ones included; it does not interpret
entries beyond that. `stores/memory.py` is the reference implementation, and `wakelog.testing.store_suite` tests every
implementation.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from wakelog.errors import NotFound
from wakelog.log.content import BlobRef
from wakelog.log.ids import is_digest
from wakelog.log.lines import Line

# ── store ────────────────────────────────────────────────────────────────────────────────────────


class SessionStat(msgspec.Struct, frozen=True):
    """A session in a store's listing, read without opening it: name, size, and a value that changes with the log."""

    name: str
    size: int
    changed: int


class FirstLine(msgspec.Struct, frozen=True, gc=False):
    """The name of a session and the bytes of its first line, without LF."""

    name: str
    raw: bytes


class SealedLine(msgspec.Struct, frozen=True, gc=False):
    """An acknowledged append: the assigned seq, and the line as stored."""

    seq: int
    line: Line


class Lease(msgspec.Struct, frozen=True):
    """The right to run a session. `fence` is the seq of the entry that acquired it; it only ever grows."""

    session: str
    holder: str
    fence: int


class JournalPiece(msgspec.Struct, frozen=True):
    """A journal piece of a reply in progress. `offset` is the number of pieces before it."""

    reply_id: str
    offset: int
    raw: bytes


class FollowResult(msgspec.Struct, frozen=True):
    """Result of `follow`: log lines and journal pieces after the positions given by the caller."""

    lines: tuple[Line, ...] = ()
    pieces: tuple[JournalPiece, ...] = ()


class StopSignal:
    """Ends a wait in `Store.follow` from another thread. A store that is closed sets `is_closed` for good."""

    def __init__(self) -> None:
        self.is_closed = False
        self._event = threading.Event()
        self._wake: Callable[[], None] | None = None

    @property
    def is_set(self) -> bool:
        """Whether the wait must end."""
        return self._event.is_set()

    def set(self) -> None:
        """End the current wait, and each later one until `clear`."""
        self._event.set()
        if (wake := self._wake) is not None:
            wake()

    def clear(self) -> None:
        """Allow waits again."""
        self._event.clear()

    def pause(self, seconds: float) -> None:
        """Block the thread for some seconds, or until the signal is set."""
        self._event.wait(seconds)

    @contextlib.contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """For stores: call `wake` when the signal is set inside this block. One block at a time."""
        self._wake = wake
        try:
            yield
        finally:
            self._wake = None


JOURNAL_PIECE_MAX_BYTES = 64 * 1024 * 1024
"""Upper limit for a journal piece. Workers write shorter ones: tool output is split into pieces."""


_MISSING_BLOB_HINT = (
    "copy the session again from a store that has the blob, or open a file made there with `wakelog export -f bundle`"
)


def missing_blob(digest: str, place: str) -> NotFound:
    """Return the error of `Blobs.get` and `Blobs.check` for a blob that the store, at `place`, does not have."""
    shown = digest if is_digest(digest) else repr(digest[:80])
    return NotFound(f"no blob {shown} in {place}", hint=_MISSING_BLOB_HINT)


class Exposure(msgspec.Struct, frozen=True):
    """A file or folder of a store that an untrusted user owns or may write to.

    `reason` completes the sentence "PATH …"; `remedy` is the command that removes the exposure, or empty.
    """

    path: str
    reason: str
    remedy: str = ""
    uid: int = -1
    gid: int = -1
    mode: int = 0


@runtime_checkable
class ListsOnce(Protocol):
    """A store whose lookups list all sessions, and that can do so once for many of them."""

    def listed_once(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the sessions that other programs add by hand need not be found.

        For operations that look up thousands of sessions which do not exist yet.
        """
        ...


class Store(Protocol):
    """Stores sessions as lines of bytes. A session is addressed by its id or its name."""

    def create(
        self, session: str, agent: str, sender: str, first_line: Callable[[int], bytes], more: Sequence[bytes] = ()
    ) -> str:
        """Create a session durably under the next free number of the exact pair (agent, sender); return its name.

        `first_line` gets that number and returns the encoded session header; `more` are encoded entries that are stored
        with it, all or none. Concurrent creators never get the same number. Numbering continues after sessions named by
        an earlier version (`session_names.old_stem`). A session that already exists is left unchanged (ST-7). If
        `first_line` raises, its error is raised and nothing is created; it may be called again with a higher number if
        the first one was taken meanwhile.
        """
        ...

    def first_lines(self, stem: str) -> Iterator[FirstLine]:
        """Yield the first lines of all sessions named `stem` plus a number, highest number first.

        Each is read on demand; no other session is read.
        """
        ...

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
        """Seal an encoded entry and append it as the line after seq `after`.

        `Conflict` if the log no longer ends there, unless this same entry (same id, same bytes) is what was appended:
        it is then returned. An id that already occurs earlier in the log is the caller's error; a store that would have
        to read the whole log to detect it need not. `behind` is the size of the torn tail known to the caller, so that
        none stays undetected. With a `fence`, `LeaseLost` unless it is the current one. Any thread may call this;
        durable appends of several threads may share a sync (`stores/group_commit.py`).
        """
        ...

    def adopt(self, session: str, name: str, raw: bytes, *, size: int = 0) -> str:
        """Add bytes of a log copied from elsewhere, unchanged, after its first `size` bytes; return the name used here.

        With `size` 0 the session is created under this name or, if the name is taken, under the next free number.
        Durable. `Conflict` if the log in this store has another size.
        """
        ...

    def load(self, session: str, *, after: int = -1) -> Iterator[Line]:
        """Yield the lines after seq `after`, in log order."""
        ...

    def tail(self, session: str) -> Iterator[Line]:
        """Yield the lines from the last to the first, without line numbers."""
        ...

    def sessions(self) -> Iterator[SessionStat]:
        """Yield every session, in no particular order, without opening any."""
        ...

    def name(self, session: str) -> str:
        """Return the name of a session; `NotFound` if it does not exist."""
        ...

    def set_title(self, session: str, title: str) -> None:
        """Make a session findable by title for people who browse the storage itself; may do nothing."""
        ...

    def acquire(self, session: str, body: bytes, *, after: int, behind: int = 0, holder: str, ttl_s: float) -> Lease:
        """Append the `activity` entry that acquires the lease. `Conflict` while another holder has the lease."""
        ...

    def renew(self, lease: Lease, *, ttl_s: float) -> None:
        """Extend the lease. `LeaseLost` if another holder has taken over."""
        ...

    def release(self, lease: Lease) -> None:
        """Release the lease; does nothing if it was lost."""
        ...

    def held(self, session: str) -> Lease | None:
        """Return the lease in force, or None."""
        ...

    def follow(
        self,
        session: str,
        *,
        after: int,
        pieces: Mapping[str, int] | None,
        timeout_s: float,
        stop: StopSignal | None = None,
    ) -> FollowResult:
        """Wait until there are lines after `after` or journal pieces beyond the given counts, or until the timeout.

        Of many pieces only the first may be returned; the next call returns the following ones. With `pieces` None
        journals are neither read nor waited for. `stop` ends the wait early. `StoreClosed` if the store is closed
        during the wait, or was closed since its last use with this `stop`.
        """
        ...

    def journal(self, session: str, reply_id: str, piece: bytes, *, fence: int | None = None) -> None:
        """Add a piece to the journal of a reply in progress. Survives a process crash; not synced.

        With a `fence`, `LeaseLost` unless it is the current one, so that two workers never write to one journal.
        """
        ...

    def journals(self, session: str) -> Mapping[str, Iterable[bytes]]:
        """Return the existing journals by reply, as complete pieces; each journal is read in blocks during iteration.

        A journal that is dropped meanwhile may have no pieces. A piece longer than `JOURNAL_PIECE_MAX_BYTES` may be
        returned empty.
        """
        ...

    def drop(self, session: str, reply_id: str) -> None:
        """Remove a journal."""
        ...

    @property
    def blobs(self) -> "Blobs":
        """The blobs of this store: content that is too large for a line."""
        ...

    def custody(self, session: str | None = None, *, blobs: Iterable[str] = ()) -> tuple[Exposure, ...]:
        """Return the files of the store, of a session and of blobs (by digest) that untrusted users own or may write.

        Without a session: the store alone, which need not exist yet. A store whose access is controlled elsewhere, such
        as a database server with its roles, reports nothing. Runs on every wake, never on an append.
        """
        ...

    def close(self) -> None:
        """Close files and connections and end the waits of `follow`; using the store again reopens them."""
        ...


class StoredBlob(msgspec.Struct, frozen=True):
    """A blob in a listing; `age_s` is the time since it was last put."""

    digest: str
    bytes: int
    age_s: float


class Blobs(Protocol):
    """Content-addressed bytes. A blob is written and synced before the entry that refers to it."""

    def put(self, content: bytes, media_type: str = "") -> BlobRef:
        """Store bytes and return their reference; equal bytes are stored once."""
        ...

    def get(self, ref: BlobRef) -> bytes:
        """Return the bytes after checking them against the digest; `NotFound` or `Damaged` if that fails."""
        ...

    def check(self, ref: BlobRef) -> None:
        """Raise what `get` would raise, without returning the content and with as little memory as possible."""
        ...

    def stored(self) -> Iterator[StoredBlob]:
        """Yield every blob, in no particular order."""
        ...

    def remove(self, digest: str, *, older_than_s: float) -> bool:
        """Remove a blob unless it was put more recently than `older_than_s`; return whether it was removed."""
        ...

    def tidy(self, *, older_than_s: float, dry_run: bool = False) -> int:
        """Remove remains of interrupted puts, or with `dry_run` only count them; return their number."""
        ...
