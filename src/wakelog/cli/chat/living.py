"""Lines of the live area above the input: the current thought, unfinished block, tools and queued messages.

Pure apart from styling. The number of lines is limited, so that printed text keeps most of the terminal.
"""

from collections.abc import Collection, Sequence

import msgspec

from wakelog.cli.chat.drawing import live_thought, live_tool
from wakelog.cli.chat.shown import PendingMessage
from wakelog.cli.chat.talk import ChatState, Key
from wakelog.cli.draw import Look, clip, wrap
from wakelog.cli.safe import first_line, visible

_BLOCK_LINES = 8
_TOOLS = 6
_QUEUE = 4
_FRAMES, _PLAIN_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\"
_FRAME_MS = 100


class Moment(msgspec.Struct, frozen=True):
    """The time of a frame, and whether animation is allowed."""

    now: int
    moving: bool = True

    def spinner(self, look: Look) -> str:
        """Return the spinner character; empty without animation."""
        frames = _FRAMES if look.utf8 else _PLAIN_FRAMES
        return frames[self.now // _FRAME_MS % len(frames)] if self.moving else ""


def live_lines(look: Look, talk: ChatState, moment: Moment, asked: Collection[Key] = ()) -> list[str]:
    """Return the lines of everything unfinished. A call that a person is `asked` about has no spinner."""
    spinner = moment.spinner(look)
    lines = [live_thought(look, talk.thinking)] if talk.thinking else []
    lines += _block(look, talk.unfinished(_BLOCK_LINES))
    tools = list(talk.tools.items())
    lines += [live_tool(look, tool, "" if key in asked else spinner, moment.now) for key, tool in tools[:_TOOLS]]
    lines += _more(look, len(tools) - _TOOLS, "more tools")
    if talk.summarising:
        lines.append(look.paint("dim", f"{spinner} folding".strip()))
    queue = [(queued.message, queued.mode) for queued in talk.queue.values()]
    waiting = [PendingMessage(message.text, mode == "steer") for message, mode in queue if message is not None]
    return lines + unsaid_lines(look, waiting)


def unsaid_lines(look: Look, waiting: Sequence[PendingMessage]) -> list[str]:
    """Return the lines of messages that are queued or not sent yet."""
    mark = look.sign("»", ">>")
    lines = [f"{mark} {'next' if one.steer else 'waits'}: {first_line(one.text)}" for one in waiting[:_QUEUE]]
    drawn = [look.paint("dim", clip(look, line, look.columns)) for line in lines]
    return drawn + _more(look, len(waiting) - _QUEUE, "more messages wait")


def connecting_line(look: Look, moment: Moment, names: Sequence[str], *, stopping: bool) -> str:
    """Return the line with the servers (or the model) that a session waits for; `stopping` after a cancel."""
    doing = "stopping" if stopping else "connecting to"
    words = f"{moment.spinner(look)} {doing} {', '.join(map(visible, names))}".strip()
    return look.paint("dim", clip(look, words, look.columns))


def doing_words(look: Look, moment: Moment, *, busy: bool, elsewhere: bool, cancelling: bool, pressed: bool) -> str:
    """Return the current activity, for the status line."""
    again = "Ctrl-C again leaves"
    if busy and cancelling:
        return f"cancelling, {again}"
    if busy:
        return f"{moment.spinner(look)} {'run elsewhere' if elsewhere else 'working'}".strip()
    return again if pressed else ""


def _block(look: Look, lines: list[str]) -> list[str]:
    """Return the end of the unfinished block as plain text, because its Markdown is not complete."""
    drawn = [piece for line in lines for piece in wrap(visible(line), look.columns)]
    return drawn[-_BLOCK_LINES:]


def _more(look: Look, count: int, what: str) -> list[str]:
    return [look.paint("dim", f"  {count} {what}")] if count > 0 else []
