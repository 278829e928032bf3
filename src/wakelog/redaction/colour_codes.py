"""Colour codes of terminals: taken out of a text before it is searched, and put back into what is left of it.

Colours begin and end in the middle of names and values (`grep --color`), so a search through the text with its codes
would miss secrets. Codes inside a secret are removed with it. Codes are also recognised where they are written as text,
as in JSON.
"""

import re
from collections import deque

_CODE = re.compile(r"(?:\x1b|\\{1,7}(?:u001[bB]|x1[bB]|033|e))\[[0-9;]{0,16}[mK]")
# The ending that every code has: a literal first character, so that it is searched for faster than a code.
_ENDING = re.compile(r"\[[0-9;]{0,16}[mK]")
# The end of a text that may be the beginning of a code.
_CUT = re.compile(
    r"(?:\x1b|\\{1,7}(?:u001[bB]|x1[bB]|033|e))(?:\[[0-9;]{0,16})?\Z|\\{1,7}(?:u(?:0(?:01?)?)?|x1?|03?)?\Z"
)
CODE_MAX_CHARS = 32
# Of several codes without text between them, so many are taken out: what is held back of a stream stays bounded.
_TOGETHER_MAX = 8


def without_codes(text: str) -> str:
    """Return a complete text without its colour codes."""
    return ColourCodes().take(text, 0, final=True) if _ENDING.search(text) else text


def code_lengths(text: str) -> list[tuple[int, int]]:
    """Return the place of each colour code in the text without its codes, and its length."""
    codes = ColourCodes()
    if _ENDING.search(text):
        codes.take(text, 0, final=True)
    return codes.lengths


class ColourCodes:
    """The colour codes of a text that arrives in pieces, by the place they had in the text without them."""

    def __init__(self) -> None:
        # A code stands before the character at its place. Places are in ascending order.
        self._codes: deque[tuple[int, str]] = deque()
        self._cut = ""
        self._together = 0

    @property
    def cut(self) -> str:
        """The end of the last piece, if it may be the beginning of a code."""
        return self._cut

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """The place and the length of each code that was taken out and not put back yet."""
        return [(place, len(code)) for place, code in self._codes]

    def may_occur(self, piece: str) -> bool:
        """Whether the next piece, or the text before it that is not returned yet, may have codes."""
        return self._together > 0 or self._cut != "" or bool(self._codes) or "\x1b" in piece or "\\" in piece

    def take(self, piece: str, size: int, *, final: bool) -> str:
        """Return the next piece without its codes. `size` is the length of the text before it."""
        piece = self._cut + piece
        cut = None if final else _CUT.search(piece, max(0, len(piece) - CODE_MAX_CHARS))
        end = cut.start() if cut else len(piece)
        self._cut = piece[end:]
        plain, at = [], 0
        for code in _CODE.finditer(piece, 0, end):
            if code.start() > at:
                self._together = 0
            self._together += 1
            if self._together <= _TOGETHER_MAX:
                plain.append(piece[at : code.start()])
                size += code.start() - at
                self._codes.append((size, code.group()))
                at = code.end()
        if end > at:
            self._together = 0
        plain.append(piece[at:end])
        return "".join(plain)

    def put_back(self, text: str, begin: int, end: int, *, final: bool = False) -> str:
        """Return a part of the text with its codes; with `final` also those at its end. Codes before it are dropped."""
        if not self._codes:
            return text[begin:end]
        given: list[str] = []
        at = begin
        while self._codes and (self._codes[0][0] < end or (final and self._codes[0][0] == end)):
            place, code = self._codes.popleft()
            if place >= begin:
                given += (text[at:place], code)
                at = place
        return "".join((*given, text[at:end]))

    def shift(self, count: int) -> None:
        """Drop so many characters at the beginning of the text."""
        self._codes = deque((place - count, code) for place, code in self._codes if place >= count)
