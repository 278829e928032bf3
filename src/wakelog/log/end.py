"""Where a log ends: all that the next append needs to know, as a fold over its lines.

Stores keep one of these per open log and feed it what others have appended. It is a function of the
log's bytes and nothing else; when in doubt a store throws it away and reads again.
"""

from collections.abc import Iterable

from wakelog.errors import Conflict
from wakelog.log.codec import id_of
from wakelog.log.lines import Line, Reader
from wakelog.log.seal import Chain, seal_of, seq_of, unsealed


class End:
    """The last seq, the running end of the chain, and the torn tail if there is one.

    `ragged`: the last line has no LF; `sealed`: it has a seal.
    """

    def __init__(self) -> None:
        self.seq = -1
        self.size = 0
        self.torn = b""
        self._chain = Chain()
        self.ragged = False
        self.sealed = False

    def take(self, line: Line) -> None:
        """Goes over one more line."""
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
        # Loose blanks, or the end of a line over the limit, are nobody's cut append: readers do not call them torn.
        self.torn = reader.torn.raw if reader.torn else b""

    def seal(self, body: bytes) -> bytes:
        """The bytes to append for an encoded entry: sealed, ended by LF, on a line of its own."""
        opening = b"\n" if self.ragged else b""
        if self.ragged and not self.sealed:
            self._chain.skip(opening)
        sealed = self._chain.seal(body, self.seq + 1)
        return opening + sealed + b"\n"

    def advance(self, written: bytes) -> int:
        """What `seal` gave has been written: the log ends behind it now. Gives the new entry's seq."""
        self.seq += 1
        self.size += len(written)
        self.torn, self.ragged, self.sealed = b"", False, True
        return self.seq


def check_place(end: End, *, after: int, behind: int) -> bool:
    """Whether an append that knows the log up to `after`, torn tail included, may go behind this end."""
    return end.seq == after and len(end.torn) == behind


def already_there(body: bytes, added: Iterable[Line], *, after: int) -> tuple[int, Line] | None:
    """This very entry among the lines behind seq `after`, with its seq: appended, though nobody was told.

    The same id with other bytes is somebody's mistake, and a `Conflict`.
    """
    wanted, reader = id_of(body), Reader(next_seq=after + 1)
    for line in added:
        for entry in reader.feed(line):
            if entry.id == wanted and unsealed(entry.raw) != body:
                raise Conflict(f"an entry with the id {wanted} but other content is already there")
            if entry.id == wanted:
                return entry.seq, line
    return None
