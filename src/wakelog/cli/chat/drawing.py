"""Draw chat items as terminal lines. Every stored string passes through `safe` here, or through `markdown`.

Printed lines belong to the terminal's scroll-back and are never drawn over. Long items are shortened, with a count of
what is left out.
"""

from collections.abc import Sequence

import msgspec

from wakelog.cli.annotation_text import annotation_words
from wakelog.cli.chat.diffs import diff_of
from wakelog.cli.chat.markdown import markdown_lines
from wakelog.cli.chat.shown import Block, Decided, Lines, Notice, Prompted, Shown, Thought, Tool, Used
from wakelog.cli.draw import Look, clip, ending, wrap
from wakelog.cli.safe import first_line, visible, visible_lines
from wakelog.cli.times import lasted, plural
from wakelog.cli.transcripts import telling
from wakelog.log.content import ToolResult
from wakelog.log.times import parse_ms

_PROMPT_LINES = 12
_DIFF_LINES = 16
_ERROR_LINES = 4
_NAME_ROOM = 24
_SIGN_CHARS = 12
_SIGNS = {"ok": ("✓", "v", "good"), "error": ("✗", "x", "bad"), "denied": ("✗", "x", "warn")}
_CLOSE = (Used, Decided, Notice)
_DIFF_STYLES = {"+": "good", "-": "bad"}


class TranscriptLayout(msgspec.Struct, frozen=True):
    """How a chat is drawn: the look, and whether box-drawing lines may be used."""

    look: Look
    boxes: bool = True


def draw(dress: TranscriptLayout, shown: Shown) -> list[str]:
    """Return the lines of one item."""
    look = dress.look
    match shown:
        case Prompted(text=text):
            return _prompted(look, text)
        case Block(text=text):
            return markdown_lines(look, text, boxes=dress.boxes)
        case Thought(text=text):
            return [look.paint("dim", _thought(look, text))]
        case Used() as used:
            return _used(look, used)
        case Decided() as decided:
            return [_decided(look, decided)]
        case Notice(text=text, style=style):
            pieces = wrap(f"{look.sign('·', '-')} {visible(text)}", look.columns)
            return [look.paint(style, piece) for piece in pieces]
        case Lines(lines=lines):
            return list(lines)


def draw_all(dress: TranscriptLayout, shown: Sequence[Shown], last: Shown | None) -> tuple[list[str], Shown | None]:
    """Return the lines of items after the `last` one, with blank lines between groups; and the new last item."""
    lines: list[str] = []
    for one in shown:
        drawn = draw(dress, one)
        if drawn:
            lines += drawn if _is_close(last, one) else ["", *drawn]
            last = one
    return lines, last


def _is_close(before: Shown | None, after: Shown) -> bool:
    """Return whether two items follow each other without a blank line: notices and tools do."""
    return before is None or (isinstance(before, _CLOSE) and isinstance(after, _CLOSE))


def _prompted(look: Look, text: str) -> list[str]:
    mark = look.sign("›", ">")
    lines = [piece for line in visible_lines(text.strip("\n")) for piece in wrap(line, look.columns - 2)]
    shown = _folded(look, lines, _PROMPT_LINES)
    return [look.paint("user", f"{mark if at == 0 else ' '} {line}") for at, line in enumerate(shown)]


def _thought(look: Look, text: str) -> str:
    words = plural(len(text.split()), "word")
    return clip(look, f"{look.sign('∴', '~')} thought, {words}: {first_line(text)}", look.columns)


def _used(look: Look, used: Used) -> list[str]:
    result = used.result
    sign, plain, style = _SIGNS.get(result.settled, ("!", "!", "warn"))
    indent = "  " if used.inside else ""
    tail = _tail(look, result)
    room = look.columns - len(tail) - len(indent) - 2
    title = clip(look, tool_title(look, used.name, used.input), max(8, room))
    line = f"{indent}{look.paint(style, look.sign(sign, plain))} {title}{look.paint('dim', tail)}"
    below = _errors(look, result) if result.settled == "error" else _change(look, used)
    return [line, *(f"{indent}  {piece}" for piece in below)]


def _decided(look: Look, decided: Decided) -> str:
    """Return one line with the decision and its tool call."""
    dot, indent = look.sign("·", "-"), "  " if decided.inside else ""
    words = f"{indent}{dot} decided: {annotation_words(decided.decision)}"
    title = tool_title(look, decided.name, decided.input) if decided.name else ""
    return look.paint("dim", clip(look, f" {dot} ".join(filter(None, (words, title))), look.columns))


def _tail(look: Look, result: ToolResult) -> str:
    """Return the outcome of a tool, shown after its title."""
    dot = look.sign("·", "-")
    count = len(result.text.rstrip("\n").split("\n")) if result.text.strip() else 0
    words = [
        "" if result.settled in ("ok", "error") else result.settled,
        lasted(result.duration_ms) if result.duration_ms is not None else "",
        plural(count, "line") if count > 1 and result.settled == "ok" else "",
    ]
    return "".join(f" {dot} {word}" for word in words if word)


def tool_title(look: Look, name: str, given: object) -> str:
    """Return a tool and its main argument on one line."""
    return " ".join(filter(None, (clip(look, visible(name), _NAME_ROOM), telling(given))))


def _errors(look: Look, result: ToolResult) -> list[str]:
    lines = [piece for line in visible_lines(result.text.strip("\n")) for piece in wrap(line, look.columns - 4)]
    return [look.paint("bad", line) for line in _folded(look, lines, _ERROR_LINES)] if result.text.strip() else []


def _change(look: Look, used: Used) -> list[str]:
    if used.told or used.result.settled != "ok":
        return []
    return diff_lines(look, used.name, used.input, most=_DIFF_LINES)


def diff_lines(look: Look, tool: str, given: object, *, most: int = 0) -> list[str]:
    """Return the coloured diff of a call, cut to `most` lines (0: all); empty if it changes no file."""
    changed = diff_of(tool, given) or []
    room = max(10, look.columns - 6)
    rows = [(sign, piece) for sign, line in changed for piece in wrap(visible(line), room)]
    drawn = [look.paint(_DIFF_STYLES.get(sign, "dim"), f"{sign} {line}".rstrip()) for sign, line in rows]
    return _folded(look, drawn, most) if most else drawn


def _folded(look: Look, lines: list[str], most: int) -> list[str]:
    """Return the first lines and a count of the rest; a single extra line is shown instead of counted."""
    if len(lines) <= most + 1:
        return lines
    return [*lines[:most], look.paint("dim", f"{look.sign('…', '...')} {len(lines) - most} more lines")]


# ── live ─────────────────────────────────────────────────────────────────────────────────────────


def live_tool(look: Look, tool: Tool, spinner: str, now: int) -> str:
    """Return the line of a running tool: duration and last output line. Without a spinner it shows no duration."""
    indent = "  " if tool.inside else ""
    since = parse_ms(tool.since)
    took = lasted(max(0, now - since) // 100 * 100) if since is not None and spinner else ""
    output = next((line for line in reversed(tool.output.split("\n")) if line.strip()), "")
    dot = look.sign("·", "-")
    title = tool_title(look, tool.name, tool.input)
    words = [clip(look, title, look.columns // 2) if output else title, took, visible(output.strip())]
    line = f" {dot} ".join(word for word in words if word)
    return indent + look.paint("tool", spinner or look.sign("•", "*")) + " " + clip(look, line, look.columns - 4)


def _whole_words(words: str, width: int) -> str:
    """Return the last whole words that fit; of a single word that is too long, its end."""
    end = ending(words, width)
    cut = end != words and not words[: len(words) - len(end)].endswith(" ")
    space = end.find(" ") if cut else -1
    return end[space + 1 :] if 0 <= space < 2 * width // 3 else end.lstrip(" ")


def live_thought(look: Look, text: str) -> str:
    """Return the end of the current thought, on one line."""
    # Enough characters for the end of the line: no common grapheme has more than `_SIGN_CHARS`.
    words = visible(" ".join(text[-look.columns * _SIGN_CHARS :].split()))
    end = _whole_words(words, max(8, look.columns - 15))
    return look.paint("dim", f"{look.sign('∴', '~')} thinking {look.sign('…', '...')} {end}")
