"""Checks the blobs that entries name: each must be there, have its size, and hold the bytes of its digest.

Nothing is written and nothing is repaired. Each blob is read once, however many entries name it. The entries that a
fork inherited name blobs too: `scanning.scan_log` hands them over with its own.
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
    """A blob that cannot be had as it was put, and the entries that name it, in their order."""

    kind: LossKind
    digest: str
    bytes: int
    reason: str
    hint: str
    references: tuple[Reference, ...]


class Audit(msgspec.Struct, frozen=True):
    """What a check of blobs found: how many were checked, and which cannot be had."""

    blobs: int
    losses: tuple[Loss, ...]


class NamedBlobs:
    """The blobs that entries name, gathered entry by entry; of the entries only their places are kept."""

    def __init__(self) -> None:
        self._named: dict[tuple[str, int], list[Reference]] = {}

    def take(self, entry: Entry) -> None:
        """Notes what an entry names."""
        for reference in references(entry):
            self._named.setdefault((reference.digest, reference.bytes), []).append(reference)

    def audit(self, blobs: Blobs) -> Audit:
        """Checks every blob that was named."""
        found = (_checked(blobs, BlobRef(digest=digest, bytes=size), it) for (digest, size), it in self._named.items())
        return Audit(len(self._named), tuple(loss for loss in found if loss is not None))


def audit(blobs: Blobs, entries: Iterable[Entry]) -> Audit:
    """Checks every blob that these entries name."""
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
