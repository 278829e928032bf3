"""Splitting log bytes into lines and decoding entries; everything unreadable is reported as damage, never dropped.

Rule 1: only LF ends a line; U+2028, CR, VT and similar characters are ordinary content.
Rule 2: damage is confined to its own bytes. A bad line is reported with its place and reason, complete records joined
on one line are all read, and a record that follows a torn fragment is found.
Rule 3: every loop is bounded for any content; a line over the size limit is skipped in slices.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from wakelog.log.codec import LINE_MAX_BYTES, Undecodable, decode
from wakelog.log.entry import Body, DamageNote, Entry
from wakelog.log.ids import digest_of
from wakelog.log.seal import SEAL_BYTES, SealState, SealVerifier, find_seal, find_seq, is_changed_header

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
# The bytes a record starts with, and how many bytes are searched for records on one line.
_RECORD_START = b'{"'
_SEARCH_BYTES_MAX = 64 * 1024 * 1024
# A seq above this limit was not assigned by wakelog; the entry is numbered by its position instead.
_SEQ_LIMIT = 10**15


class Line(msgspec.Struct, frozen=True, gc=False):
    """One line as stored. `whole` is false for each slice of a line over the size limit."""

    raw: bytes
    offset: int = 0
    number: int = 0
    ended: bool = True
    whole: bool = True

    @property
    def bytes(self) -> bytes:
        """The stored bytes, including the LF if there is one."""
        return self.raw + b"\n" if self.ended else self.raw


class Damage(msgspec.Struct, frozen=True):
    """A defect in a log, with its place and reason.

    `digest` is the digest of the damaged bytes or, where lines are missing, of the line after the gap. `session` is the
    session whose log is damaged, if that is not the session being read but one it was forked from.
    """

    kind: DamageKind
    line: int
    offset: int
    size: int
    reason: str
    digest: str = ""
    session: str = ""

    @property
    def may_hide_entries(self) -> bool:
        """Whether an acknowledged entry may have been in this place."""
        return self.kind in ("unreadable", "changed", "missing", "too long", "newer")


class TornTail(msgspec.Struct, frozen=True):
    """Bytes at the end of a log that are not a line: an append that was cut short and never acknowledged."""

    offset: int
    raw: bytes


def split_lines(blocks: Iterable[bytes], *, offset: int = 0, number: int = 1) -> Iterator[Line]:
    """Split a stream of blocks into lines, with at most one line (up to the size limit) in memory.

    With `number` 0 the lines are not numbered, for a stream that does not start at the start of the log.
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


def split_lines_backwards(blocks: Iterable[bytes], *, end: int) -> Iterator[Line]:
    """Split blocks, given from the last to the first, into lines from the last to the first.

    `end` is the offset at which the last block ends. A line over the size limit ends the iteration with a line that is
    not `whole`.
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
    """Yield the lines after the entry with seq `after`, damaged ones included; lines without a seq are counted."""
    reader, lines = EntryReader(), iter(lines)
    for line in lines:
        seq = find_seq(line.raw) if line.whole and line.ended else None
        # A torn append may contain a seq that was assigned to another entry later.
        if (reader.next_seq if seq is None else seq) > after:
            yield line
            yield from lines
        elif seq is not None:
            reader.next_seq = seq + 1
        else:
            reader.feed(line)


class EntryReader:
    """Turns lines into entries and collects damage. Lines must be fed in log order.

    With `seals` every seal is verified, else that of the first line only, which says whose session it is. A line whose
    seal shows that it was changed counts as unreadable.
    """

    def __init__(self, *, next_seq: int = 0, seals: SealVerifier | None = None) -> None:
        self.next_seq = next_seq
        self._seals = seals
        self._damage_before_last_valid_seal = 0
        self.damage: list[Damage] = []
        self.noted: list[Damage] = []
        self.torn: TornTail | None = None

    def feed(self, line: Line) -> list[Entry]:
        """Return the entries of one line: usually one, none if it is blank or damaged, several if records are glued."""
        return self.feed_all((line,))

    def feed_all(self, lines: Iterable[Line]) -> list[Entry]:
        """Return the entries of many lines."""
        found: list[Entry] = []
        for line in lines:
            raw = line.raw
            if (self._seals is not None or line.offset == 0) and not self._passes_seal_check(line):
                continue
            if not line.whole:
                self._skip_oversized(line)
                continue
            try:
                value = decode(raw)
            except Undecodable as error:
                found += self._read_fragments(line, error) if raw.strip() else ()
                continue
            if value.seq == self.next_seq and not self.damage:
                # Fast path for the common case: an undamaged line with the expected seq.
                self.next_seq += 1
                found.append(Entry(raw, value, value.seq, line.offset, line.number))
            else:
                found.append(self._entry(value, raw, line.offset, line.number))
        return found

    def _passes_seal_check(self, line: Line) -> bool:
        """Verify the seal of a line. False for a line that decodes but was changed: it is not an entry."""
        state = self._seal_state(line)
        if state == "right":
            self._damage_before_last_valid_seal = len(self.damage)
        elif state == "changed" and _decodes(line.raw, is_header=line.offset == 0):
            self._report(line, "changed", "the line was changed after it was written: its seal does not match")
            self._count_unreadable(line.raw, acknowledged=True)
            return False
        elif state == "unproven" and not any(
            defect.may_hide_entries for defect in self.damage[self._damage_before_last_valid_seal :]
        ):
            # Bytes before this line do not match its seal, and no damage has been reported there.
            assert self._seals is not None
            reason = self._seals.missing_before(line.raw, self.next_seq)
            self.damage.append(Damage("missing", line.number, line.offset, 0, reason, digest_of(line.raw)))
        return True

    def _seal_state(self, line: Line) -> SealState:
        if self._seals is not None:
            return self._seals.check(line.raw, ended=line.ended, whole=line.whole)
        return "changed" if find_seq(line.raw) in (None, 0) and is_changed_header(line.raw) else "none"

    def _entry(self, value: Body, raw: bytes, offset: int, number: int) -> Entry:
        seq = value.seq
        if seq is None or not 0 <= seq < _SEQ_LIMIT:
            seq = self.next_seq
        self.next_seq = seq + 1
        if self.damage and type(value) is DamageNote and value.reason == "torn":
            self._move_to_noted(value)
        return Entry(raw, value, seq, offset, number)

    def _move_to_noted(self, note: DamageNote) -> None:
        """Move a torn tail that a later entry describes from `damage` to `noted`."""
        known = [defect for defect in self.damage if (defect.offset, defect.size) == (note.offset, note.bytes)]
        self.noted += known
        self.damage = [defect for defect in self.damage if defect not in known]

    def _skip_oversized(self, line: Line) -> None:
        size, last_slice = len(line.raw), digest_of(line.raw)
        if self.damage and self.damage[-1].kind == "too long" and self.damage[-1].line == line.number:
            before = self.damage.pop()
            line, size = Line(b"", before.offset, before.line), before.size + size
        reason = f"a line over {LINE_MAX_BYTES:,} bytes is not read"
        # Only the last slice is in memory; its digest and the offset still identify this damage.
        self.damage.append(Damage("too long", line.number, line.offset, size, reason, last_slice))

    def _read_fragments(self, line: Line, error: Undecodable) -> list[Entry]:
        """Return the entries that can be read from a line that is not one valid entry."""
        if error.envelope is not None:
            self._report(line, "newer" if error.newer else "unreadable", error.reason)
            return [self._entry(error.envelope, line.raw, line.offset, line.number)]
        found, fragment = joined_records(line.raw)
        if fragment:
            kind: DamageKind = "torn" if not line.ended and not found and _may_be_torn(fragment) else "unreadable"
            what = "a line cut short" if kind == "torn" else error.reason
            self.damage.append(Damage(kind, line.number, line.offset, len(fragment), what, digest_of(fragment)))
            self._count_unreadable(fragment, acknowledged=kind != "torn")
            if kind == "torn":
                self.torn = TornTail(line.offset, line.raw)
        else:
            self._report(line, "glued", f"{len(found)} records on one line")
        return [self._entry(value, raw, line.offset + at, line.number) for at, raw, value in found]

    def _count_unreadable(self, fragment: bytes, *, acknowledged: bool) -> None:
        """Keep the seq of a sealed line that was damaged later, so that it is not assigned again."""
        seq = find_seq(fragment)
        if acknowledged and seq is not None:
            self.next_seq = seq + 1

    def _report(self, line: Line, kind: DamageKind, reason: str) -> None:
        self.damage.append(Damage(kind, line.number, line.offset, len(line.raw), reason, digest_of(line.raw)))


def joined_records(raw: bytes) -> tuple[list[tuple[int, bytes, Body]], bytes]:
    """Return the complete records at the end of a line, as (offset, bytes, value), and the fragment before them.

    Every possible start of a record is tried, from right to left. Bytes that decode up to the end are a record unless
    they may be part of the fragment before them: a line that was cut after a tool call, or after an entry inside a
    compaction's state, ends in a complete object.
    """
    found: list[tuple[int, bytes, Body]] = []
    end = limit = len(raw)
    budget = _SEARCH_BYTES_MAX
    while budget > 0 and (at := raw.rfind(_RECORD_START, 0, limit)) >= 0:
        limit, budget = at + 1, budget - (end - at) - 1_000
        value = _decode_record(raw[at:end])
        if value is not None and not _may_be_nested(raw, at, end):
            found.append((at, raw[at:end], value))
            end = at
    return found[::-1], raw[:end]


def _may_be_nested(raw: bytes, at: int, end: int) -> bool:
    """Return whether the object at `at` may be a JSON value inside another; an object with its own seal is a record."""
    before = raw[max(0, at - 16) : at].rstrip()
    return before.endswith((b":", b",", b"[")) and find_seal(raw[at:end]) is None


def _may_be_torn(fragment: bytes) -> bool:
    """Return whether bytes at the end of a log can be an append that was cut short: they start like a line.

    Other bytes may be an acknowledged line that was overwritten, unless they are too few for a line.
    """
    return len(fragment) <= SEAL_BYTES or (fragment.startswith(b"{") and b"\0" not in fragment)


def _decodes(raw: bytes, *, is_header: bool) -> bool:
    """Return whether a line is one entry. A header may be of a newer format: its seal is the same in every format."""
    try:
        decode(raw)
    except Undecodable as error:
        return is_header and error.newer is not None
    return True


def _decode_record(raw: bytes) -> Body | None:
    try:
        return decode(raw)
    except Undecodable as error:
        return error.envelope
