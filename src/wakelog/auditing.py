"""Blob audit: each blob that entries refer to must exist and have the size and digest of the reference.

Nothing is written or repaired. Each blob is read once, however many entries refer to it. Inherited entries of a fork
count too: `scanning.scan_log` passes them to its callback with the session's own.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from wakelog.errors import Damaged, NoAccess, NotFound
from wakelog.log.content import BlobRef
from wakelog.log.entry import Entry
from wakelog.log.references import Reference, references
from wakelog.ports import Blobs

LossKind: TypeAlias = Literal["missing blob", "damaged blob", "inaccessible blob"]
_KINDS: dict[type[Exception], LossKind] = {
    NotFound: "missing blob",
    Damaged: "damaged blob",
    NoAccess: "inaccessible blob",
}


class Loss(msgspec.Struct, frozen=True):
    """A blob that is missing, damaged or inaccessible, and the entries that refer to it, in their order."""

    kind: LossKind
    digest: str
    bytes: int
    reason: str
    hint: str
    references: tuple[Reference, ...]


class Audit(msgspec.Struct, frozen=True):
    """Result of an audit: the number of blobs checked, and the losses."""

    blobs: int
    losses: tuple[Loss, ...]


class NamedBlobs:
    """Collects the blobs that entries refer to; of the entries only the places of the references are kept."""

    def __init__(self) -> None:
        self._named: dict[tuple[str, int], list[Reference]] = {}

    def take(self, entry: Entry) -> None:
        """Collect the references of an entry."""
        for reference in references(entry):
            self._named.setdefault((reference.digest, reference.bytes), []).append(reference)

    def audit(self, blobs: Blobs) -> Audit:
        """Check every collected blob."""
        found = (_checked(blobs, BlobRef(digest=digest, bytes=size), it) for (digest, size), it in self._named.items())
        return Audit(len(self._named), tuple(loss for loss in found if loss is not None))


def audit(blobs: Blobs, entries: Iterable[Entry]) -> Audit:
    """Check every blob that these entries refer to."""
    named = NamedBlobs()
    for entry in entries:
        named.take(entry)
    return named.audit(blobs)


def _checked(blobs: Blobs, ref: BlobRef, places: list[Reference]) -> Loss | None:
    try:
        blobs.check(ref)
    except (NotFound, Damaged, NoAccess) as error:
        return Loss(_KINDS[type(error)], ref.digest, ref.bytes, error.message, error.hint, tuple(places))
    return None
