"""The proof that nobody touched a log: every seal checked, every break named.

The chain stops accidents and finds edits. After a break it goes on from the h it reads: one fault,
one report. A cut tail is found only by whoever kept a head digest elsewhere.
"""

from collections.abc import Iterable

import msgspec

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
