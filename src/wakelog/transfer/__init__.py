"""Copy sessions from one store to another, byte for byte, damage included. Prints nothing.

Rule 1: the target always holds a prefix of the source's log, so a copy continues where an earlier one was interrupted,
and two copies at once do no harm (`LogCopy`).
Rule 2: what a log needs is copied before it: the session that a fork inherits from, the subagents that it waits for
(waking it without them would start them again), and the blobs that its bytes name (`BlobCopy`).
Rule 3: an error in one session is reported for that session, and the others are still copied.
Rule 4: leases and journals are not copied: of a running session, the current log is copied.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from wakelog.errors import BadId, Conflict, Damaged, NotFound, UsageError, WakelogError
from wakelog.log.codec import envelope_of
from wakelog.log.ids import is_id
from wakelog.log.lines import Damage
from wakelog.ports.stores import Store
from wakelog.transfer.copying import (
    BlobCopy,
    LogCopy,
    MissingItem,
    Progress,
    ProgressMeter,
    SourceSession,
    UnreadableSession,
    name_in,
)

__all__ = ["Copied", "MissingItem", "Progress", "Status", "copy"]

Status: TypeAlias = Literal["copied", "pending", "unchanged", "conflict", "failed"]
# Errors that concern one session only.
_SESSION_ERRORS = (Conflict, Damaged, BadId, NotFound, UnreadableSession)


class Copied(msgspec.Struct, frozen=True):
    """Result for one session. `to` is its name in the target, `copied` the bytes of its log that were or would be sent.

    `damage` lists its unreadable lines, in the source and, since bytes are copied unchanged, in the target.
    `needed_by` is the session that needs it, if it was not asked for itself.
    """

    session: str
    name: str
    status: Status
    to: str | None = None
    bytes: int = 0
    copied: int = 0
    blobs: int = 0
    blob_bytes: int = 0
    damage: tuple[Damage, ...] = ()
    lost: tuple[MissingItem, ...] = ()
    journals: int = 0
    needed_by: str | None = None
    error: WakelogError | None = None


def copy(
    source: Store,
    target: Store,
    sessions: Sequence[str] | None = None,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Iterator[Copied]:
    """Copy sessions (None: all) and the sessions and blobs they need; yield the result of each when it is done.

    `StoreError` if the target fails. What was copied until then stays and is not copied again.
    """
    if source is target:
        raise UsageError("a store cannot be copied onto itself", hint="name another store")
    return _CopyRun(source, target, dry_run=dry_run, progress=progress).run(sessions)


class _Requested(msgspec.Struct, frozen=True):
    """A session to be read, by id or name; the session that needs it, and its role for that one."""

    ref: str
    by: SourceSession | None = None
    role: Literal["asked", "parent", "child"] = "asked"


class _CopyRun:
    """One run from one store to another: which sessions are copied, in which order, with which result."""

    def __init__(self, source: Store, target: Store, *, dry_run: bool, progress: Progress | None) -> None:
        self._source = source
        self._target = target
        self._dry_run = dry_run
        self._sizes = {stat.name: stat.size for stat in source.sessions()}
        self._meter = ProgressMeter(progress, self._sizes)
        self._logs = LogCopy(source, target, self._meter)
        self._blobs = BlobCopy(source.blobs, target.blobs, dry_run=dry_run)
        self._visited: set[str] = set()
        self._asked: frozenset[str] = frozenset()

    def run(self, sessions: Sequence[str] | None) -> Iterator[Copied]:
        """Yield the result of each requested session, after those of the sessions it needs."""
        refs = sorted(self._sizes) if sessions is None else sessions
        self._asked = frozenset(refs if sessions is None else map(self._source.name, refs))
        self._meter.expect(self._asked)
        for ref in refs:
            yield from self._with_relatives(ref)

    def _with_relatives(self, ref: str) -> Iterator[Copied]:
        waiting: list[_Requested | SourceSession] = [_Requested(ref)]
        while waiting:
            step = waiting.pop()
            if isinstance(step, SourceSession):
                yield self._finish(step)
                continue
            found = self._read_session(step)
            if isinstance(found, Copied):
                yield found
            elif found is not None:
                waiting.append(found)
                waiting += [_Requested(child, found, "child") for child in found.needs.children]
                waiting += [_Requested(found.needs.parent, found, "parent")] if found.needs.parent else []

    def _read_session(self, wanted: _Requested) -> SourceSession | Copied | None:
        """Read a session; return it, or its failure; None if it was read before or does not exist."""
        try:
            is_name = wanted.role == "asked" and wanted.ref in self._asked
            name = wanted.ref if is_name else self._source.name(wanted.ref)
        except (NotFound, BadId):
            # A subagent that is named in the log and not created yet is no error.
            if wanted.by is not None and wanted.role == "parent":
                wanted.by.lost.append(MissingItem(wanted.ref, f"the parent session {wanted.ref} does not exist"))
            return None
        if name in self._visited:
            return None
        self._visited.add(name)
        self._meter.expect([name])
        session = self._id(wanted.ref, name)
        needed_by = wanted.by.name if wanted.by is not None and name not in self._asked else None
        try:
            return self._logs.read_source(session, name, needed_by=needed_by)
        except _SESSION_ERRORS as error:
            return self._failed(error, session, name, needed_by)

    def _id(self, ref: str, name: str) -> str:
        """Return the id in the first line; else `ref`, which may be a name."""
        with contextlib.suppress(NotFound, UnreadableSession):
            first = next(self._logs.lines(name), None)
            envelope = envelope_of(first.raw) if first is not None and first.whole else None
            if envelope is not None and envelope.type == "session" and is_id(envelope.id):
                return envelope.id
        return ref

    def _finish(self, seen: SourceSession) -> Copied:
        try:
            done = self._copy_session(seen)
        except _SESSION_ERRORS as error:
            return self._failed(error, seen.id, seen.name, seen.needed_by)
        self._meter.finish(seen.name)
        return done

    def _copy_session(self, seen: SourceSession) -> Copied:
        """Copy the blobs and the part of the log that the target does not have yet."""
        blobs = list(self._blobs.copy_missing(seen))
        is_there = seen.to is not None and seen.there == seen.size
        if not is_there and not self._dry_run:
            self._logs.send(seen)
            if seen.needs.title is not None:
                self._target.set_title(seen.id, seen.needs.title)
        moved: Status = "pending" if self._dry_run else "copied"
        return Copied(
            session=seen.id,
            name=seen.name,
            status="unchanged" if is_there and not blobs else moved,
            to=seen.to,
            bytes=seen.size,
            copied=seen.size - seen.there,
            blobs=len(blobs),
            blob_bytes=sum(blobs),
            damage=seen.damage,
            lost=tuple(seen.lost),
            journals=seen.journals,
            needed_by=seen.needed_by,
        )

    def _failed(self, error: Exception, session: str, name: str, needed_by: str | None) -> Copied:
        self._meter.finish(name)
        reason = error.error if isinstance(error, UnreadableSession) else error
        assert isinstance(reason, WakelogError)
        return Copied(
            session=session,
            name=name,
            status="conflict" if isinstance(reason, Conflict) else "failed",
            to=name_in(self._target, session),
            bytes=self._sizes.get(name, 0),
            needed_by=needed_by,
            error=reason,
        )
