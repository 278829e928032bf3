"""Erase the live area correctly after the terminal became narrower.

Most terminals rewrap lines that no longer fit. The live area then takes more rows than were drawn, and moving up by
the drawn number of rows would stop halfway and leave the rest. So the rows are counted as such a terminal wraps them,
before anything is erased. Terminals that cut lines instead are recognised by their name, if they set one. Rows that
were scrolled out of the terminal stay: no program can reach them.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout import Layout
from prompt_toolkit.layout.screen import Char, Screen
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import BaseStyle

from wakelog.cli.chat.steady import Steady

_CUTTING = ("linux", "screen", "vt")


def breaks_lines(environment: Mapping[str, str]) -> bool:
    """Return whether a terminal rewraps lines. Of nested terminals the inner one counts."""
    if environment.get("TMUX"):
        return True
    cuts = environment.get("STY") or environment.get("XTERM_VERSION")
    return not cuts and not environment.get("TERM", "").startswith(_CUTTING)


def keeps_what_was_longer(environment: Mapping[str, str]) -> bool:
    """Return whether a terminal rewraps a line as if its erased end were still there (tmux)."""
    return bool(environment.get("TMUX"))


def rows_of(widths: Iterable[int], columns: int) -> int:
    """Return the number of rows for graphemes of these widths; one that does not fit begins a new row."""
    rows, taken = 1, 0
    for width in widths:
        if taken + width > columns:
            rows, taken = rows + 1, 0
        taken += width
    return rows


def rows_added(screen: Screen, cursor: Point, columns: int) -> int:
    """Return how many more rows are above the cursor after what was drawn is rewrapped."""
    above = sum(rows_of(_widths(screen.data_buffer[row]), columns) - 1 for row in range(cursor.y))
    return above + cursor.x // columns


def _widths(row: Mapping[int, Char]) -> list[int]:
    """Return the widths of the cells of a row, gaps included, up to the last visible character."""
    # A wide character is followed by a cell of width 0, which adds nothing.
    return [row[at].width if at in row else 1 for at in range(_length(row))]


def _length(row: Mapping[int, Char]) -> int:
    return max((at + 1 for at, cell in row.items() if cell.char.strip()), default=0)


def _lengths(screen: Screen | None) -> list[int]:
    return [] if screen is None else [_length(screen.data_buffer[row]) for row in range(screen.height)]


def _shorter(before: Sequence[int], now: Sequence[int]) -> list[int]:
    """Return the rows that have become shorter."""
    return [row for row, length in enumerate(before) if length > (now[row] if row < len(now) else 0)]


class Reflowing(Renderer):
    """A renderer that erases the last frame wherever the terminal has moved it."""

    def __init__(self, style: BaseStyle, output: Steady) -> None:
        self._steady = output
        self._columns = 0
        self._cursor = Point(0, 0)
        super().__init__(style, output)

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:  # noqa: FBT001, FBT002
        """See `Renderer`. The resize event may arrive after the first frame of the new width."""
        with self._steady.whole():
            if self._is_narrower:
                self.erase(leave_alternate_screen=False)
            before = _lengths(self.last_rendered_screen)
            super().render(app, layout, is_done)
            screen = self.last_rendered_screen
            if screen is None:
                return
            self._columns = self.output.get_size().columns
            self._cursor = screen.get_cursor_position(layout.current_window)
            if keeps_what_was_longer(os.environ) and (shorter := _shorter(before, _lengths(screen))):
                self._empty(screen, shorter)
                super().render(app, layout, is_done)

    def erase(self, leave_alternate_screen: bool = True) -> None:  # noqa: FBT001, FBT002
        """See `Renderer`."""
        with self._steady.whole():
            if self._is_narrower and self._cursor.y and breaks_lines(os.environ):
                self._blank()
            super().erase(leave_alternate_screen)

    @property
    def _is_narrower(self) -> bool:
        return self.last_rendered_screen is not None and self.output.get_size().columns < self._columns

    def _blank(self) -> None:
        """Blank the rows of the frame, and leave the cursor as far below its first row as it was drawn.

        The first row is blanked separately: some terminals keep a screen that is erased from its very top.
        """
        screen, rows, output = self.last_rendered_screen, self._cursor.y, self.output
        assert screen is not None
        output.cursor_up(rows + rows_added(screen, self._cursor, output.get_size().columns))
        output.write_raw("\r\x1b[2K")
        output.cursor_down(1)
        output.erase_down()
        output.cursor_down(rows - 1)

    def _empty(self, screen: Screen, rows: Sequence[int]) -> None:
        """Clear rows completely; the next frame writes them again."""
        for row in rows:
            away = self._cursor.y - row
            (self.output.cursor_up if away > 0 else self.output.cursor_down)(abs(away))
            self.output.write_raw("\r\x1b[2K")
            (self.output.cursor_down if away > 0 else self.output.cursor_up)(abs(away))
            screen.data_buffer[row].clear()
        self.output.cursor_forward(self._cursor.x)
