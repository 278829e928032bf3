"""What is live, on a terminal that is made narrower: it is found again where it stands then, and taken away.

Most terminals break a line anew when it no longer fits, also one that a program has ended. What was drawn takes more
rows then than it did, and whoever goes back as many rows as they drew stops halfway and leaves the rest standing. So
the rows are counted as such a terminal breaks them, before anything is erased. A terminal that cuts lines instead is
known by its name, where it says one. What was scrolled out of a terminal stays there: no program can reach it.
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
    """Whether a terminal breaks lines anew. Of two, one in the other, the inner one counts."""
    if environment.get("TMUX"):
        return True
    cuts = environment.get("STY") or environment.get("XTERM_VERSION")
    return not cuts and not environment.get("TERM", "").startswith(_CUTTING)


def keeps_what_was_longer(environment: Mapping[str, str]) -> bool:
    """Whether a terminal breaks a line as if the end that was erased were still there."""
    return bool(environment.get("TMUX"))


def rows_of(widths: Iterable[int], columns: int) -> int:
    """How many rows a line of signs takes: one that does not fit any more begins another."""
    rows, taken = 1, 0
    for width in widths:
        if taken + width > columns:
            rows, taken = rows + 1, 0
        taken += width
    return rows


def rows_added(screen: Screen, cursor: Point, columns: int) -> int:
    """How many rows more stand above the cursor when what was drawn is broken anew."""
    above = sum(rows_of(_widths(screen.data_buffer[row]), columns) - 1 for row in range(cursor.y))
    return above + cursor.x // columns


def _widths(row: Mapping[int, Char]) -> list[int]:
    """The widths of what stands in a row: up to the last sign that can be seen, gaps included."""
    # A wide sign has a cell of no width behind it, which makes nothing wider.
    return [row[at].width if at in row else 1 for at in range(_length(row))]


def _length(row: Mapping[int, Char]) -> int:
    return max((at + 1 for at, cell in row.items() if cell.char.strip()), default=0)


def _lengths(screen: Screen | None) -> list[int]:
    return [] if screen is None else [_length(screen.data_buffer[row]) for row in range(screen.height)]


def _shorter(before: Sequence[int], now: Sequence[int]) -> list[int]:
    """The rows in which less stands than before."""
    return [row for row, length in enumerate(before) if length > (now[row] if row < len(now) else 0)]


class Reflowing(Renderer):
    """Draws frames, and takes the last one away wherever the terminal has put it meanwhile."""

    def __init__(self, style: BaseStyle, output: Steady) -> None:
        self._steady = output
        self._columns = 0
        self._cursor = Point(0, 0)
        super().__init__(style, output)

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:  # noqa: FBT001, FBT002
        """See `Renderer`. News of another width may come later than the first frame that is drawn in it."""
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
        """Makes everything blank where the frame stands now; ends as far below its first row as it was drawn.

        The first row is made blank by itself: some terminals keep a screen that is erased from its very top.
        """
        screen, rows, output = self.last_rendered_screen, self._cursor.y, self.output
        assert screen is not None
        output.cursor_up(rows + rows_added(screen, self._cursor, output.get_size().columns))
        output.write_raw("\r\x1b[2K")
        output.cursor_down(1)
        output.erase_down()
        output.cursor_down(rows - 1)

    def _empty(self, screen: Screen, rows: Sequence[int]) -> None:
        """Makes rows as empty as if nothing had ever stood in them; the next frame writes them anew."""
        for row in rows:
            away = self._cursor.y - row
            (self.output.cursor_up if away > 0 else self.output.cursor_down)(abs(away))
            self.output.write_raw("\r\x1b[2K")
            (self.output.cursor_down if away > 0 else self.output.cursor_up)(abs(away))
            screen.data_buffer[row].clear()
        self.output.cursor_forward(self._cursor.x)
