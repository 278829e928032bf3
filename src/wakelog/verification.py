"""Verification of sessions: every line, every seal and every blob, inherited history of a fork included.

Reads line by line, because a log may be larger than memory. Each blob is read once, however many entries refer to it.
Nothing is written.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from wakelog.errors import (
    Damaged,
    NewerFormat,
    NoAccess,
    NotFound,
    StoreBusy,
    StoreClosed,
    TooManyOpenFiles,
    Unavailable,
    WakelogError,
)
from wakelog.log.content import BlobRef
from wakelog.log.entry import Entry
from wakelog.log.integrity import SealReport, verify_seals
from wakelog.log.lines import Damage
from wakelog.log.redaction_marks import count_marks
from wakelog.log.references import BlobReference, blob_references
from wakelog.ports.stores import Blobs, Store
from wakelog.scanning import Scan, scan_log

LossKind: TypeAlias = Literal["missing blob", "damaged blob", "inaccessible blob"]
BlobCheck: TypeAlias = Callable[[BlobRef], None]
"""Checks one blob; raises what `Blobs.check` raises."""
# About 10 MB of references to blobs that were checked before.
_BLOBS_REMEMBERED = 50_000
_LOSS_KINDS: dict[type[Exception], LossKind] = {
    NotFound: "missing blob",
    Damaged: "damaged blob",
    NoAccess: "inaccessible blob",
}


_EMPTY = Damage("missing", 1, 0, 0, "the log is empty: every line was removed")


class BlobLoss(msgspec.Struct, frozen=True):
    """A blob that is missing, damaged or inaccessible, and the entries that refer to it, in their order."""

    kind: LossKind
    digest: str
    bytes: int
    reason: str
    hint: str
    references: tuple[BlobReference, ...]

    def __str__(self) -> str:
        """Return the reason, and which line needs the blob for what."""
        first, *others = self.references
        more = f", and {len(others)} more" if others else ""
        return f"{self.reason}; line {first.line} needs it: {first.what}{more}"


class BlobAudit(msgspec.Struct, frozen=True):
    """Result of an audit: the number of blobs checked, and the losses."""

    blobs: int
    losses: tuple[BlobLoss, ...]


class ReferencedBlobs:
    """Collects the blobs that entries refer to; of the entries only the places of the references are kept."""

    def __init__(self) -> None:
        self._named: dict[tuple[str, int], list[BlobReference]] = {}

    def __len__(self) -> int:
        """Return the number of blobs collected."""
        return len(self._named)

    def take(self, entry: Entry) -> None:
        """Collect the references of an entry."""
        for reference in blob_references(entry):
            self._named.setdefault((reference.digest, reference.bytes), []).append(reference)

    def audit(self, check: BlobCheck) -> BlobAudit:
        """Check every collected blob."""
        found = (
            _check_blob(check, BlobRef(digest=digest, bytes=size), it) for (digest, size), it in self._named.items()
        )
        return BlobAudit(len(self), tuple(loss for loss in found if loss is not None))


def audit_blobs(blobs: Blobs, entries: Iterable[Entry]) -> BlobAudit:
    """Check every blob that these entries refer to."""
    named = ReferencedBlobs()
    for entry in entries:
        named.take(entry)
    return named.audit(blobs.check)


def _check_blob(check: BlobCheck, ref: BlobRef, places: list[BlobReference]) -> BlobLoss | None:
    try:
        check(ref)
    except (NotFound, Damaged, NoAccess) as error:
        return BlobLoss(_LOSS_KINDS[type(error)], ref.digest, ref.bytes, error.message, error.hint, tuple(places))
    return None


class Verification(msgspec.Struct, frozen=True):
    """Result of a verification: the scan of the log, its seals and its blobs."""

    scan: Scan
    seals: SealReport
    blobs: BlobAudit
    redacted: Mapping[str, int]
    """The number of redaction marks in the entries, by kind."""

    @property
    def ok(self) -> bool:
        """Whether every line is readable and unchanged, and every blob is as it was stored."""
        return not (self.damage or self.seals.broken or self.seals.unsealed or self.blobs.losses)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The damaged places, in inherited history too. An empty log is damaged: it was created with a header."""
        return self.scan.damage if self.scan.size else (*self.scan.damage, _EMPTY)

    @property
    def head(self) -> str:
        """The digest of the whole log: kept elsewhere, it shows later whether the end of the log was removed."""
        return self.seals.head


def missing_parts(store: Store, name: str) -> tuple[str, ...]:
    """Return what a replay of a session needs and cannot read: the history that a fork inherited, and blobs."""
    named = ReferencedBlobs()
    scan = scan_log(store, name, named.take)
    history = tuple(defect.reason for defect in scan.damage if defect.kind == "origin")
    return (*history, *map(str, named.audit(store.blobs.check).losses))


def verify_session(store: Store, name: str, check_blob: BlobCheck | None = None) -> Verification:
    """Check every line, seal and blob of a session."""
    named, redacted = ReferencedBlobs(), Counter[str]()

    def take(entry: Entry) -> None:
        named.take(entry)
        redacted.update(count_marks((entry.raw,)))

    scan = scan_log(store, name, take)
    blobs = named.audit(check_blob or store.blobs.check)
    return Verification(scan, verify_seals(store.load(name)), blobs, redacted)


# ── many sessions ────────────────────────────────────────────────────────────────────────────────


class SessionCheck(msgspec.Struct, frozen=True):
    """The verification of one of many sessions, or the error that prevented it."""

    name: str
    verified: Verification | None = None
    error: WakelogError | None = None

    @property
    def ok(self) -> bool:
        """Whether the session was verified and is unchanged."""
        return self.verified is not None and self.verified.ok

    @property
    def is_damaged(self) -> bool:
        """Whether lines or seals are damaged, or the log cannot be read for another reason than its permissions."""
        if self.verified is None:
            return not isinstance(self.error, NoAccess | NewerFormat)
        return bool(self.verified.damage or self.verified.seals.broken or self.verified.seals.unsealed)

    @property
    def lost_blobs(self) -> int:
        """The number of blobs that are missing or damaged."""
        losses = self.verified.blobs.losses if self.verified is not None else ()
        return sum(loss.kind != "inaccessible blob" for loss in losses)


def verify_sessions(store: Store, names: Iterable[str], check_blob: BlobCheck) -> Iterator[SessionCheck]:
    """Verify sessions one after the other; an error in one does not end the rest. Sessions removed since are left out.

    Raises errors that concern the store as a whole, such as a server that does not respond.
    """
    for name in names:
        try:
            yield SessionCheck(name, verify_session(store, name, check_blob))
        except NotFound:
            continue
        except (Unavailable, StoreBusy, StoreClosed, TooManyOpenFiles):
            raise
        except WakelogError as error:
            yield SessionCheck(name, error=error)


def check_each_blob_once(blobs: Blobs) -> BlobCheck:
    """Return a check that reads a blob once, also if many sessions name it: up to a limit."""
    intact: set[BlobRef] = set()

    def check(ref: BlobRef) -> None:
        if ref not in intact:
            blobs.check(ref)
            if len(intact) < _BLOBS_REMEMBERED:
                intact.add(ref)

    return check


def check_blobs_by_size(blobs: Blobs, sizes: dict[str, int]) -> BlobCheck:
    """Return a check that compares blobs with a listing of the store, and reads only those that differ from it."""

    def check(ref: BlobRef) -> None:
        if sizes.get(ref.digest) != ref.bytes:
            blobs.check(ref)

    return check
