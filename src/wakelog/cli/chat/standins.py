"""Stand-ins for graphemes of several characters in the frames of a chat, so that each takes its real width.

prompt_toolkit measures character by character and would split a flag or a family emoji, which misplaces the cursor. So
an unused character replaces such a grapheme ("sign") during layout, and the grapheme is put back before drawing.
"""

import re

from prompt_toolkit.layout import Window
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Char, Screen, WritePosition
from prompt_toolkit.utils import get_cwidth

from wakelog.cli.draw import cells, signs

_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
# Unassigned or private characters, one or two cells wide.
_NARROW, _WIDE, _COUNT = 0x10_0000, 0x3_F000, 0xF00
_BELOW = chr(_WIDE - 1)


class StandIns:
    """Maps graphemes to stand-in characters. When all are in use, the oldest are reused."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}
        self._signs: dict[str, str] = {}
        self._next = 0

    def put(self, line: str) -> str:
        """Return a line with a stand-in for each grapheme that would be measured wrongly; colour codes stay."""
        if line.isascii():
            return line
        pieces = _COLOUR.split(line)
        return "".join(piece if at % 2 else "".join(map(self.one, signs(piece))) for at, piece in enumerate(pieces))

    def one(self, sign: str) -> str:
        """Return the stand-in of a grapheme; usually the grapheme itself."""
        if get_cwidth(sign) == cells(sign) and not _is_one(sign):
            return sign
        if sign not in self._of:
            self._keep(sign, chr((_WIDE if cells(sign) > 1 else _NARROW) + self._next % _COUNT))
        return self._of[sign]

    def _keep(self, sign: str, one: str) -> None:
        self._next += 1
        self._of.pop(self._signs.get(one, ""), None)
        self._of[sign], self._signs[one] = one, sign

    def drawn(self, cell: Char) -> Char:
        """Return a cell with its stand-in replaced by the grapheme, at the width of the layout."""
        sign = self._signs.get(cell.char[:1])
        if sign is None:
            return cell
        made = Char(sign + cell.char[1:], cell.style)
        made.width = cell.width
        return made


def _is_one(sign: str) -> bool:
    return any(0 <= ord(sign[0]) - first < _COUNT for first in (_NARROW, _WIDE))


class GraphemeWindow(Window):
    """A window that replaces stand-ins with their graphemes."""

    stand_ins = StandIns()

    def write_to_screen(
        self,
        screen: Screen,
        mouse_handlers: MouseHandlers,
        write_position: WritePosition,
        parent_style: str,
        erase_bg: bool,  # noqa: FBT001 - as it is in `Window`
        z_index: int | None,
    ) -> None:
        """See `Window`."""
        super().write_to_screen(screen, mouse_handlers, write_position, parent_style, erase_bg, z_index)
        for y in range(write_position.ypos, write_position.ypos + write_position.height):
            row = screen.data_buffer[y]
            for x, cell in row.items():
                if cell.char > _BELOW:
                    row[x] = self.stand_ins.drawn(cell)
                    # Terminals may draw it wider or narrower; set the column explicitly for what follows.
                    screen.zero_width_escapes[y][x + cell.width] += f"\x1b[{x + cell.width + 1}G"
