"""What is live in a chat, as lines above the input: a thought, the block under way, tools, what waits. Pure but for
its looks.

However much there is, it takes a few lines: the terminal belongs to what has been said.
"""

from collections.abc import Collection, Sequence

import msgspec

from wakelog.cli.chat.drawing import live_thought, live_tool
from wakelog.cli.chat.shown import Unsaid
from wakelog.cli.chat.talk import Key, Talk
from wakelog.cli.draw import Look, clip, wrap
from wakelog.cli.safe import first_line, visible

_BLOCK_LINES = 8
_TOOLS = 6
_QUEUE = 4
_FRAMES, _PLAIN_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\"
_FRAME_MS = 100


class Moment(msgspec.Struct, frozen=True):
    """When a frame is drawn, and whether things may move in it."""

    now: int
    moving: bool = True

    def spinner(self, look: Look) -> str:
        """The sign of something that goes on; none where things stand still."""
        frames = _FRAMES if look.utf8 else _PLAIN_FRAMES
        return frames[self.now // _FRAME_MS % len(frames)] if self.moving else ""


def live_lines(look: Look, talk: Talk, moment: Moment, asked: Collection[Key] = ()) -> list[str]:
    """Everything that is not finished yet. A call that a person is `asked` about does not run: it stands still."""
    spinner = moment.spinner(look)
    lines = [live_thought(look, talk.thinking)] if talk.thinking else []
    lines += _block(look, talk.unfinished(_BLOCK_LINES))
    tools = list(talk.tools.items())
    lines += [live_tool(look, tool, "" if key in asked else spinner, moment.now) for key, tool in tools[:_TOOLS]]
    lines += _more(look, len(tools) - _TOOLS, "more tools")
    if talk.summarising:
        lines.append(look.paint("dim", f"{spinner} folding".strip()))
    queue = [(queued.message, queued.mode) for queued in talk.queue.values()]
    waiting = [Unsaid(message.text, mode == "steer") for message, mode in queue if message is not None]
    return lines + unsaid_lines(look, waiting)


def unsaid_lines(look: Look, waiting: Sequence[Unsaid]) -> list[str]:
    """Messages that wait for their turn, or for whom they are said to."""
    mark = look.sign("»", ">>")
    lines = [f"{mark} {'next' if one.steer else 'waits'}: {first_line(one.text)}" for one in waiting[:_QUEUE]]
    drawn = [look.paint("dim", clip(look, line, look.columns)) for line in lines]
    return drawn + _more(look, len(waiting) - _QUEUE, "more messages wait")


def connecting_line(look: Look, moment: Moment, names: Sequence[str], *, stopping: bool) -> str:
    """The servers that a session waits for before it begins; those that are sent away again take a moment too."""
    doing = "stopping" if stopping else "connecting to"
    words = f"{moment.spinner(look)} {doing} {', '.join(map(visible, names))}".strip()
    return look.paint("dim", clip(look, words, look.columns))


def doing_words(look: Look, moment: Moment, *, busy: bool, elsewhere: bool, cancelling: bool, pressed: bool) -> str:
    """What is going on, for the status line."""
    again = "Ctrl-C again leaves"
    if busy and cancelling:
        return f"cancelling, {again}"
    if busy:
        return f"{moment.spinner(look)} {'run elsewhere' if elsewhere else 'working'}".strip()
    return again if pressed else ""


def _block(look: Look, lines: list[str]) -> list[str]:
    """The end of the unfinished block as plain text: its Markdown is not whole yet."""
    drawn = [piece for line in lines for piece in wrap(visible(line), look.columns)]
    return drawn[-_BLOCK_LINES:]


def _more(look: Look, count: int, what: str) -> list[str]:
    return [look.paint("dim", f"  {count} {what}")] if count > 0 else []
