"""Draw transcripts and annotations as terminal lines. The text comes from the log; this module adds the layout.

An entry has a heading (address, speaker, time, label) and its text below. Tool output is shortened to a few lines with
a count of the rest: `--full` shows all, and piped output is not shortened by default. Thinking is dim. An annotation is
one line. Every stored string passes through `safe_text`.
"""

from collections.abc import Iterable, Iterator

import msgspec

from wakelog.cli.ui.quantities import age_text, duration_text
from wakelog.cli.ui.safe_text import first_line, visible, visible_lines
from wakelog.cli.ui.terminal import TerminalStyle, clip, pad, text_width, wrap
from wakelog.log.codec import canonical_json
from wakelog.log.content import BaseMessage
from wakelog.log.entry import (
    Activity,
    Attention,
    AttentionResolved,
    Body,
    DamageNote,
    Head,
    Label,
    ModelCall,
    Partial,
    Queued,
    Resumed,
    SendFailed,
    Sent,
    SessionArchived,
    SessionRenamed,
    Spawned,
    Terminated,
    ToolStarted,
)
from wakelog.projections.transcript import TranscriptRow

FOLDED_LINES = 4
_FOLDED_SUMMARY_LINES = 12
_KEY_ARGUMENTS = ("command", "cmd", "pattern", "query", "path", "file_path", "file", "url", "prompt")
STATUS_STYLES = {
    "ok": "good",
    **dict.fromkeys(("open", "begun", "waiting", "decided"), "warn"),
    "skipped": "warn",
    "interrupted": "warn",
    "unknown": "warn",
}


class TranscriptLayout(msgspec.Struct, frozen=True):
    """Layout of a transcript: style, current time, shortened or full, and the address of each entry."""

    look: TerminalStyle
    now: int
    full: bool
    addresses: dict[str, str]
    gutter: int
    """Width of the address column."""
    ref: str = ""
    """What to type for the session, in hints."""


def layout_for(
    look: TerminalStyle, now: int, addresses: dict[str, str], *, full: bool | None = None, ref: str = ""
) -> TranscriptLayout:
    """Return the layout for entries with these addresses. Piped output is shortened only if `full` is False."""
    gutter = max([3, *(text_width(address) for address in addresses.values())])
    return TranscriptLayout(look, now, not look.width if full is None else full, addresses, gutter, ref)


def draw_rows(layout: TranscriptLayout, rows: Iterable[TranscriptRow]) -> Iterator[str]:
    """Yield the lines of a transcript, with a blank line between entries."""
    last = None
    for row in rows:
        if row.entry_id != last:
            if last is not None:
                yield ""
            yield _heading(layout, row)
            last = row.entry_id
        elif row.kind in ("reply", "thinking") and row.text:
            yield ""
        for line in _body(layout, row, layout.gutter + 2):
            yield " " * (layout.gutter + 2) + line if line else ""
        if row.journal == "interrupted":
            yield " " * (layout.gutter + 2) + layout.look.paint("warn", how_to_continue(layout.ref))


def how_to_continue(ref: str) -> str:
    """Return the hint for an interrupted reply or tool output."""
    return f"interrupted; `wakelog wake {visible(ref)}` continues it"


def speaker_of(row: TranscriptRow) -> tuple[str, str]:
    """Return the speaker of a row and its style."""
    match row.kind:
        case "prompt":
            return "user", "user"
        case "reply" | "thinking" | "call":
            return "assistant", "model"
        case "cut":
            how = "being written" if row.journal == "running" else "interrupted"
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


def _heading(layout: TranscriptLayout, row: TranscriptRow) -> str:
    look = layout.look
    speaker, style = speaker_of(row)
    # Text that is in no entry yet has no address.
    named = "" if row.journal and row.kind != "call" else layout.addresses.get(row.entry_id, str(row.seq))
    address = pad(visible(named), layout.gutter, right=True)
    words = [look.paint("dim", address) + " ", look.paint(style, clip(look, speaker, 40))]
    when = age_text(row.timestamp, layout.now)
    if when:
        words.append(look.paint("dim", f"{look.symbol('·', '-')} {when}"))
    words += [look.paint("label", f"[{clip(look, visible(label), 40)}]") for label in row.labels]
    return " ".join(words)


def _body(layout: TranscriptLayout, row: TranscriptRow, indent: int) -> Iterator[str]:
    look, width = layout.look, _available_width(layout, indent)
    match row.kind:
        case "call" | "result":
            yield from _tool_lines(layout, row, width)
        case "thinking":
            for line in _wrapped(row.text, width):
                yield look.paint("dim", line)
        case "fold":
            yield from _shorten(layout, _wrapped(row.text, width), _FOLDED_SUMMARY_LINES)
        case "change":
            value = row.text or (_one_line_json(row.input) if row.input is not None else "")
            yield look.paint("dim", clip(look, f"{visible(row.name)}: {first_line(value)}", look.columns - indent))
        case "session":
            if row.text:
                yield look.paint("bold", clip(look, first_line(row.text), look.columns - indent))
        case "note" if row.input is not None and not row.text:
            yield look.paint("dim", clip(look, _one_line_json(row.input), look.columns - indent))
        case "unknown":
            yield look.paint("dim", "unknown entry type; `--json` shows its bytes")
        case _:
            yield from _wrapped(row.text, width)


def _tool_lines(layout: TranscriptLayout, row: TranscriptRow, width: int) -> Iterator[str]:
    """Yield a tool call as a box: its input, its outcome and its output."""
    look = layout.look
    state = row.status + (f" {duration_text(row.duration_ms)}" if row.duration_ms is not None else "")
    title = f"{visible(row.name)}  {key_argument(row.input)}" if row.kind == "call" else visible(row.name)
    room = look.columns - layout.gutter - 6 - text_width(state) - 2
    title = clip(look, title.rstrip(), max(10, room)) if look.width else title.rstrip()
    name, _, rest = title.partition("  ")
    blank = " " * max(2, room - text_width(title) + 2) if look.width else "  "
    style = STATUS_STYLES.get(row.status, "bad")
    opening = look.paint("tool", look.symbol("┌ ", "+ ") + name) + (f"  {rest}" if rest else "")
    yield opening + (blank + look.paint(style, state) if state else "")
    side = look.paint("tool", look.symbol("│ ", "| "))
    if row.text:
        for line in _shorten(layout, _wrapped(row.text.rstrip("\n"), max(1, width - 2) if width else 0), FOLDED_LINES):
            yield side + line
    if row.truncated:
        yield side + look.paint("dim", "shortened when it was appended")


def _shorten(layout: TranscriptLayout, lines: list[str], limit: int) -> Iterator[str]:
    """Yield the first lines and a count of the rest; a single extra line is shown instead of counted."""
    if layout.full or len(lines) <= limit + 1:
        yield from lines
        return
    yield from lines[:limit]
    more = f"{layout.look.symbol('…', '...')} {len(lines) - limit} more lines (--full)"
    yield layout.look.paint("dim", more)


def _wrapped(text: str, width: int) -> list[str]:
    return [piece for line in visible_lines(text) for piece in wrap(line, width)]


def _available_width(layout: TranscriptLayout, indent: int) -> int:
    """Return the width for text; 0 where lines are not cut."""
    return max(20, layout.look.width - indent) if layout.look.width else 0


def key_argument(arguments: object) -> str:
    """Return the most telling argument of a tool call, or all of them as JSON."""
    if isinstance(arguments, dict):
        for key in _KEY_ARGUMENTS:
            if isinstance(arguments.get(key), str):
                return first_line(arguments[key])
    return "" if arguments in (None, {}) else _one_line_json(arguments)


def _one_line_json(value: object) -> str:
    return visible(canonical_json(value).decode()) if not isinstance(value, str) else visible(value)


def annotation_text(value: Body) -> str:
    """Return the text of an annotation; empty where its type says enough."""
    return first_line(_text_of(value))


def _text_of(value: Body) -> str:
    match value:
        case Label(label=text) | SessionRenamed(title=text) | Terminated(reason=text):
            return text
        case Head(target_id=target):
            return target
        case Activity(event=event, holder=holder):
            return f"{event} {holder}"
        case ModelCall(purpose=purpose, model=model, strategy=strategy, over_limit=over):
            return " ".join(filter(None, (purpose, model, f"{over:,} over {strategy}" if over else "")))
        case SessionArchived(archived=archived):
            return "archived" if archived else "restored"
        case DamageNote(reason=reason, bytes=size):
            return f"{reason}, {size} bytes"
    return _turn_text(value)


def _turn_text(value: Body) -> str:
    match value:
        case Queued(mode="cancel"):
            return "cancel the turn"
        case Queued(message=message, mode=mode):
            front = {"steer": "steer", "compact": "compact"}.get(mode, "")
            return ": ".join(filter(None, (front, message.text if message is not None else "")))
        case ToolStarted(name=name, attempt=attempt):
            return f"{name}, attempt {attempt}" if attempt > 1 else name
        case Partial(content=content, error=error):
            text = BaseMessage(content=content).text
            return error.message or error.kind if error is not None else f"{len(text)} characters: {text}"
        case Resumed(strategy=strategy, prior_chars=chars):
            return "from the beginning" if strategy == "replace" else f"from character {chars} on"
        case Attention(reason=reason, tool_call_id=call):
            return " ".join(filter(None, (reason, call)))
        case AttentionResolved(decision=decision, result=result):
            return f"{decision}: {BaseMessage(content=result).text}" if result is not None else decision
        case Spawned(child_session=child):
            return child
    return _delivery_text(value)


def _delivery_text(value: Body) -> str:
    match value:
        case Sent(channel=channel):
            return f"to {channel}"
        case SendFailed(channel=channel, error=error, attempt=attempt):
            why = f": {error.message or error.kind}" if error is not None else ""
            return f"to {channel}, attempt {attempt}{why}"
    return ""


def annotation_line(value: Body) -> str:
    """Return the type of an annotation followed by its text."""
    return "  ".join(filter(None, (visible(value.type), annotation_text(value))))
