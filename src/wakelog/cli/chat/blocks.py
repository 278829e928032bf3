"""Split streamed Markdown into finished blocks; the unfinished block is kept.

Pure.
Rule 1: the blocks depend only on the text, not on how it was cut into pieces.
Rule 2: a block that was returned is never taken back, so a line is judged only when it has ended.
Rule 3: no line with content is lost. A fence stays whole; so does a list, also with blank lines between its items.
"""

import re

_FENCE = re.compile(r"( *)(`{3,}(?=[^`]*$)|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_BULLET = re.compile(r" {0,3}(?:[-+*]|[0-9]{1,9}[.)])(?:\s|$)")
_INDENTED = re.compile(r" {2,}|\t")
_NEAR = 3


class Splitter:
    """Splits one streamed text."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._gap = 0
        self._fence: tuple[int, str] | None = None
        self._tail: list[str] = []

    def feed(self, text: str) -> list[str]:
        """Add more of the text; return the blocks that it finishes."""
        first, *others = text.split("\n")
        self._tail.append(first)
        if not others:
            return []
        ended = ["".join(self._tail), *others[:-1]]
        self._tail = [others[-1]]
        return [block for line in ended for block in self._take(line.removesuffix("\r"))]

    def finish(self) -> list[str]:
        """End the text; return what is left as blocks."""
        last = "".join(self._tail).removesuffix("\r")
        self._tail = []
        return [*(self._take(last) if last else ()), *self._cut()]

    def rest(self, most: int, chars: int = 4_000) -> list[str]:
        """Return the last lines of the unfinished block, bounded so that a long one costs no more than a short one."""
        self._tail = ["".join(self._tail)]
        open_line = self._tail[0][-chars:]
        blank = [""] * (self._gap if open_line else 0)
        lines = [*self._lines[-most:], *blank, *([open_line] if open_line else ())]
        return [line[-chars:] for line in lines[-most:]]

    def _take(self, line: str) -> list[str]:
        if self._fence is not None:
            return self._take_fenced(line, *self._fence)
        if not line.strip():
            return self._take_blank()
        left = self._cut() if self._breaks(line) else []
        self._lines += [""] * self._gap
        self._gap = 0
        self._lines.append(line)
        opening = _FENCE.match(line)
        if opening and (self._is_list or len(opening[1]) <= _NEAR):
            self._fence = (len(opening[1]), opening[2])
        elif _HEADING.match(line) and len(self._lines) == 1:
            left += self._cut()
        return left

    def _take_fenced(self, line: str, indent: int, mark: str) -> list[str]:
        self._lines.append(line)
        bare = line.strip()
        near = len(line) - len(line.lstrip(" ")) <= indent + _NEAR
        if near and len(bare) >= len(mark) and bare == mark[0] * len(bare):
            self._fence = None
            return [] if self._is_list else self._cut()
        return []

    def _take_blank(self) -> list[str]:
        """Handle a blank line: a list may continue after it; any other block ends."""
        if self._is_list:
            self._gap += 1
            return []
        return self._cut()

    @property
    def _is_list(self) -> bool:
        return bool(self._lines) and _BULLET.match(self._lines[0]) is not None

    def _breaks(self, line: str) -> bool:
        """Return whether a line begins a new block."""
        if not self._lines:
            return False
        if self._is_list and (_INDENTED.match(line) or (self._gap and _BULLET.match(line))):
            return False
        opening = _FENCE.match(line)
        return self._gap > 0 or _HEADING.match(line) is not None or (opening is not None and len(opening[1]) <= _NEAR)

    def _cut(self) -> list[str]:
        block = "\n".join(self._lines)
        self._lines, self._gap, self._fence = [], 0, None
        return [block] if block else []
