"""Checks the blobs that entries name: each must be there, have its size, and hold the bytes of its digest.

Nothing is written and nothing is repaired. Each blob is read once, however many entries name it. The entries of a
fork's parents name blobs too: call `audit` with those of every session of the lineage.
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


def audit(blobs: Blobs, entries: Iterable[Entry]) -> Audit:
    """Checks every blob that these entries name."""
    named: dict[tuple[str, int], list[Reference]] = {}
    for reference in references(entries):
        named.setdefault((reference.digest, reference.bytes), []).append(reference)
    losses = (_checked(blobs, BlobRef(digest=digest, bytes=size), named[digest, size]) for digest, size in named)
    return Audit(len(named), tuple(loss for loss in losses if loss is not None))


def _checked(blobs: Blobs, ref: BlobRef, places: list[Reference]) -> Loss | None:
    try:
        blobs.check(ref)
    except (NotFound, Damaged, NoAccess) as error:
        return Loss(_KINDS[type(error)], ref.digest, ref.bytes, error.message, error.hint, tuple(places))
    return None
