"""Render a block of Markdown as terminal lines. The only module that uses rich and markdown_it.

Text of the block cannot control the terminal.
Rule 1: text is made visible before the layout, so that widths are right, and again afterwards, because Markdown can
spell characters as entities (`&#x202e;`).
Rule 2: only text and colours are taken from rich's output; links are written out.
Rule 3: HTML is shown as text, because a dropped tag would be lost content.
"""

import functools
import re

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown
from rich.segment import Segment
from rich.style import Style

from wakelog.cli.ui.safe_text import visible, visible_lines
from wakelog.cli.ui.terminal import TerminalStyle

_COLOUR_CODE = re.compile(r"\x1b\[[0-9;]*m")
_THEME = "ansi_dark"
_ASCII_BOXES = str.maketrans({"•": "*", "▌": "|", "─": "-", "━": "-", "│": "|", "🌆": "#"})
# Longer text is not laid out; the terminal wraps it.
_LAYOUT_MAX_CHARS = 50_000


class _PlainHeading(Heading):
    """A heading at the left, bold, the first two levels underlined, without a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize(Style(bold=True, underline=self.tag in ("h1", "h2")))
        yield self.text


class _Markdown(Markdown):
    elements = {**Markdown.elements, "heading_open": _PlainHeading}


@functools.cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


def markdown_lines(look: TerminalStyle, text: str, *, boxes: bool = True) -> list[str]:
    """Return the lines of a block, no wider than the look allows."""
    lines = visible_lines(text)
    if len(text) > _LAYOUT_MAX_CHARS:
        return lines
    console = Console(width=look.columns, force_terminal=True, color_system="standard", legacy_windows=False)
    options = console.options.update(width=look.columns)
    options.encoding = "utf-8" if look.utf8 and boxes else "ascii"
    document = _Markdown("", code_theme=_THEME, hyperlinks=False)
    document.parsed = _keep_line_breaks(_parser().parse("\n".join(lines)))
    drawn = [_draw_line(look, line) for line in console.render_lines(document, options, pad=False)]
    drawn = drawn if look.utf8 and boxes else [line.translate(_ASCII_BOXES) for line in drawn]
    return _trim_blank_lines(drawn)


def _keep_line_breaks(tokens: list[Token]) -> list[Token]:
    """Keep the line breaks of the model, because replies are often listings."""
    for token in tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return tokens


def _draw_line(look: TerminalStyle, segments: list[Segment]) -> str:
    """Return one line without trailing blanks, so that copied text has none."""
    texts = [(visible(segment.text), segment.style) for segment in segments if not segment.control]
    while texts and not texts[-1][0].rstrip():
        texts.pop()
    if texts:
        texts[-1] = (texts[-1][0].rstrip(), texts[-1][1])
    return "".join(_styled(look, text, style) for text, style in texts)


def _styled(look: TerminalStyle, text: str, style: Style | None) -> str:
    if not look.colour or style is None or not text.strip():
        return text
    bare = style.update_link(None)
    return Style(
        color=bare.color, bold=bare.bold, dim=bare.dim, italic=bare.italic, underline=bare.underline, strike=bare.strike
    ).render(text, color_system=ColorSystem.STANDARD)


def _trim_blank_lines(lines: list[str]) -> list[str]:
    """Remove blank lines at both ends; the caller decides on the spacing between blocks."""
    filled = [at for at, line in enumerate(lines) if _COLOUR_CODE.sub("", line).strip()]
    return lines[filled[0] : filled[-1] + 1] if filled else []
