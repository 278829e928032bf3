"""Verification of a session: every line, every seal and every blob, inherited history of a fork included.

Reads line by line, because a log may be larger than memory. Each blob is read once, however many entries refer to it.
Nothing is written.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from wakelog.errors import Damaged, NoAccess, NotFound
from wakelog.log.content import BlobRef
from wakelog.log.entry import Entry
from wakelog.log.integrity import SealReport, verify_seals
from wakelog.log.lines import Damage
from wakelog.log.redaction_marks import count_marks
from wakelog.log.references import BlobReference, blob_references
from wakelog.ports.stores import Blobs, Store
from wakelog.scanning import Scan, scan_log

LossKind: TypeAlias = Literal["missing blob", "damaged blob", "inaccessible blob"]
_LOSS_KINDS: dict[type[Exception], LossKind] = {
    NotFound: "missing blob",
    Damaged: "damaged blob",
    NoAccess: "inaccessible blob",
}


class BlobLoss(msgspec.Struct, frozen=True):
    """A blob that is missing, damaged or inaccessible, and the entries that refer to it, in their order."""

    kind: LossKind
    digest: str
    bytes: int
    reason: str
    hint: str
    references: tuple[BlobReference, ...]


class BlobAudit(msgspec.Struct, frozen=True):
    """Result of an audit: the number of blobs checked, and the losses."""

    blobs: int
    losses: tuple[BlobLoss, ...]


class ReferencedBlobs:
    """Collects the blobs that entries refer to; of the entries only the places of the references are kept."""

    def __init__(self) -> None:
        self._named: dict[tuple[str, int], list[BlobReference]] = {}

    def take(self, entry: Entry) -> None:
        """Collect the references of an entry."""
        for reference in blob_references(entry):
            self._named.setdefault((reference.digest, reference.bytes), []).append(reference)

    def audit(self, blobs: Blobs) -> BlobAudit:
        """Check every collected blob."""
        found = (
            _check_blob(blobs, BlobRef(digest=digest, bytes=size), it) for (digest, size), it in self._named.items()
        )
        return BlobAudit(len(self._named), tuple(loss for loss in found if loss is not None))


def audit_blobs(blobs: Blobs, entries: Iterable[Entry]) -> BlobAudit:
    """Check every blob that these entries refer to."""
    named = ReferencedBlobs()
    for entry in entries:
        named.take(entry)
    return named.audit(blobs)


def _check_blob(blobs: Blobs, ref: BlobRef, places: list[BlobReference]) -> BlobLoss | None:
    try:
        blobs.check(ref)
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
        """The damaged places, in inherited history too."""
        return self.scan.damage

    @property
    def head(self) -> str:
        """The digest of the whole log: kept elsewhere, it shows later whether the end of the log was removed."""
        return self.seals.head


def verify_session(store: Store, name: str) -> Verification:
    """Check every line, seal and blob of a session."""
    named, redacted = ReferencedBlobs(), Counter[str]()

    def take(entry: Entry) -> None:
        named.take(entry)
        redacted.update(count_marks((entry.raw,)))

    scan = scan_log(store, name, take)
    return Verification(scan, verify_seals(store.load(name)), named.audit(store.blobs), redacted)
