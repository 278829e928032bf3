"""From bytes to entries: lines split at LF, decoded, and whatever cannot be read reported, never dropped.

Rule 1: lines end at LF and nowhere else; U+2028, CR, VT and friends are ordinary bytes.
Rule 2: damage costs only itself. A bad line is reported with its place and reason, complete records
glued together are all read, and a record behind a torn fragment is found again.
Rule 3: every loop here is bounded, whatever a line holds; a line over the limit is stepped over in slices.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from wakelog.log.codec import LINE_MAX_BYTES, Undecodable, decode
from wakelog.log.digest import digest_of
from wakelog.log.entry import Body, DamageNote, Entry
from wakelog.log.seal import SEAL_BYTES, SealCheck, seal_of, seq_of

DamageKind: TypeAlias = Literal[
    "torn",
    "unreadable",
    "changed",
    "missing",
    "glued",
    "too long",
    "newer",
    "repeated",
    "bridged",
    "orphan",
    "origin",
]
# Where a record may begin behind a fragment, and how many bytes may be tried in search of one.
_RECORD_START = b'{"'
_SEARCH_BYTES_MAX = 64 * 1024 * 1024
# No session gets this far: a line that says so was not sealed by us, and is counted by its place.
_SEQ_LIMIT = 10**15


class Line(msgspec.Struct, frozen=True, gc=False):
    """One line as stored. `whole` is false for each slice of a line that is over the limit."""

    raw: bytes
    offset: int = 0
    number: int = 0
    ended: bool = True
    whole: bool = True

    @property
    def bytes(self) -> bytes:
        """The bytes as stored, LF included."""
        return self.raw + b"\n" if self.ended else self.raw


class Damage(msgspec.Struct, frozen=True):
    """Something in a log that is not as it should be: where, and why.

    `digest` is that of the damaged bytes; where lines are missing, that of the line behind the gap. `session` names
    the session whose log this is about, if that is not the one being read but one it was forked from.
    """

    kind: DamageKind
    line: int
    offset: int
    size: int
    reason: str
    digest: str = ""
    session: str = ""

    @property
    def hides(self) -> bool:
        """Whether an entry that was acknowledged may have stood here."""
        return self.kind in ("unreadable", "changed", "missing", "too long", "newer")


class Torn(msgspec.Struct, frozen=True):
    """Bytes at the end of a log that are no line: an append that was cut short and never acknowledged."""

    offset: int
    raw: bytes


def split(blocks: Iterable[bytes], *, offset: int = 0, number: int = 1) -> Iterator[Line]:
    """Cuts a stream of blocks into lines, holding at most one line (up to the limit) in memory.

    A number of 0 leaves the lines uncounted, for a stream that does not begin at the beginning.
    """
    rest, slicing, step = b"", False, int(number > 0)
    for block in blocks:
        *lines, rest = (rest + block if rest else block).split(b"\n")
        for raw in lines:
            if slicing or len(raw) > LINE_MAX_BYTES:
                yield Line(raw, offset, number, True, False)
                slicing = False
            else:
                yield Line(raw, offset, number)
            offset += len(raw) + 1
            number += step
        if len(rest) > LINE_MAX_BYTES:
            yield Line(rest, offset, number, False, False)
            offset, rest, slicing = offset + len(rest), b"", True
    if rest:
        yield Line(rest, offset, number, False, not slicing)


def split_backwards(blocks: Iterable[bytes], *, end: int) -> Iterator[Line]:
    """Cuts blocks that come from the last to the first into lines, from the last to the first.

    `end` is where the last block ends. A line over the limit ends the walk as one that is not whole.
    """
    rest, start, ended = b"", end, False
    for block in blocks:
        start -= len(block)
        rest, *lines = (block + rest).split(b"\n")
        at = start + len(rest) + sum(map(len, lines)) + len(lines)
        for raw in reversed(lines):
            at -= len(raw)
            if raw or ended:
                yield Line(raw, at, 0, ended, len(raw) <= LINE_MAX_BYTES)
            at -= 1
            ended = True
        if len(rest) > LINE_MAX_BYTES:
            yield Line(b"", start, 0, ended, whole=False)
            return
    if rest or ended:
        yield Line(rest, start, 0, ended)


def lines_after(lines: Iterable[Line], after: int) -> Iterator[Line]:
    """The lines behind the entry with that seq, damage included; a line that tells no seq is counted."""
    reader, lines = Reader(), iter(lines)
    for line in lines:
        seq = seq_of(line.raw) if line.whole and line.ended else None
        # A torn append may name a seq that was given to another entry afterwards.
        if (reader.next_seq if seq is None else seq) > after:
            yield line
            yield from lines
        elif seq is not None:
            reader.next_seq = seq + 1
        else:
            reader.feed(line)


class Reader:
    """A fold over lines: entries come out, damage is collected. Feed it in the order of the log.

    With `seals` every seal is verified, and a line whose seal shows that it was changed counts as unreadable.
    """

    def __init__(self, *, next_seq: int = 0, seals: SealCheck | None = None) -> None:
        self.next_seq = next_seq
        self._seals = seals
        self._proven_damage = 0
        self.damage: list[Damage] = []
        self.noted: list[Damage] = []
        self.torn: Torn | None = None

    def feed(self, line: Line) -> list[Entry]:
        """The entries of one line: one, mostly; none if it is blank or damaged; several if glued."""
        return self.feed_all((line,))

    def feed_all(self, lines: Iterable[Line]) -> list[Entry]:
        """The entries of many lines."""
        found: list[Entry] = []
        for line in lines:
            raw = line.raw
            if self._seals is not None and not self._passes(line, self._seals):
                continue
            if not line.whole:
                self._step_over(line)
                continue
            try:
                value = decode(raw)
            except Undecodable as error:
                found += self._pieces(line, error) if raw.strip() else ()
                continue
            if value.seq == self.next_seq and not self.damage:
                # The ordinary line of an ordinary log, told apart here because there are so many of them.
                self.next_seq += 1
                found.append(Entry(raw, value, value.seq, line.offset, line.number))
            else:
                found.append(self._entry(value, raw, line.offset, line.number))
        return found

    def _passes(self, line: Line, seals: SealCheck) -> bool:
        """Verifies a line's seal. False for a line that decodes and is not what was written: it is not an entry."""
        state = seals.check(line.raw, ended=line.ended, whole=line.whole)
        if state == "right":
            self._proven_damage = len(self.damage)
        elif state == "changed" and _decodes(line.raw):
            self._report(line, "changed", "the line was changed after it was written: its seal does not match")
            self._count_unreadable(line.raw, acknowledged=True)
            return False
        elif state == "unproven" and not any(hurt.hides for hurt in self.damage[self._proven_damage :]):
            # Something before this line is wrong, and nothing has been reported there.
            reason = seals.missing_before(line.raw, self.next_seq)
            self.damage.append(Damage("missing", line.number, line.offset, 0, reason, digest_of(line.raw)))
        return True

    def _entry(self, value: Body, raw: bytes, offset: int, number: int) -> Entry:
        seq = value.seq
        if seq is None or not 0 <= seq < _SEQ_LIMIT:
            seq = self.next_seq
        self.next_seq = seq + 1
        if self.damage and type(value) is DamageNote and value.reason == "torn":
            self._note(value)
        return Entry(raw, value, seq, offset, number)

    def _note(self, note: DamageNote) -> None:
        """A torn tail that a later append has noted is known, and no longer news."""
        known = [hurt for hurt in self.damage if (hurt.offset, hurt.size) == (note.offset, note.bytes)]
        self.noted += known
        self.damage = [hurt for hurt in self.damage if hurt not in known]

    def _step_over(self, line: Line) -> None:
        size, last_slice = len(line.raw), digest_of(line.raw)
        if self.damage and self.damage[-1].kind == "too long" and self.damage[-1].line == line.number:
            before = self.damage.pop()
            line, size = Line(b"", before.offset, before.line), before.size + size
        reason = f"a line over {LINE_MAX_BYTES:,} bytes is not read"
        # Only the last slice is at hand: its digest, with the offset, still names this damage and no other.
        self.damage.append(Damage("too long", line.number, line.offset, size, reason, last_slice))

    def _pieces(self, line: Line, error: Undecodable) -> list[Entry]:
        """What a line that is not one entry still holds."""
        if error.envelope is not None:
            self._report(line, "newer" if error.newer else "unreadable", error.reason)
            return [self._entry(error.envelope, line.raw, line.offset, line.number)]
        found, fragment = glued_records(line.raw)
        if fragment:
            kind: DamageKind = "torn" if not line.ended and not found and _may_be_torn(fragment) else "unreadable"
            what = "a line cut short" if kind == "torn" else error.reason
            self.damage.append(Damage(kind, line.number, line.offset, len(fragment), what, digest_of(fragment)))
            self._count_unreadable(fragment, acknowledged=kind != "torn")
            if kind == "torn":
                self.torn = Torn(line.offset, line.raw)
        else:
            self._report(line, "glued", f"{len(found)} records on one line")
        return [self._entry(value, raw, line.offset + at, line.number) for at, raw, value in found]

    def _count_unreadable(self, fragment: bytes, *, acknowledged: bool) -> None:
        """A sealed line that was damaged later keeps its place: nobody else may get its seq."""
        seq = seq_of(fragment)
        if acknowledged and seq is not None:
            self.next_seq = seq + 1

    def _report(self, line: Line, kind: DamageKind, reason: str) -> None:
        self.damage.append(Damage(kind, line.number, line.offset, len(line.raw), reason, digest_of(line.raw)))


def glued_records(raw: bytes) -> tuple[list[tuple[int, bytes, Body]], bytes]:
    """Complete records at the end of a line, as (offset, bytes, value), and the fragment before them.

    Going from the right, every place where a record could begin is tried. What decodes up to the end
    is a record, unless it may be a part of the fragment before it: a line cut behind a tool call, or
    behind an entry that a fold carries, ends in a whole object.
    """
    found: list[tuple[int, bytes, Body]] = []
    end = limit = len(raw)
    budget = _SEARCH_BYTES_MAX
    while budget > 0 and (at := raw.rfind(_RECORD_START, 0, limit)) >= 0:
        limit, budget = at + 1, budget - (end - at) - 1_000
        value = _record(raw[at:end])
        if value is not None and not _may_be_nested(raw, at, end):
            found.append((at, raw[at:end], value))
            end = at
    return found[::-1], raw[:end]


def _may_be_nested(raw: bytes, at: int, end: int) -> bool:
    """Whether the object at `at` stands where JSON wants a value. One with a seal of its own is a record anyway."""
    before = raw[max(0, at - 16) : at].rstrip()
    return before.endswith((b":", b",", b"[")) and seal_of(raw[at:end]) is None


def _may_be_torn(fragment: bytes) -> bool:
    """Whether bytes at the end of a log can be an append that was cut short: those begin like a line.

    Other bytes may have been an acknowledged line before they were overwritten, unless they are too few for one.
    """
    return len(fragment) <= SEAL_BYTES or (fragment.startswith(b"{") and b"\0" not in fragment)


def _decodes(raw: bytes) -> bool:
    try:
        decode(raw)
    except Undecodable:
        return False
    return True


def _record(raw: bytes) -> Body | None:
    try:
        return decode(raw)
    except Undecodable as error:
        return error.envelope
