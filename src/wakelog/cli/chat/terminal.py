"""Terminal of a chat: output in whole frames, erasing after a resize, typeahead, and redirected stderr.

Frames: each is written at once and laid out for one terminal size, so that no frame without its input is seen.
Resize: most terminals rewrap lines that no longer fit. The live area then takes more rows than were drawn, and
moving up by the drawn number of rows would stop halfway and leave the rest. So the rows are counted as such a
terminal wraps them, before anything is erased. Terminals that truncate lines instead are recognised by their name,
if they set one. Rows that were scrolled out of the terminal stay: no program can reach them.
Typeahead: until a program takes the terminal, it is in line mode, and Enter arrives as a line feed; in a chat that
would be a new line of a message instead of its end. So the waiting input is read first, and each line feed in it
becomes Enter again. Keys pressed in the session list after the Enter that ended it are passed to the chat in the
same way.
Stderr: each line is printed above the live area instead of across it.
"""

import asyncio
import contextlib
import io
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.input.vt100 import raw_mode
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.layout import Layout
from prompt_toolkit.layout.screen import Char, Screen
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import BaseStyle


class FrameOutput(Vt100_Output):
    """The terminal's output."""

    _held = 0
    _size: Size | None = None

    @contextlib.contextmanager
    def frame(self) -> Iterator[None]:
        """Hold all output until the end of the block, and keep the current terminal size meanwhile."""
        self._size = self.get_size()
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            self._size = self._size if self._held else None
            self.flush()

    def get_size(self) -> Size:
        """See `Output`."""
        return self._size or super().get_size()

    def flush(self) -> None:
        """See `Output`."""
        if not self._held:
            super().flush()


def open_output() -> FrameOutput:
    """Return the output of this process. The cursor position is never queried, because nothing is drawn above it."""
    output = FrameOutput.from_pty(sys.stdout, term=os.environ.get("TERM"))
    assert isinstance(output, FrameOutput)
    output.enable_cpr = False
    return output


_TRUNCATING_TERMINALS = ("linux", "screen", "vt")


def rewraps_lines(environment: Mapping[str, str]) -> bool:
    """Return whether a terminal rewraps lines. Of nested terminals the inner one counts."""
    if environment.get("TMUX"):
        return True
    cuts = environment.get("STY") or environment.get("XTERM_VERSION")
    return not cuts and not environment.get("TERM", "").startswith(_TRUNCATING_TERMINALS)


def rewraps_erased_ends(environment: Mapping[str, str]) -> bool:
    """Return whether a terminal rewraps a line as if its erased end were still there (tmux)."""
    return bool(environment.get("TMUX"))


def count_rows(cell_widths: Iterable[int], columns: int) -> int:
    """Return the number of rows for graphemes of these widths; one that does not fit begins a new row."""
    rows, taken = 1, 0
    for width in cell_widths:
        if taken + width > columns:
            rows, taken = rows + 1, 0
        taken += width
    return rows


def count_added_rows(screen: Screen, cursor: Point, columns: int) -> int:
    """Return how many more rows are above the cursor after what was drawn is rewrapped."""
    above = sum(count_rows(_cell_widths(screen.data_buffer[row]), columns) - 1 for row in range(cursor.y))
    return above + cursor.x // columns


def _cell_widths(row: Mapping[int, Char]) -> list[int]:
    """Return the widths of the cells of a row, gaps included, up to the last visible character."""
    # A wide character is followed by a cell of width 0, which adds nothing.
    return [row[at].width if at in row else 1 for at in range(_row_length(row))]


def _row_length(row: Mapping[int, Char]) -> int:
    return max((at + 1 for at, cell in row.items() if cell.char.strip()), default=0)


def _row_lengths(screen: Screen | None) -> list[int]:
    return [] if screen is None else [_row_length(screen.data_buffer[row]) for row in range(screen.height)]


def _shortened_rows(before: Sequence[int], now: Sequence[int]) -> list[int]:
    """Return the rows that have become shorter."""
    return [row for row, length in enumerate(before) if length > (now[row] if row < len(now) else 0)]


class ReflowRenderer(Renderer):
    """A renderer that erases the last frame wherever the terminal has moved it."""

    def __init__(self, style: BaseStyle, output: FrameOutput) -> None:
        self._frame_output = output
        self._columns = 0
        self._cursor = Point(0, 0)
        super().__init__(style, output)

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:  # noqa: FBT001, FBT002
        """See `Renderer`. The resize event may arrive after the first frame of the new width."""
        with self._frame_output.frame():
            if self._is_narrower:
                self.erase(leave_alternate_screen=False)
            before = _row_lengths(self.last_rendered_screen)
            super().render(app, layout, is_done)
            screen = self.last_rendered_screen
            if screen is None:
                return
            self._columns = self.output.get_size().columns
            self._cursor = screen.get_cursor_position(layout.current_window)
            if rewraps_erased_ends(os.environ) and (shorter := _shortened_rows(before, _row_lengths(screen))):
                self._clear_rows(screen, shorter)
                super().render(app, layout, is_done)

    def erase(self, leave_alternate_screen: bool = True) -> None:  # noqa: FBT001, FBT002
        """See `Renderer`."""
        with self._frame_output.frame():
            if self._is_narrower and self._cursor.y and rewraps_lines(os.environ):
                self._erase_rewrapped()
            super().erase(leave_alternate_screen)

    @property
    def _is_narrower(self) -> bool:
        return self.last_rendered_screen is not None and self.output.get_size().columns < self._columns

    def _erase_rewrapped(self) -> None:
        """Blank the rows of the frame, and leave the cursor as far below its first row as it was drawn.

        The first row is blanked separately: some terminals keep a screen that is erased from its very top.
        """
        screen, rows, output = self.last_rendered_screen, self._cursor.y, self.output
        assert screen is not None
        output.cursor_up(rows + count_added_rows(screen, self._cursor, output.get_size().columns))
        output.write_raw("\r\x1b[2K")
        output.cursor_down(1)
        output.erase_down()
        output.cursor_down(rows - 1)

    def _clear_rows(self, screen: Screen, rows: Sequence[int]) -> None:
        """Clear rows completely; the next frame writes them again."""
        for row in rows:
            away = self._cursor.y - row
            (self.output.cursor_up if away > 0 else self.output.cursor_down)(abs(away))
            self.output.write_raw("\r\x1b[2K")
            (self.output.cursor_down if away > 0 else self.output.cursor_up)(abs(away))
            screen.data_buffer[row].clear()
        self.output.cursor_forward(self._cursor.x)


_READ_BYTES = 4_096
# In line mode, NUL in the waiting input stands for the end-of-input key (Ctrl-D).
_LINE_MODE_KEYS = str.maketrans({"\n": "\r", "\0": "\x04"})


@contextlib.contextmanager
def take_typeahead(descriptor: int) -> Iterator[str]:
    """Put the terminal into raw mode; yield the keys that were pressed before."""
    with raw_mode(descriptor):
        yield decode_line_mode(_read_available(descriptor))


def _read_available(descriptor: int) -> bytes:
    taken = b""
    while select.select([descriptor], [], [], 0)[0] and (piece := os.read(descriptor, _READ_BYTES)):
        taken += piece
    return taken


def decode_line_mode(typed: bytes) -> str:
    """Return the keys for input that was read in line mode."""
    return typed.decode(errors="replace").translate(_LINE_MODE_KEYS)


def parse_keys(keys: str) -> list[KeyPress]:
    """Parse keys into key presses."""
    found: list[KeyPress] = []
    parser = Vt100Parser(found.append)
    parser.feed(keys)
    parser.flush()
    return found


def feed_keys(app: Application[Any], keys: list[KeyPress]) -> None:
    """Feed key presses to a running application."""
    app.key_processor.feed_multiple(keys)
    app.key_processor.process_keys()


class StderrRedirect(io.TextIOBase):
    """A stderr replacement. Lines may come from any thread; they are passed on in the event loop of the chat."""

    def __init__(self, print_line: Callable[[str], None]) -> None:
        self._print_line = print_line
        self._loop = asyncio.get_running_loop()
        self._line = ""

    def write(self, text: str, /) -> int:
        """Pass on each complete line."""
        *ended, self._line = (self._line + text).split("\n")
        for line in ended:
            if line.strip():
                self._loop.call_soon_threadsafe(self._print_line, line)
        return len(text)
