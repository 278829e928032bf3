"""Graphemes and hidden characters in the frames of a chat, each displayed at its real width.

prompt_toolkit measures character by character and would split a flag or a family emoji, which misplaces the cursor. So
an unused character is the placeholder of such a grapheme during layout, and the grapheme is put back before drawing.
In the input line the text stays unchanged, only its display changes: a terminal would obey, reorder or hide characters
of pasted text (law 13: stored text is hostile on the way out). The cursor is before or after a grapheme, never inside.
"""

import re

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import Window
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.screen import Char, Screen, WritePosition
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.utils import get_cwidth

from wakelog.cli.ui.safe_text import hostile_characters, visible
from wakelog.cli.ui.terminal import graphemes, text_width

_COLOUR_CODE = re.compile(r"(\x1b\[[0-9;]*m)")
# Unassigned or private characters, one or two cells wide.
_FIRST_NARROW, _FIRST_WIDE, _PLACEHOLDER_COUNT = 0x10_0000, 0x3_F000, 0xF00
_LAST_ORDINARY = chr(_FIRST_WIDE - 1)


class GraphemePlaceholders:
    """Maps graphemes to placeholder characters. When all are in use, the oldest are reused."""

    def __init__(self) -> None:
        self._placeholders: dict[str, str] = {}
        self._graphemes: dict[str, str] = {}
        self._next = 0

    def replace(self, line: str) -> str:
        """Return a line with a placeholder for each grapheme that would be measured wrongly; colour codes stay."""
        if line.isascii():
            return line
        pieces = _COLOUR_CODE.split(line)
        return "".join(
            piece if at % 2 else "".join(map(self.placeholder, graphemes(piece))) for at, piece in enumerate(pieces)
        )

    def placeholder(self, grapheme: str) -> str:
        """Return the placeholder of a grapheme; usually the grapheme itself."""
        if get_cwidth(grapheme) == text_width(grapheme) and not _is_placeholder(grapheme):
            return grapheme
        if grapheme not in self._placeholders:
            self._assign(
                grapheme,
                chr((_FIRST_WIDE if text_width(grapheme) > 1 else _FIRST_NARROW) + self._next % _PLACEHOLDER_COUNT),
            )
        return self._placeholders[grapheme]

    def _assign(self, grapheme: str, placeholder: str) -> None:
        self._next += 1
        self._placeholders.pop(self._graphemes.get(placeholder, ""), None)
        self._placeholders[grapheme], self._graphemes[placeholder] = placeholder, grapheme

    def restore(self, cell: Char) -> Char:
        """Return a cell with its placeholder replaced by the grapheme, at the width of the layout."""
        grapheme = self._graphemes.get(cell.char[:1])
        if grapheme is None:
            return cell
        restored = Char(grapheme + cell.char[1:], cell.style)
        restored.width = cell.width
        return restored


def _is_placeholder(character: str) -> bool:
    return any(0 <= ord(character[0]) - first < _PLACEHOLDER_COUNT for first in (_FIRST_NARROW, _FIRST_WIDE))


class GraphemeWindow(Window):
    """A window that replaces placeholders with their graphemes."""

    placeholders = GraphemePlaceholders()

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
                if cell.char > _LAST_ORDINARY:
                    row[x] = self.placeholders.restore(cell)
                    # Terminals may draw it wider or narrower; set the column explicitly for what follows.
                    screen.zero_width_escapes[y][x + cell.width] += f"\x1b[{x + cell.width + 1}G"


class VisibleInput(Processor):
    """Displays symbols for invisible characters, and maps positions between text and display."""

    def __init__(self, placeholders: GraphemePlaceholders) -> None:
        self._placeholders = placeholders

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """See `Processor`."""
        fragments = explode_text_fragments(transformation_input.fragments)
        line = "".join(fragment[1] for fragment in fragments)
        if visible(line) == line and self._placeholders.replace(line) == line:
            return Transformation(transformation_input.fragments)
        pictures = self._display_characters(line)
        drawn: StyleAndTextTuples = [(fragment[0], pictures[at]) for at, fragment in enumerate(fragments)]
        starts = [0]
        for fragment in drawn:
            starts.append(starts[-1] + len(fragment[1]))
        return Transformation(
            drawn, lambda at: _display_position(starts, at), lambda shown: _source_position(starts, shown)
        )

    def _display_characters(self, line: str) -> list[str]:
        """Return the display of each character; that of a grapheme is at its first character, the others are empty."""
        harmful = {found.start() for found in hostile_characters().finditer(line)}
        pictures: list[str] = []
        for grapheme in graphemes(line):
            at = len(pictures)
            if harmful.isdisjoint(range(at, at + len(grapheme))):
                one = self._placeholders.placeholder(grapheme)
                pictures += list(grapheme) if one == grapheme else [one, *[""] * (len(grapheme) - 1)]
            else:
                pictures += [_visible_character(line, at + more, harmful) for more in range(len(grapheme))]
        return pictures


def _visible_character(line: str, at: int, harmful: set[int]) -> str:
    return visible(line[at]) if at in harmful else line[at]


def _display_position(starts: list[int], at: int) -> int:
    return starts[at] if at < len(starts) else starts[-1] + at - len(starts) + 1


def _source_position(starts: list[int], shown: int) -> int:
    """Return the index of the character that is displayed at a position."""
    if shown >= starts[-1]:
        return len(starts) - 1 + shown - starts[-1]
    return max(at for at, start in enumerate(starts) if start <= shown)
