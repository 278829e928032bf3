"""Find the line of each key in a TOML text; the parser of the standard library gives the values without positions.

Pure, for texts that the parser has accepted: values are skipped, not validated. Paths contain names, and numbers for
the elements of lists. A table has the line where it is first named. If the scan fails, the lines found so far are
returned, and a caller uses the line of the nearest enclosing table for the rest.
"""

import re
from bisect import bisect_right

ScanPath = tuple[str | int, ...]
# Deeper than any known key. Deeper values get the line of what encloses them, so hostile nesting costs nothing.
_DEPTH_MAX = 12
# The parser's time and memory grow with the square of the number of parts of a dotted key.
_PARTS_MAX = 64
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")


class _UnexpectedSyntax(Exception):
    """The text does not match the expected syntax."""


def key_lines(text: str) -> dict[ScanPath, int]:
    """Return the line, counted from 1, of every table, key and element."""
    scan = _Scanner(text)
    try:
        scan.document()
    except (_UnexpectedSyntax, RecursionError):
        return scan.lines
    return scan.lines


def line_of_overlong_key(text: str) -> int:
    """Return the line of a key too long for the parser, in a text it has not parsed yet; 0 if there is none."""
    if all(line.count(".") < _PARTS_MAX for line in text.split("\n")):
        return 0
    scan = _Scanner(text)
    try:
        scan.document()
    except (_UnexpectedSyntax, RecursionError):
        # The rest cannot be scanned, so the text is not given to the parser.
        return scan.line
    return 0


def _child_path(path: ScanPath, key: str | int) -> ScanPath:
    return (*path, key) if len(path) < _DEPTH_MAX else path


class _Scanner:
    """Scanner of one text; `lines` has the line of each path found so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[ScanPath, int] = {}
        self._ends = [found.start() for found in re.finditer("\n", text)]
        self._lists: dict[ScanPath, int] = {}

    def document(self) -> None:
        """Scan headers and the keys below them."""
        table: ScanPath = ()
        self._blank()
        while self.at < len(self.text):
            if self.text.startswith("[[", self.at):
                table = self._list_header()
            elif self.text.startswith("[", self.at):
                table = self._header()
            else:
                self._pair(table)
            self._blank()

    def _header(self) -> ScanPath:
        self._sign("[")
        line, keys = self.line, self._keys()
        self._sign("]")
        return self._note((), keys, line)

    def _list_header(self) -> ScanPath:
        """Scan `[[name]]`: the next element of a list of tables."""
        self._sign("[[")
        line, keys = self.line, self._keys()
        self._sign("]]")
        path = _child_path(self._note((), keys[:-1], line), keys[-1])
        self.lines.setdefault(path, line)
        self._lists[path] = self._lists.get(path, 0) + 1
        element = _child_path(path, self._lists[path] - 1)
        self.lines.setdefault(element, line)
        return element

    def _pair(self, table: ScanPath) -> None:
        line, keys = self.line, self._keys()
        path = self._note(table, keys, line)
        self._sign("=")
        self._value(path)

    def _note(self, table: ScanPath, keys: tuple[str, ...], line: int) -> ScanPath:
        """Record the line of each part of a key; a list of tables on the path stands for its last element."""
        path = table
        for key in keys:
            path = _child_path(path, key)
            self.lines.setdefault(path, line)
            if path in self._lists:
                path = _child_path(path, self._lists[path] - 1)
        return path

    def _value(self, path: ScanPath) -> None:
        self._blank()
        match self.text[self.at : self.at + 1]:
            case "[":
                self._list(path)
            case "{":
                self._inline_table(path)
            case '"' | "'":
                self._take(_STRING)
            case _:
                self._take(_SCALAR)

    def _list(self, path: ScanPath) -> None:
        self._sign("[")
        number = 0
        while not self._closes("]"):
            element = _child_path(path, number)
            self.lines.setdefault(element, self.line)
            self._value(element)
            number += 1
            self._comma()

    def _inline_table(self, path: ScanPath) -> None:
        self._sign("{")
        while not self._closes("}"):
            self._pair(path)
            self._comma()

    # ── tokens ───────────────────────────────────────────────────────────────────────────────────

    @property
    def line(self) -> int:
        """The line of the next token."""
        self._blank()
        return bisect_right(self._ends, self.at - 1) + 1

    def _keys(self) -> tuple[str, ...]:
        keys = [self._key()]
        while self._closes("."):
            keys.append(self._key())
            if len(keys) > _PARTS_MAX:
                raise _UnexpectedSyntax
        return tuple(keys)

    def _key(self) -> str:
        self._blank()
        if self.text[self.at : self.at + 1] not in ('"', "'"):
            return self._take(_BARE)
        # Quoted keys are rare; the caller has loaded the parser already.
        import tomllib  # noqa: PLC0415

        key: str = tomllib.loads(f"key = {self._take(_STRING)}")["key"]
        return key

    def _closes(self, sign: str) -> bool:
        """Return whether this sign is next, and skip it if so."""
        self._blank()
        here = self.text.startswith(sign, self.at)
        self.at += len(sign) if here else 0
        return here

    def _comma(self) -> None:
        self._closes(",")

    def _sign(self, sign: str) -> None:
        if not self._closes(sign):
            raise _UnexpectedSyntax

    def _blank(self) -> None:
        blank = _BLANK.match(self.text, self.at)
        self.at = blank.end() if blank is not None else self.at

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise _UnexpectedSyntax
        self.at = match.end()
        return match[0]
