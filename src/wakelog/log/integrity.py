"""Integrity of a whole log: the end at which the next append continues the seal chain, and verification of all seals.

A store keeps one `LogEnd` for each open log and feeds it lines appended by others. It is derived from the bytes of the
log only; if in doubt, a store discards it and reads again. `verify_seals` checks every seal and reports every break;
after a break it continues from the h that was read, so that one fault gives one report. Lines removed at the end are
detected only by comparing with a head digest kept elsewhere.
"""

from collections.abc import Iterable, Sequence

import msgspec

from wakelog.errors import Conflict
from wakelog.log.codec import id_of
from wakelog.log.entry import DamageNote, Entry
from wakelog.log.lines import EntryReader, Line
from wakelog.log.seal import SealChain, find_seal, find_seq, unseal


class LogEnd:
    """The last seq, the current end of the seal chain, and the torn tail if there is one.

    `lacks_newline`: the last line has no LF. `ends_sealed`: it has a seal.
    """

    def __init__(self) -> None:
        self.seq = -1
        self.size = 0
        self.torn_tail = b""
        self._chain = SealChain()
        self.lacks_newline = False
        self.ends_sealed = False

    def add(self, line: Line) -> None:
        """Process the next line."""
        self.size = line.offset + len(line.raw) + line.ended
        self.lacks_newline, self.torn_tail = not line.ended, b""
        h = find_seal(line.raw) if line.whole else None
        self.ends_sealed = h is not None
        if h is not None:
            self._chain = SealChain(h)
        else:
            self._chain.add_unsealed(line.bytes)
        seq = find_seq(line.raw)
        if h is not None and seq is not None:
            self.seq = seq
            return
        reader = EntryReader(next_seq=self.seq + 1)
        reader.feed(line)
        self.seq = reader.next_seq - 1
        # Stray blanks and the end of a line over the size limit are not a torn append, also for readers.
        self.torn_tail = reader.torn.raw if reader.torn else b""

    def seal(self, body: bytes) -> bytes:
        """Return the bytes to append for an encoded entry: sealed, ended by LF, on its own line."""
        opening = b"\n" if self.lacks_newline else b""
        if self.lacks_newline and not self.ends_sealed:
            self._chain.add_unsealed(opening)
        sealed = self._chain.seal(body, self.seq + 1)
        return opening + sealed + b"\n"

    def advance(self, written: bytes) -> int:
        """Move the end past bytes returned by `seal` that have been written; return the seq of the new entry."""
        self.seq += 1
        self.size += len(written)
        self.torn_tail, self.lacks_newline, self.ends_sealed = b"", False, True
        return self.seq


def sealed_lines(bodies: Iterable[bytes]) -> bytes:
    """Return the first lines of a log, for encoded entries."""
    end, lines = LogEnd(), []
    for body in bodies:
        lines.append(end.seal(body))
        end.advance(lines[-1])
    return b"".join(lines)


def can_append_after(end: LogEnd, *, after: int, torn_bytes: int) -> bool:
    """Return whether an append that knows the log up to `after` and its torn tail may follow this end."""
    return end.seq == after and len(end.torn_tail) == torn_bytes


def find_appended(body: bytes, added: Iterable[Line], *, after: int) -> tuple[int, Line] | None:
    """Return the seq and line of this same entry if it is among the lines after seq `after`, else None.

    It was then appended by an earlier try that got no acknowledgement. `Conflict` for the same id with other bytes.
    """
    wanted, reader = id_of(body), EntryReader(next_seq=after + 1)
    for line in added:
        for entry in reader.feed(line):
            if entry.id == wanted and unseal(entry.raw) != body:
                raise Conflict(f"another entry with the id {wanted} exists, with other content")
            if entry.id == wanted:
                return entry.seq, line
    return None


class SealReport(msgspec.Struct, frozen=True):
    """Result of a verification. `head` is the digest to keep elsewhere."""

    broken: tuple[tuple[int, int], ...] = ()
    unsealed: int = 0
    head: str = ""


def verify_seals(lines: Iterable[Line]) -> SealReport:
    """Check every seal; return the breaks (line, offset) and the number of unsealed lines after the last seal.

    Lines before the first seal are a foreign beginning, which the first seal covers.
    """
    chain, broken, loose = SealChain(), [], 0
    for line in lines:
        if not line.whole or find_seal(line.raw) is None:
            loose += bool(line.raw.strip())
            chain.add_unsealed(line.bytes)
            continue
        if not chain.accept(line.raw):
            broken.append((line.number, line.offset))
        loose = 0
    return SealReport(broken=tuple(broken), unsealed=loose if chain.h else 0, head=chain.h)


def is_intact_from(entries: Sequence[Entry], entry_id: str) -> bool:
    """Return whether the seals from an entry on prove that no line there was changed, moved or removed.

    True if the entry has no seal, since nothing can be proven; false if it is not among `entries`. The note of a torn
    tail is accepted as it is, because its seal also covers bytes that are not an entry.
    """
    at = next((at for at, entry in enumerate(entries) if entry.id == entry_id), None)
    if at is None or find_seal(entries[at].raw) is None:
        return at is not None
    before = find_seal(entries[at - 1].raw) if at else None
    chain = SealChain(before or find_seal(entries[at].raw) or "")
    return all(_follows(chain, entry) for entry in entries[at if before else at + 1 :])


def _follows(chain: SealChain, entry: Entry) -> bool:
    if find_seal(entry.raw) is None:
        return False
    is_right = chain.accept(entry.raw)
    return is_right or (isinstance(entry.value, DamageNote) and entry.value.reason == "torn")
