"""Draw display items as terminal lines, with the diff of an `edit` or `write` call.

Every stored string is made visible here or in `markdown`. Printed lines belong to the terminal's scroll-back and are
never drawn over. Long items are shortened, with a count of what is left out.
A diff is made from the logged call alone: the log does not contain the file's content before `write`, so a whole file
is shown as added. Other arguments of the call are shown too, because an approval must not cover anything unseen.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.cli.chat.items import Block, Decision, DrawnLines, Item, Notice, Thought, ToolUse, UserMessage
from wakelog.cli.chat.markdown import markdown_lines
from wakelog.cli.ui.quantities import duration_text, plural
from wakelog.cli.ui.safe_text import first_line, visible, visible_lines
from wakelog.cli.ui.terminal import TerminalStyle, clip, wrap
from wakelog.cli.ui.transcripts import annotation_text, key_argument
from wakelog.log.codec import canonical_json
from wakelog.log.content import ToolResult

# Above this number of lines on one side nothing is compared: the time grows with the product of both.
_COMPARED_MAX = 2_000


def diff_tool_call(tool: str, tool_input: object) -> list[tuple[str, str]] | None:
    """Return the diff lines, each with its sign (`+`, `-` or a space); None if the call changes no file."""
    if not isinstance(tool_input, Mapping):
        return None
    match tool, dict(tool_input):
        case "edit", {"path": str(), "old": str() as old, "new": str() as new}:
            return [
                *_other_arguments(tool_input, ("path", "old", "new")),
                *_compare_lines(old.split("\n"), new.split("\n")),
            ]
        case "write", {"path": str(), "content": str() as content}:
            lines = content.removesuffix("\n").split("\n") if content else []
            return [*_other_arguments(tool_input, ("path", "content")), *(("+", line) for line in lines)]
    return None


def _other_arguments(tool_input: Mapping[str, Any], shown: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for key, value in tool_input.items():
        if key not in shown:
            yield " ", f"({key}: {canonical_json(value).decode()})"


def _compare_lines(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    if max(len(old), len(new)) > _COMPARED_MAX:
        yield from (("-", line) for line in old)
        yield from (("+", line) for line in new)
        return
    for line in difflib.ndiff(old, new):
        if not line.startswith("?"):
            yield line[0], line[2:]


_PROMPT_LINES = 12
_DIFF_LINES = 16
_ERROR_LINES = 4
_NAME_WIDTH = 24


_RESULT_MARKS = {"ok": ("✓", "v", "good"), "error": ("✗", "x", "bad"), "denied": ("✗", "x", "warn")}
_COMPACT_ITEMS = (ToolUse, Decision, Notice)
_DIFF_STYLES = {"+": "good", "-": "bad"}


class ItemLayout(msgspec.Struct, frozen=True):
    """Drawing options: terminal style, and whether box-drawing characters may be used."""

    look: TerminalStyle
    boxes: bool = True


def draw_item(layout: ItemLayout, item: Item) -> list[str]:
    """Return the lines of one item."""
    look = layout.look
    match item:
        case UserMessage(text=text):
            return _user_message_lines(look, text)
        case Block(text=text):
            return markdown_lines(look, text, boxes=layout.boxes)
        case Thought(text=text):
            return [look.paint("dim", _thought_line(look, text))]
        case ToolUse() as used:
            return _tool_use_lines(look, used)
        case Decision() as decided:
            return [_decision_line(look, decided)]
        case Notice(text=text, style=style):
            pieces = wrap(f"{look.symbol('·', '-')} {visible(text)}", look.columns)
            return [look.paint(style, piece) for piece in pieces]
        case DrawnLines(lines=lines):
            return list(lines)


def draw_items(layout: ItemLayout, items: Sequence[Item], last: Item | None) -> tuple[list[str], Item | None]:
    """Return the lines of items after the `last` one, with blank lines between groups; and the new last item."""
    lines: list[str] = []
    for one in items:
        drawn = draw_item(layout, one)
        if drawn:
            lines += drawn if _is_adjacent(last, one) else ["", *drawn]
            last = one
    return lines, last


def _is_adjacent(before: Item | None, after: Item) -> bool:
    """Return whether two items follow each other without a blank line: notices and tools do."""
    return before is None or (isinstance(before, _COMPACT_ITEMS) and isinstance(after, _COMPACT_ITEMS))


def _user_message_lines(look: TerminalStyle, text: str) -> list[str]:
    mark = look.symbol("›", ">")
    lines = [piece for line in visible_lines(text.strip("\n")) for piece in wrap(line, look.columns - 2)]
    shown = _shortened(look, lines, _PROMPT_LINES)
    return [look.paint("user", f"{mark if at == 0 else ' '} {line}") for at, line in enumerate(shown)]


def _thought_line(look: TerminalStyle, text: str) -> str:
    count = plural(len(text.split()), "word")
    return clip(look, f"{look.symbol('∴', '~')} thought, {count}: {first_line(text)}", look.columns)


def _tool_use_lines(look: TerminalStyle, used: ToolUse) -> list[str]:
    result = used.result
    sign, plain, style = _RESULT_MARKS.get(result.effective_status, ("!", "!", "warn"))
    indent = "  " if used.in_subagent else ""
    tail = _outcome_text(look, result)
    room = look.columns - len(tail) - len(indent) - 2
    title = clip(look, tool_title(look, used.name, used.input), max(8, room))
    line = f"{indent}{look.paint(style, look.symbol(sign, plain))} {title}{look.paint('dim', tail)}"
    below = _error_lines(look, result) if result.effective_status == "error" else _change_lines(look, used)
    return [line, *(f"{indent}  {piece}" for piece in below)]


def _decision_line(look: TerminalStyle, decided: Decision) -> str:
    """Return one line with the decision and its tool call."""
    dot, indent = look.symbol("·", "-"), "  " if decided.in_subagent else ""
    summary = f"{indent}{dot} decided: {annotation_text(decided.decision)}"
    title = tool_title(look, decided.name, decided.input) if decided.name else ""
    return look.paint("dim", clip(look, f" {dot} ".join(filter(None, (summary, title))), look.columns))


def _outcome_text(look: TerminalStyle, result: ToolResult) -> str:
    """Return the outcome of a tool, shown after its title."""
    dot = look.symbol("·", "-")
    count = len(result.text.rstrip("\n").split("\n")) if result.text.strip() else 0
    figures = [
        "" if result.effective_status in ("ok", "error") else result.effective_status,
        duration_text(result.duration_ms) if result.duration_ms is not None else "",
        plural(count, "line") if count > 1 and result.effective_status == "ok" else "",
    ]
    return "".join(f" {dot} {figure}" for figure in figures if figure)


def tool_title(look: TerminalStyle, name: str, tool_input: object) -> str:
    """Return a tool and its main argument on one line."""
    return " ".join(filter(None, (clip(look, visible(name), _NAME_WIDTH), key_argument(tool_input))))


def _error_lines(look: TerminalStyle, result: ToolResult) -> list[str]:
    lines = [piece for line in visible_lines(result.text.strip("\n")) for piece in wrap(line, look.columns - 4)]
    return [look.paint("bad", line) for line in _shortened(look, lines, _ERROR_LINES)] if result.text.strip() else []


def _change_lines(look: TerminalStyle, used: ToolUse) -> list[str]:
    if used.input_shown or used.result.effective_status != "ok":
        return []
    return diff_lines(look, used.name, used.input, max_lines=_DIFF_LINES)


def diff_lines(look: TerminalStyle, tool: str, tool_input: object, *, max_lines: int = 0) -> list[str]:
    """Return the coloured diff of a call, cut to `max_lines` lines (0: all); empty if it changes no file."""
    changed = diff_tool_call(tool, tool_input) or []
    room = max(10, look.columns - 6)
    rows = [(sign, piece) for sign, line in changed for piece in wrap(visible(line), room)]
    drawn = [look.paint(_DIFF_STYLES.get(sign, "dim"), f"{sign} {line}".rstrip()) for sign, line in rows]
    return _shortened(look, drawn, max_lines) if max_lines else drawn


def _shortened(look: TerminalStyle, lines: list[str], max_lines: int) -> list[str]:
    """Return the first lines and a count of the rest; a single extra line is shown instead of counted."""
    if len(lines) <= max_lines + 1:
        return lines
    return [*lines[:max_lines], look.paint("dim", f"{look.symbol('…', '...')} {len(lines) - max_lines} more lines")]
