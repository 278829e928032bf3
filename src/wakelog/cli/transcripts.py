"""Draw transcript rows as terminal lines. The text comes from the log; this module adds the layout.

An entry has a heading (address, speaker, time, label) and its text below. Tool output is shortened to a few lines with
a count of the rest: `--full` shows all, and piped output is not shortened by default. Thinking is dim. Every string of
a row passes through `safe`.
"""

from collections.abc import Iterable, Iterator

import msgspec

from wakelog.cli.draw import Look, cells, clip, pad, wrap
from wakelog.cli.safe import first_line, visible, visible_lines
from wakelog.cli.times import ago, lasted
from wakelog.log.codec import canonical
from wakelog.projections.transcript import Row

FOLDED_LINES = 4
_FOLDED_SUMMARY_LINES = 12
_TELLING = ("command", "cmd", "pattern", "query", "path", "file_path", "file", "url", "prompt")
_STATUS = {
    "ok": "good",
    **dict.fromkeys(("open", "begun", "waiting", "decided"), "warn"),
    "skipped": "warn",
    "interrupted": "warn",
    "unknown": "warn",
}


class TranscriptLayout(msgspec.Struct, frozen=True):
    """Layout of a transcript: style, current time, shortened or full, and the address of each entry."""

    look: Look
    now: int
    full: bool
    addresses: dict[str, str]
    gutter: int
    """Width of the address column."""
    ref: str = ""
    """What to type for the session, in hints."""


def layout_for(
    look: Look, now: int, addresses: dict[str, str], *, full: bool | None = None, ref: str = ""
) -> TranscriptLayout:
    """Return the layout for entries with these addresses. Piped output is shortened only if `full` is False."""
    gutter = max([3, *(cells(address) for address in addresses.values())])
    return TranscriptLayout(look, now, not look.width if full is None else full, addresses, gutter, ref)


def draw_rows(dress: TranscriptLayout, rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of a transcript, with a blank line between entries."""
    last = None
    for row in rows:
        if row.entry_id != last:
            if last is not None:
                yield ""
            yield _heading(dress, row)
            last = row.entry_id
        elif row.kind in ("reply", "thinking") and row.text:
            yield ""
        for line in _body(dress, row, dress.gutter + 2):
            yield " " * (dress.gutter + 2) + line if line else ""
        if row.journal == "interrupted":
            yield " " * (dress.gutter + 2) + dress.look.paint("warn", how_to_continue(dress.ref))


def how_to_continue(ref: str) -> str:
    """Return the hint for an interrupted reply or tool output."""
    return f"interrupted; `wakelog wake {visible(ref)}` continues it"


def who(row: Row) -> tuple[str, str]:
    """Return the speaker of a row and its style."""
    match row.kind:
        case "prompt":
            return "user", "user"
        case "reply" | "thinking" | "call":
            return "assistant", "model"
        case "cut":
            how = {"interrupted": "interrupted", "running": "being written"}.get(row.journal, "cut short")
            return f"assistant, {how}", "warn"
        case "queued":
            return "user, waiting in the queue", "warn"
        case "result":
            return "tool", "tool"
        case "fold":
            return "compaction", "mark"
        case "ended":
            return visible(row.status), "bad"
        case "note" | "unknown":
            return visible(row.name) or row.kind, "dim"
    return row.kind, "dim"


def _heading(dress: TranscriptLayout, row: Row) -> str:
    look = dress.look
    speaker, style = who(row)
    # Text that is in no entry yet has no address.
    named = "" if row.journal and row.kind != "call" else dress.addresses.get(row.entry_id, str(row.seq))
    address = pad(visible(named), dress.gutter, right=True)
    words = [look.paint("dim", address) + " ", look.paint(style, clip(look, speaker, 40))]
    when = ago(row.timestamp, dress.now)
    if when:
        words.append(look.paint("dim", f"{look.sign('·', '-')} {when}"))
    words += [look.paint("label", f"[{clip(look, visible(label), 40)}]") for label in row.labels]
    return " ".join(words)


def _body(dress: TranscriptLayout, row: Row, indent: int) -> Iterator[str]:
    look, width = dress.look, _room(dress, indent)
    match row.kind:
        case "call" | "result":
            yield from _tool(dress, row, width)
        case "thinking":
            for line in _wrapped(row.text, width):
                yield look.paint("dim", line)
        case "fold":
            yield from _folded(dress, _wrapped(row.text, width), _FOLDED_SUMMARY_LINES)
        case "change":
            value = row.text or (_compact(row.input) if row.input is not None else "")
            yield look.paint("dim", clip(look, f"{visible(row.name)}: {first_line(value)}", look.columns - indent))
        case "session":
            if row.text:
                yield look.paint("bold", clip(look, first_line(row.text), look.columns - indent))
        case "note" if row.input is not None and not row.text:
            yield look.paint("dim", clip(look, _compact(row.input), look.columns - indent))
        case "unknown":
            yield look.paint("dim", "an entry of a type that this wakelog does not know; `--json` shows its bytes")
        case _:
            yield from _wrapped(row.text, width)


def _tool(dress: TranscriptLayout, row: Row, width: int) -> Iterator[str]:
    """Yield a tool call as a box: its input, its outcome and its output."""
    look = dress.look
    state = row.status + (f" {lasted(row.duration_ms)}" if row.duration_ms is not None else "")
    asked = f"{visible(row.name)}  {telling(row.input)}" if row.kind == "call" else visible(row.name)
    room = look.columns - dress.gutter - 6 - cells(state) - 2
    asked = clip(look, asked.rstrip(), max(10, room)) if look.width else asked.rstrip()
    name, _, rest = asked.partition("  ")
    blank = " " * max(2, room - cells(asked) + 2) if look.width else "  "
    style = _STATUS.get(row.status, "bad")
    opening = look.paint("tool", look.sign("┌ ", "+ ") + name) + (f"  {rest}" if rest else "")
    yield opening + (blank + look.paint(style, state) if state else "")
    side = look.paint("tool", look.sign("│ ", "| "))
    if row.text:
        for line in _folded(dress, _wrapped(row.text.rstrip("\n"), max(1, width - 2) if width else 0), FOLDED_LINES):
            yield side + line
    if row.truncated:
        yield side + look.paint("dim", "cut when it was appended")


def _folded(dress: TranscriptLayout, lines: list[str], most: int) -> Iterator[str]:
    """Yield the first lines and a count of the rest; a single extra line is shown instead of counted."""
    if dress.full or len(lines) <= most + 1:
        yield from lines
        return
    yield from lines[:most]
    more = f"{dress.look.sign('…', '...')} {len(lines) - most} more lines (--full)"
    yield dress.look.paint("dim", more)


def _wrapped(text: str, width: int) -> list[str]:
    return [piece for line in visible_lines(text) for piece in wrap(line, width)]


def _room(dress: TranscriptLayout, indent: int) -> int:
    """Return the width for text; 0 where lines are not cut."""
    return max(20, dress.look.width - indent) if dress.look.width else 0


def telling(arguments: object) -> str:
    """Return the most telling argument of a tool call, or all of them as JSON."""
    if isinstance(arguments, dict):
        for key in _TELLING:
            if isinstance(arguments.get(key), str):
                return first_line(arguments[key])
    return "" if arguments in (None, {}) else _compact(arguments)


def _compact(value: object) -> str:
    return visible(canonical(value).decode()) if not isinstance(value, str) else visible(value)
