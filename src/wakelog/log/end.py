"""The end of a log: the state that the next append needs, as a fold over lines.

A store keeps one `End` for each open log and feeds it lines appended by others. It is derived from the bytes of the log
only; if in doubt, a store discards it and reads again.
"""

from collections.abc import Iterable

from wakelog.errors import Conflict
from wakelog.log.codec import id_of
from wakelog.log.lines import Line, Reader
from wakelog.log.seal import Chain, seal_of, seq_of, unsealed


class End:
    """The last seq, the current end of the seal chain, and the torn tail if there is one.

    `ragged`: the last line has no LF. `sealed`: it has a seal.
    """

    def __init__(self) -> None:
        self.seq = -1
        self.size = 0
        self.torn = b""
        self._chain = Chain()
        self.ragged = False
        self.sealed = False

    def take(self, line: Line) -> None:
        """Process the next line."""
        self.size = line.offset + len(line.raw) + line.ended
        self.ragged, self.torn = not line.ended, b""
        h = seal_of(line.raw) if line.whole else None
        self.sealed = h is not None
        if h is not None:
            self._chain = Chain(h)
        else:
            self._chain.skip(line.bytes)
        seq = seq_of(line.raw)
        if h is not None and seq is not None:
            self.seq = seq
            return
        reader = Reader(next_seq=self.seq + 1)
        reader.feed(line)
        self.seq = reader.next_seq - 1
        # Stray blanks and the end of a line over the size limit are not a torn append, also for readers.
        self.torn = reader.torn.raw if reader.torn else b""

    def seal(self, body: bytes) -> bytes:
        """Return the bytes to append for an encoded entry: sealed, ended by LF, on its own line."""
        opening = b"\n" if self.ragged else b""
        if self.ragged and not self.sealed:
            self._chain.skip(opening)
        sealed = self._chain.seal(body, self.seq + 1)
        return opening + sealed + b"\n"

    def advance(self, written: bytes) -> int:
        """Move the end past bytes returned by `seal` that have been written; return the seq of the new entry."""
        self.seq += 1
        self.size += len(written)
        self.torn, self.ragged, self.sealed = b"", False, True
        return self.seq


def check_place(end: End, *, after: int, behind: int) -> bool:
    """Return whether an append that knows the log up to `after` and its torn tail may follow this end."""
    return end.seq == after and len(end.torn) == behind


def already_there(body: bytes, added: Iterable[Line], *, after: int) -> tuple[int, Line] | None:
    """Return the seq and line of this same entry if it is among the lines after seq `after`, else None.

    It was then appended by an earlier try that got no acknowledgement. `Conflict` for the same id with other bytes.
    """
    wanted, reader = id_of(body), Reader(next_seq=after + 1)
    for line in added:
        for entry in reader.feed(line):
            if entry.id == wanted and unsealed(entry.raw) != body:
                raise Conflict(f"an entry with the id {wanted} but other content is already there")
            if entry.id == wanted:
                return entry.seq, line
    return None
