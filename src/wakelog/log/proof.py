"""The proof that nobody touched a log: every seal checked, every break named.

The chain stops accidents and finds edits. After a break it goes on from the h it reads: one fault,
one report. A cut tail is found only by whoever kept a head digest elsewhere.
"""

from collections.abc import Iterable, Sequence

import msgspec

from wakelog.log.entry import DamageNote, Entry
from wakelog.log.lines import Line
from wakelog.log.seal import Chain, seal_of


class Proof(msgspec.Struct, frozen=True):
    """What the chain of a log says. `head` is the digest to keep elsewhere."""

    broken: tuple[tuple[int, int], ...] = ()
    unsealed: int = 0
    head: str = ""


def prove(lines: Iterable[Line]) -> Proof:
    """Checks every seal: where it is broken (line, offset), and how many lines after the last seal are loose.

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
    """Whether from an entry on every line is, by its seal, what was written behind the one before it.

    So none there was changed, moved or taken away. An entry without a seal has nothing to prove. The note of a torn
    tail is sealed over bytes that are no entry, and is taken as it is.
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
