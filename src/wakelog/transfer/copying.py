"""Copy one log and the blobs it names from one store to another: read, compare with the target, send, read back.

Rule 1: the target's log is a prefix of the source's log; otherwise it is a `Conflict` and stays unchanged.
Rule 2: bytes are sent in runs that end at line ends, so that an interrupted copy leaves whole lines. Correctness does
not depend on this: a copy continues at the byte where the target ends, also within a line.
Rule 3: a log is copied up to the size that it had when it was first read, and no further.
Rule 4: each blob is checked against its digest. A missing or damaged one is recorded, and the others are copied.
Rule 5: a blob that the target has is not sent again, unless it is unprotected there: a blob that no log there names yet
and that is not young could be collected before the log that names it has arrived. Putting it again makes it young.
Progress counts each byte of a log three times: read, written, and read back.
"""

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from wakelog.errors import BadId, Conflict, Damaged, NotFound, StoreError, WakelogError
from wakelog.log.content import BlobRef
from wakelog.log.lines import Damage, EntryReader, Line
from wakelog.log.references import LogReferences
from wakelog.ports.stores import Blobs, Store, StoredBlob


class MissingItem(msgspec.Struct, frozen=True):
    """Something that a log names and the source does not have: a blob by its digest, or a session by its id."""

    what: str
    reason: str


class SourceSession(msgspec.Struct):
    """A session as it was first read: its `size`, and how many bytes were `there` in the target under the name `to`.

    `damage` lists its unreadable lines, which are copied unchanged.
    """

    id: str
    name: str
    size: int
    digest: str
    needs: LogReferences
    journals: int
    needed_by: str | None
    there: int
    to: str | None
    damage: tuple[Damage, ...] = ()
    lost: list[MissingItem] = []


class UnreadableSession(Exception):
    """The source failed to read one session; the others may still be readable."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(error.message)
        self.error = error


Progress: TypeAlias = Callable[[int, int], None]
"""Called with the amount done so far, and the total."""
_PASSES = 3


class ProgressMeter:
    """Counts the progress. `finish` also counts work that a session did not need."""

    def __init__(self, progress: Progress | None, sizes: Mapping[str, int]) -> None:
        self._progress = progress
        self._sizes = sizes
        self._left: dict[str, int] = {}
        self._done = self._total = 0

    def expect(self, names: Iterable[str]) -> None:
        """Add sessions to the total."""
        for name in names:
            if name not in self._left:
                self._left[name] = _PASSES * self._sizes.get(name, 0)
                self._total += self._left[name]

    def step(self, name: str, count: int) -> None:
        """Count bytes of a session as done."""
        if self._progress is not None:
            count = min(count, self._left[name])
            self._left[name] -= count
            self._done += count
            self._progress(self._done, self._total)

    def finish(self, name: str) -> None:
        """Count the rest of a session as done."""
        self.step(name, self._left[name])


_RUN_BYTES = 4 * 1024 * 1024
_TRIES_MAX = 1_000


class LogCopy:
    """Copies logs from one store to another."""

    def __init__(self, source: Store, target: Store, meter: ProgressMeter) -> None:
        self._source = source
        self._target = target
        self._meter = meter
        # Looking for a session that is not there may be slow; it is skipped if the target had no sessions.
        self._was_empty = next(iter(target.sessions()), None) is None

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def lines(self, name: str) -> Iterator[Line]:
        """Yield the lines of the source; `UnreadableSession` for an error, which concerns this session only."""
        with _as_unreadable():
            yield from self._source.load(name)

    def read_source(self, session: str, name: str, *, needed_by: str | None) -> SourceSession:
        """Read a log and compare it with the target's. `Conflict` if the target's differs or is longer."""
        with _as_unreadable():
            found = self._source.name(name)
        if found != name:
            raise UnreadableSession(StoreError(f"{name} is also the id of another session, so the name is ambiguous"))
        before = -1
        while True:
            target_log = _TargetLog(
                self._target, session, name, None if self._was_empty else name_in(self._target, session)
            )
            seen = self._read(session, name, needed_by, target_log)
            if not target_log.has_more:
                return seen
            if seen.size == before:
                raise Conflict(
                    f"{name} has more entries in the target store",
                    hint="copy it in the other direction, or leave it out",
                )
            # A concurrent copy may have sent what was added here meanwhile: reading again shows that.
            before = seen.size

    def _read(self, session: str, name: str, needed_by: str | None, target_log: "_TargetLog") -> SourceSession:
        digest, needs, reader = hashlib.sha256(), LogReferences(), EntryReader()
        for line in self.lines(name):
            raw = line.bytes
            target_log.compare(raw)
            digest.update(raw)
            needs.add(line)
            reader.feed(line)
            self._meter.step(name, len(raw))
        with _as_unreadable():
            journals = len(self._source.journals(name))
        return SourceSession(
            id=session,
            name=name,
            size=needs.size,
            digest=f"sha256:{digest.hexdigest()}",
            needs=needs,
            journals=journals,
            needed_by=needed_by,
            there=target_log.size,
            to=target_log.name,
            damage=tuple(reader.damage),
        )

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def send(self, seen: SourceSession) -> None:
        """Append what is missing, and verify the whole. After a concurrent append, continue where the target ends."""
        at = seen.there
        for _ in range(_TRIES_MAX):
            try:
                at = self._send_from(seen, at)
                break
            except Conflict:
                before, at = at, self._compare_again(seen)
                if at == before:
                    raise
        self._check(seen)

    def _send_from(self, seen: SourceSession, at: int) -> int:
        for run in self._runs(seen, at):
            seen.to = self._target.adopt(seen.id, seen.name, run, size=at)
            at += len(run)
            self._meter.step(seen.name, len(run))
        return at

    def _runs(self, seen: SourceSession, start: int) -> Iterator[bytes]:
        """Yield the bytes from `start` to the end of the log as first read, in runs that end at line ends."""
        held: list[bytes] = []
        size = at = 0
        for line in self.lines(seen.name):
            raw = line.bytes
            held.append(raw[max(0, start - at) : max(0, seen.size - at)])
            at, size = at + len(raw), size + len(held[-1])
            # A line too long for memory comes in slices, and may be sent in slices.
            if size >= _RUN_BYTES and (line.ended or not line.whole):
                run, held, size = b"".join(held), [], 0
                yield run
            if at >= seen.size:
                break
        if size or not seen.size:
            yield b"".join(held)

    def _compare_again(self, seen: SourceSession) -> int:
        """Return how many bytes of the log as first read the target has now; `Conflict` if it has other bytes."""
        target_log = _TargetLog(self._target, seen.id, seen.name, name_in(self._target, seen.id))
        seen.to = target_log.name
        for raw in _first_bytes(self.lines(seen.name), seen.size):
            target_log.compare(raw)
        return target_log.size

    def _check(self, seen: SourceSession) -> None:
        digest = hashlib.sha256()
        for raw in _first_bytes(self._target.load(seen.id), seen.size):
            digest.update(raw)
            self._meter.step(seen.name, len(raw))
        found = f"sha256:{digest.hexdigest()}"
        if found != seen.digest:
            message = f"{seen.name} differs after the copy: {seen.digest} in the source, {found} in the target"
            raise Damaged(message, hint="run `wakelog verify` on both stores")


class _TargetLog:
    """A log in the target, read along with the source's; as far as both go they must be equal."""

    def __init__(self, target: Store, session: str, called: str, name: str | None) -> None:
        self.name = name
        self.size = 0
        self._called = called
        self._lines = target.load(session) if self.name is not None else iter(())
        self._rest = b""

    def compare(self, raw: bytes) -> None:
        """Compare the next bytes of the source; `Conflict` if the target has others."""
        self._fill(len(raw))
        target_bytes, self._rest = self._rest[: len(raw)], self._rest[len(raw) :]
        if not raw.startswith(target_bytes):
            message = (
                f"{self._called} is a different log in the target store: the bytes differ after byte {self.size:,}"
            )
            raise Conflict(message, hint="copy it to another store, or leave it out")
        self.size += len(target_bytes)

    @property
    def has_more(self) -> bool:
        """Whether the target has more than the source had."""
        self._fill(1)
        return bool(self._rest)

    def _fill(self, count: int) -> None:
        while len(self._rest) < count and (line := next(self._lines, None)) is not None:
            self._rest += line.bytes


@contextlib.contextmanager
def _as_unreadable() -> Iterator[None]:
    """Turn a `StoreError` of the source into `UnreadableSession`, so that other sessions are still copied."""
    try:
        yield
    except StoreError as error:
        raise UnreadableSession(error) from error


def name_in(store: Store, session: str) -> str | None:
    """Return the name of a session in a store; None if it is not there."""
    try:
        return store.name(session)
    except (NotFound, BadId):
        return None


def _first_bytes(lines: Iterable[Line], size: int) -> Iterator[bytes]:
    """Yield the first `size` bytes of a log, line by line."""
    for line in lines:
        yield line.bytes[:size]
        size -= len(line.bytes)
        if size <= 0:
            return


# Well below the day after which unnamed blobs are collected.
_YOUNG_S = 6 * 60 * 60.0


class BlobCopy:
    """Copies blobs from one store to another. Both sides are listed once, when first needed."""

    def __init__(self, source: Blobs, target: Blobs, *, dry_run: bool) -> None:
        self._source = source
        self._target = target
        self._dry_run = dry_run

    @functools.cached_property
    def _here(self) -> dict[str, StoredBlob]:
        return {blob.digest: blob for blob in self._source.stored()}

    @functools.cached_property
    def _there(self) -> dict[str, StoredBlob]:
        return {blob.digest: blob for blob in self._target.stored()}

    def copy_missing(self, seen: SourceSession) -> Iterator[int]:
        """Copy the blobs that a log names and the target does not have; yield the size of each."""
        for digest in sorted(seen.needs.digests):
            here = self._here.get(digest)
            # A blob that was put after the listing is known from the reference to it in the log.
            size = here.bytes if here is not None else seen.needs.blobs.get(digest)
            if size is not None and not self._is_safe(seen, digest, size):
                yield from self._copy_blob(seen, BlobRef(digest=digest, bytes=size))

    def _is_safe(self, seen: SourceSession, digest: str, size: int) -> bool:
        there = self._there.get(digest)
        if there is None or there.bytes != size:
            return False
        return there.age_s < _YOUNG_S or seen.needs.digests[digest] <= seen.there

    def _copy_blob(self, seen: SourceSession, ref: BlobRef) -> Iterator[int]:
        # A dry run does not read a blob that the source lists.
        if not (self._dry_run and ref.digest in self._here):
            try:
                content = self._source.get(ref)
            except WakelogError as error:
                if ref.digest not in self._there:
                    seen.lost.append(MissingItem(ref.digest, error.message))
                return
            if not self._dry_run:
                self._target.put(content)
        self._there[ref.digest] = StoredBlob(ref.digest, ref.bytes, 0.0)
        yield ref.bytes
