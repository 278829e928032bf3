"""Replacement of text in a file whose secrets a model sees as redaction marks.

A model reads `[redacted: KIND]` where the file has a secret, and quotes the mark in an edit.
Rule 1: a mark in the old text matches one secret that is recognised in the same file and shown as this mark; the text
around it must match exactly. A mark in the new text keeps the secret that the mark in the old text matched, unchanged.
Rule 2: what could be understood in two ways is refused, in one line that says why and holds nothing of a secret.
Rule 3: text without marks never matches a part of a secret, so an edit can neither change a secret nor find out what is
in it. It may match a whole one, which the model then knew.
Rule 4: a secret that stays in the file is still recognised after the edit. Otherwise the next read would show it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from wakelog.errors import UsageError
from wakelog.log.redaction_marks import REDACTION_MARK
from wakelog.redaction.redactor import SecretSpan

FindSecrets: TypeAlias = Callable[[str], Sequence[SecretSpan]]


class Replacement(msgspec.Struct, frozen=True):
    """A text after an edit, and the number of places that were changed."""

    text: str
    count: int


class _Match(msgspec.Struct, frozen=True):
    """A place where the old text matches. `kept` are the secrets that its marks stand for."""

    start: int
    end: int
    kept: tuple[SecretSpan, ...] = ()
    has_literal_mark: bool = False
    """Whether a mark is part of the text of the file, and stands for no secret."""


def replace_text(
    text: str, old: str, new: str, *, name: str, many: bool = False, find_secrets: FindSecrets | None = None
) -> Replacement:
    """Replace `old` by `new` in the text of the file `name`: at its only place, or with `many` at all of them.

    `find_secrets` returns the secrets that are shown as marks, in order; without it a mark is text like any other.
    `UsageError` if the edit is refused.
    """
    if not old:
        raise UsageError("the old text is empty: use write to make a file")
    old_pieces, new_pieces = ([old], [new]) if find_secrets is None else (_pieces(old), _pieces(new))
    spans = () if find_secrets is None else find_secrets(text)
    matches = _find_matches(text, old_pieces, spans)
    if not matches:
        raise UsageError(f"the old text does not stand in {name}{_why_not_found(text, old_pieces, spans)}")
    if len(matches) > 1 and (len(old_pieces) > 1 or not many):
        more = "give more of it" if len(old_pieces) > 1 else "give more of it, or set all"
        raise UsageError(f"the old text stands {len(matches):,} times in {name}: {more}")
    if matches[0].has_literal_mark:
        raise UsageError(f"a mark in the old text is part of the text of {name} and stands for no value: leave it out")
    _check_new_marks(old_pieces, new_pieces)
    edited, remaining = _replaced(text, new_pieces, matches, spans)
    if find_secrets is not None and not _are_within(remaining, find_secrets(edited) if remaining else ()):
        raise UsageError(
            f"cannot edit {name}: a redacted value would no longer be recognised; keep its name and the text around it"
        )
    return Replacement(edited, len(matches))


def _pieces(text: str) -> list[str]:
    """Return the pieces of a text between redaction marks, at even places, and the marks, at odd places."""
    pieces, at = [], 0
    for mark in REDACTION_MARK.finditer(text):
        pieces += [text[at : mark.start()], mark.group()]
        at = mark.end()
    return [*pieces, text[at:]]


def _why_not_found(text: str, pieces: Sequence[str], spans: Sequence[SecretSpan]) -> str:
    crlf_pieces = [piece.replace("\n", "\r\n") for piece in pieces]
    crlf = "; the file's lines end in CRLF" if _find_matches(text, crlf_pieces, spans) else ""
    return crlf + ("; a redacted value is matched by its mark only, at the place where it was read" if spans else "")


# ── matching ─────────────────────────────────────────────────────────────────────────────────────


def _find_matches(text: str, pieces: Sequence[str], spans: Sequence[SecretSpan]) -> list[_Match]:
    """Return the places where a text matches, given as its pieces. None of them begins or ends inside a secret."""
    inside = _Inside(spans)
    return [*(_literal_matches(text, pieces[0], inside) if len(pieces) == 1 else _marked_matches(text, pieces, inside))]


class _Inside:
    """Tells which positions are inside a secret."""

    def __init__(self, spans: Sequence[SecretSpan]) -> None:
        self.spans = spans
        self._starts = [span.start for span in spans]

    def cuts(self, start: int, end: int) -> bool:
        """Whether a stretch of text begins or ends inside a secret."""
        return self._is_inside(start) or self._is_inside(end)

    def _is_inside(self, place: int) -> bool:
        number = bisect_right(self._starts, place) - 1
        return number >= 0 and self.spans[number].start < place < self.spans[number].end


def _literal_matches(text: str, wanted: str, inside: _Inside) -> Iterator[_Match]:
    at = text.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        cuts = inside.cuts(at, end)
        if not cuts:
            yield _Match(at, end)
        at = text.find(wanted, at + 1 if cuts else end)


def _marked_matches(text: str, pieces: Sequence[str], inside: _Inside) -> Iterator[_Match]:
    by_start = {span.start: span for span in inside.spans}
    for place in _places_of_mark(text, pieces[1], inside.spans):
        match = _match_at(text, pieces, place - len(pieces[0]), by_start)
        if match is not None and not inside.cuts(match.start, match.end):
            yield match


def _places_of_mark(text: str, mark: str, spans: Sequence[SecretSpan]) -> list[int]:
    """Return the places of the secrets that are shown as a mark, and of the mark as text."""
    places = {span.start for span in spans if span.mark == mark}
    at = text.find(mark)
    while at >= 0:
        places.add(at)
        at = text.find(mark, at + len(mark))
    return sorted(places)


def _match_at(text: str, pieces: Sequence[str], begin: int, by_start: dict[int, SecretSpan]) -> _Match | None:
    at, kept, has_literal_mark = begin, [], False
    for number, piece in enumerate(pieces if begin >= 0 else ()):
        span = by_start.get(at) if number % 2 else None
        if span is not None and span.mark == piece:
            kept.append(span)
            at = span.end
        elif text.startswith(piece, at):
            has_literal_mark |= number % 2 == 1
            at += len(piece)
        else:
            return None
    return _Match(begin, at, tuple(kept), has_literal_mark) if begin >= 0 else None


# ── replacing ────────────────────────────────────────────────────────────────────────────────────


def _check_new_marks(old: Sequence[str], new: Sequence[str]) -> None:
    """Raise `UsageError` unless the new text has no marks, or all marks of the old text in their order.

    Marks of one kind are alike: of some of them, or in another order, it is unknown which value each one stands for.
    """
    marks = new[1::2]
    if not marks:
        return
    if len(old) == 1:
        raise UsageError("the new text has a mark that the old text lacks: a mark only keeps a value of the old text")
    if marks != old[1::2]:
        raise UsageError("the new text must have all marks of the old text in their order, or none: edit less at once")
    names, new_names = _names_before_marks(old), _names_before_marks(new)
    if any(name != own and name in names for own, name in zip(names, new_names, strict=True)):
        raise UsageError("the new text moves a mark behind the name of another one: edit one of them at a time")


def _names_before_marks(pieces: Sequence[str]) -> list[str]:
    """Return the text on the line before each mark, from the mark before it on, without outer blanks."""
    return [piece.rpartition("\n")[2].strip() for piece in pieces[:-1:2]]


def _replaced(
    text: str, new: Sequence[str], matches: Sequence[_Match], spans: Sequence[SecretSpan]
) -> tuple[str, list[tuple[int, int]]]:
    """Return the edited text, and the start and end of every secret of the old text that is still in it."""
    edited, left = _Text(), list(reversed(spans))
    remaining: list[tuple[int, int]] = []

    def copy(start: int, end: int) -> None:
        while left and left[-1].start < end:
            span = left.pop()
            if span.start >= start:
                shift = edited.size - start
                remaining.append((span.start + shift, span.end + shift))
        edited.add(text[start:end])

    at = 0
    for match in matches:
        copy(at, match.start)
        for number, piece in enumerate(new):
            if number % 2:
                kept = match.kept[number // 2]
                remaining.append((edited.size, edited.size + kept.end - kept.start))
                edited.add(text[kept.start : kept.end])
            else:
                edited.add(piece)
        at = match.end
    copy(at, len(text))
    return "".join(edited.pieces), remaining


class _Text:
    """A text that is put together."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.size = 0

    def add(self, piece: str) -> None:
        self.pieces.append(piece)
        self.size += len(piece)


def _are_within(places: Sequence[tuple[int, int]], spans: Sequence[SecretSpan]) -> bool:
    """Whether each place, given by start and end, is inside one of the secrets; both are in order."""
    starts = [span.start for span in spans]
    numbers = [bisect_right(starts, start) - 1 for start, _ in places]
    return all(number >= 0 and end <= spans[number].end for (_, end), number in zip(places, numbers, strict=True))
