"""Verification of a log's seal chain: every seal is checked and every break is reported.

The chain detects accidental damage and edits. After a break, checking continues from the h that was read, so that one
fault gives one report. Lines removed at the end are detected only by comparing with a head digest kept elsewhere.
"""

from collections.abc import Iterable, Sequence

import msgspec

from wakelog.log.entry import DamageNote, Entry
from wakelog.log.lines import Line
from wakelog.log.seal import Chain, seal_of


class Proof(msgspec.Struct, frozen=True):
    """Result of a verification. `head` is the digest to keep elsewhere."""

    broken: tuple[tuple[int, int], ...] = ()
    unsealed: int = 0
    head: str = ""


def prove(lines: Iterable[Line]) -> Proof:
    """Check every seal; return the breaks (line, offset) and the number of unsealed lines after the last seal.

    Lines before the first seal are a foreign beginning, which the first seal covers.
    """
    chain, broken, loose = Chain(), [], 0
    for line in lines:
        if not line.whole or seal_of(line.raw) is None:
            loose += bool(line.raw.strip())
            chain.skip(line.bytes)
            continue
        if not chain.accept(line.raw):
            broken.append((line.number, line.offset))
        loose = 0
    return Proof(broken=tuple(broken), unsealed=loose if chain.h else 0, head=chain.h)


def holds_from(entries: Sequence[Entry], entry_id: str) -> bool:
    """Return whether the seals from an entry on prove that no line there was changed, moved or removed.

    True if the entry has no seal, since nothing can be proven; false if it is not among `entries`. The note of a torn
    tail is accepted as it is, because its seal also covers bytes that are not an entry.
    """
    at = next((at for at, entry in enumerate(entries) if entry.id == entry_id), None)
    if at is None or seal_of(entries[at].raw) is None:
        return at is not None
    before = seal_of(entries[at - 1].raw) if at else None
    chain = Chain(before or seal_of(entries[at].raw) or "")
    return all(_follows(chain, entry) for entry in entries[at if before else at + 1 :])


def _follows(chain: Chain, entry: Entry) -> bool:
    if seal_of(entry.raw) is None:
        return False
    is_right = chain.accept(entry.raw)
    return is_right or (isinstance(entry.value, DamageNote) and entry.value.reason == "torn")
