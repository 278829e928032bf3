"""Live area and status line of a chat, drawn again with every frame. Pure apart from styling.

The live area above the input has the current thought, the unfinished block, running tools and queued messages. The
number of lines is limited, so that printed text keeps most of the terminal. The status line has figures of the session,
read from its log; on a narrow terminal the least important ones are left out.
"""

from collections.abc import Collection, Sequence

import msgspec

from wakelog.cli.chat.drawing import tool_title
from wakelog.cli.chat.items import PendingMessage, RunningTool
from wakelog.cli.chat.transcript import ChatTranscript, ToolCallKey
from wakelog.cli.ui.quantities import duration_text, plural
from wakelog.cli.ui.safe_text import first_line, visible
from wakelog.cli.ui.session_views import estimate_other_tokens
from wakelog.cli.ui.terminal import TerminalStyle, clip, fit_end, fit_start, text_width, wrap
from wakelog.decide.policy import policy_in_force
from wakelog.log.content import Usage
from wakelog.log.timestamps import parse_ms
from wakelog.projections.branch_state import branch_state
from wakelog.projections.context import build_context
from wakelog.projections.session_state import session_state
from wakelog.providers import format_model
from wakelog.session import Session

_BLOCK_LINES = 8
_TOOLS_MAX = 6
_MESSAGES_MAX = 4
_FRAMES, _PLAIN_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\"
_FRAME_MS = 100


class FrameTime(msgspec.Struct, frozen=True):
    """The time of a frame, and whether animation is allowed."""

    now: int
    animated: bool = True

    def spinner(self, look: TerminalStyle) -> str:
        """Return the spinner character; empty without animation."""
        frames = _FRAMES if look.utf8 else _PLAIN_FRAMES
        return frames[self.now // _FRAME_MS % len(frames)] if self.animated else ""


def live_lines(
    look: TerminalStyle, transcript: ChatTranscript, frame_time: FrameTime, waiting_calls: Collection[ToolCallKey] = ()
) -> list[str]:
    """Return the lines of everything unfinished. A tool call in `waiting_calls` has no spinner."""
    spinner = frame_time.spinner(look)
    lines = [thinking_line(look, transcript.thinking)] if transcript.thinking else []
    lines += _unfinished_block(look, transcript.unfinished_lines(_BLOCK_LINES))
    tools = list(transcript.tools.items())
    lines += [
        running_tool_line(look, tool, "" if key in waiting_calls else spinner, frame_time.now)
        for key, tool in tools[:_TOOLS_MAX]
    ]
    lines += _rest_count(look, len(tools) - _TOOLS_MAX, "more tools")
    if transcript.compacting:
        lines.append(look.paint("dim", f"{spinner} compacting".strip()))
    queue = [(queued.message, queued.mode) for queued in transcript.queue.values()]
    waiting = [PendingMessage(message.text, mode == "steer") for message, mode in queue if message is not None]
    return lines + pending_message_lines(look, waiting)


def pending_message_lines(look: TerminalStyle, waiting: Sequence[PendingMessage]) -> list[str]:
    """Return the lines of messages that are queued or not sent yet."""
    mark = look.symbol("»", ">>")
    lines = [
        f"{mark} {'next step' if one.steer else 'queued'}: {first_line(one.text)}" for one in waiting[:_MESSAGES_MAX]
    ]
    drawn = [look.paint("dim", clip(look, line, look.columns)) for line in lines]
    return drawn + _rest_count(look, len(waiting) - _MESSAGES_MAX, "more queued messages")


def connecting_line(look: TerminalStyle, frame_time: FrameTime, names: Sequence[str], *, stopping: bool) -> str:
    """Return the line with the servers (or the model) that a session waits for; `stopping` after a cancel."""
    doing = "stopping" if stopping else "connecting to"
    text = f"{frame_time.spinner(look)} {doing} {', '.join(map(visible, names))}".strip()
    return look.paint("dim", clip(look, text, look.columns))


def activity_text(
    look: TerminalStyle,
    frame_time: FrameTime,
    *,
    busy: bool,
    runs_elsewhere: bool,
    cancelling: bool,
    interrupt_pressed: bool,
) -> str:
    """Return the current activity, for the status line."""
    again = "Ctrl-C again leaves"
    if busy and cancelling:
        return f"cancelling, {again}"
    if busy:
        return f"{frame_time.spinner(look)} {'running in another process' if runs_elsewhere else 'working'}".strip()
    return again if interrupt_pressed else ""


def _unfinished_block(look: TerminalStyle, lines: list[str]) -> list[str]:
    """Return the end of the unfinished block as plain text, because its Markdown is not complete."""
    drawn = [piece for line in lines for piece in wrap(visible(line), look.columns)]
    return drawn[-_BLOCK_LINES:]


def _rest_count(look: TerminalStyle, count: int, what: str) -> list[str]:
    return [look.paint("dim", f"  {count} {what}")] if count > 0 else []


_MODEL_CHARS = 32
_THOUSAND, _MILLION = 1_000, 1_000_000


class StatusFigures(msgspec.Struct, frozen=True):
    """Figures of a session; for a new one only its model is known."""

    name: str = "a new session"
    title: str = ""
    model: str = ""
    tokens: int = 0
    compact_at: int = 0
    spent: Usage = Usage(cost_micros=0)
    calls: int = 0


def status_figures(session: Session) -> StatusFigures:
    """Return the figures of a session."""
    tree = session.tree
    branch, whole = tree.branch(), session_state(tree)
    state = branch_state(branch)
    policy = policy_in_force(state.context)
    built = build_context(branch, policy.strategy)
    return StatusFigures(
        name=session.name,
        title=whole.title or "",
        model=format_model(state.provider, state.model),
        tokens=built.tokens + sum(estimate_other_tokens(session.store.blobs, built, branch).values()),
        compact_at=policy.compact_at,
        spent=whole.usage,
        calls=whole.calls,
    )


def status_line(look: TerminalStyle, figures: StatusFigures, activity: str, questions: int, outcomes: int = 0) -> str:
    """Return the status line. On a narrow terminal the least important words are left out first."""
    used = figures.spent
    spent = used.input_tokens + used.output_tokens + used.cache_read_tokens + used.cache_write_tokens
    limit = f"/{_short_count(figures.compact_at)}" if figures.compact_at else ""
    words = [
        (0, "bold", visible(figures.name)),
        (4, "dim", fit_start(first_line(figures.title), 40)),
        (2, "dim", _model_ending(look, visible(figures.model))),
        (3, "dim", f"context {_short_count(figures.tokens)}{limit}" if figures.calls or figures.tokens else ""),
        (5, "dim", f"spent {_short_count(spent)}" if figures.calls else ""),
        (6, "dim", _cost_text(used.cost_micros) if figures.calls else ""),
        (1, "warn", activity),
        (0, "warn", plural(questions, "question") if questions else ""),
        (0, "warn", plural(outcomes, "unknown outcome") if outcomes else ""),
    ]
    return _fit_words(look, [word for word in words if word[2]])


def _fit_words(look: TerminalStyle, parts: list[tuple[int, str, str]]) -> str:
    between = f" {look.symbol('·', '-')} "
    while len(parts) > 1 and sum(text_width(word[2]) + 3 for word in parts) - 3 > look.columns:
        least = max(parts, key=lambda word: word[0])
        if least[0] == 0:
            break
        parts.remove(least)
    if sum(text_width(word[2]) + 3 for word in parts) - 3 > look.columns:
        return clip(look, between.join(word[2] for word in parts), look.columns)
    return look.paint("dim", between).join(look.paint(style, text) for _, style, text in parts)


def _model_ending(look: TerminalStyle, model: str) -> str:
    """Return a model's name; of a long one, such as the path of a script, only the end."""
    return model if len(model) <= _MODEL_CHARS else look.symbol("…", "...") + model[-_MODEL_CHARS:]


def _short_count(count: int) -> str:
    """Return a number of tokens: `812`, `4.1k`, `1.2M`."""
    if count < _THOUSAND:
        return str(count)
    size, unit = (_THOUSAND, "k") if count < _MILLION else (_MILLION, "M")
    return f"{count / size:.1f}".removesuffix(".0") + unit


def _cost_text(micros: int | None) -> str:
    return "cost unknown" if micros is None else f"${micros / _MILLION:.4f}"


_GRAPHEME_CHARS = 12


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────


def running_tool_line(look: TerminalStyle, tool: RunningTool, spinner: str, now: int) -> str:
    """Return the line of a running tool: duration and last output line. Without a spinner it shows no duration."""
    indent = "  " if tool.in_subagent else ""
    since = parse_ms(tool.started)
    took = duration_text(max(0, now - since) // 100 * 100) if since is not None and spinner else ""
    output = next((line for line in reversed(tool.output.split("\n")) if line.strip()), "")
    dot = look.symbol("·", "-")
    title = tool_title(look, tool.name, tool.input)
    words = [clip(look, title, look.columns // 2) if output else title, took, visible(output.strip())]
    line = f" {dot} ".join(word for word in words if word)
    return indent + look.paint("tool", spinner or look.symbol("•", "*")) + " " + clip(look, line, look.columns - 4)


def _last_whole_words(text: str, width: int) -> str:
    """Return the last whole words that fit; of a single word that is too long, its end."""
    end = fit_end(text, width)
    cut = end != text and not text[: len(text) - len(end)].endswith(" ")
    space = end.find(" ") if cut else -1
    return end[space + 1 :] if 0 <= space < 2 * width // 3 else end.lstrip(" ")


def thinking_line(look: TerminalStyle, text: str) -> str:
    """Return the end of the current thought, on one line."""
    # Enough characters for the end of the line: no common grapheme has more than `_GRAPHEME_CHARS`.
    shown = visible(" ".join(text[-look.columns * _GRAPHEME_CHARS :].split()))
    end = _last_whole_words(shown, max(8, look.columns - 15))
    return look.paint("dim", f"{look.symbol('∴', '~')} thinking {look.symbol('…', '...')} {end}")
