"""How a run is shown while it runs: text for people, or one event a line for programs.

Rule 1: stdout gets what the agent says, or the events; stderr gets one dim line for each tool, and nothing that
a program would have to read. Rule 2: names, inputs and results are hostile and go through `safe`; a stored
line inside an event is as it was stored. Rule 3: an event is written whole and at once.
"""

import sys
from collections.abc import Iterable
from typing import Protocol

from wakelog.channels.callback import CallbackChannel, DeltaText, Event, Reset
from wakelog.channels.terminal import TerminalChannel
from wakelog.cli.draw import Look, clip, look
from wakelog.cli.options import Asked
from wakelog.cli.output import put_bytes, put_json
from wakelog.cli.safe import json_line, visible
from wakelog.cli.times import lasted
from wakelog.cli.transcripts import telling
from wakelog.log.content import Reply, ToolCall, ToolResult
from wakelog.log.entry import Compaction, Entry, Failed, Message, Spawned, ToolStarted
from wakelog.ports import Channel
from wakelog.session import Session
from wakelog.views.pending import pending

# The standard output of whoever wakes, whatever is written there.
CHANNEL = "terminal"
_STATUS_ROOM = 24
_NAME_ROOM = 24


class Face(Protocol):
    """What a run is shown by."""

    channel: Channel

    def hear(self, session: str, entry: Entry) -> None:
        """An entry was appended."""
        ...

    async def close(self) -> None:
        """Nothing more comes for now: lines that are open are finished."""
        ...


def face_for(asked: Asked, session: Session, *, quiet: bool) -> Face:
    """The face that was asked for."""
    return Events(session) if asked.json else Plain(session, look(asked.color, sys.stderr), quiet=quiet)


def tell(text: str) -> None:
    """Writes to stderr what has been made visible before. Nobody can be told that nobody can be told."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        return


class Events:
    """One JSON object a line, as things happen."""

    def __init__(self, session: Session) -> None:
        self._name, self._id = session.name, session.id
        self.channel: Channel = CallbackChannel(self._on_reply, CHANNEL)

    def _on_reply(self, event: Event) -> None:
        if isinstance(event, DeltaText):
            told = {"reply": event.reply_id, "offset": event.offset, "text": event.text}
            put_json({"event": "delta", "session": self._id, **told})
        elif isinstance(event, Reset):
            put_json({"event": "reset", "session": self._id, "reply": event.reply_id})

    def hear(self, session: str, entry: Entry) -> None:
        """The line as stored, inside an event. What a sub-agent does stands in its own session."""
        if session == self._name:
            front = json_line({"event": "entry", "session": self._id}).rstrip(b"}\n")
            put_bytes(front + b',"entry":' + entry.raw.strip() + b"}\n")

    async def close(self) -> None:
        """Events are whole at any time."""


class Plain:
    """The text of replies on stdout, and what tools do on stderr."""

    def __init__(self, session: Session, seen: Look, *, quiet: bool) -> None:
        self._name = session.name
        self._terminal = TerminalChannel(sys.stdout, name=CHANNEL, clean=visible)
        self.channel: Channel = self._terminal
        self._lines = _ToolLines(seen)
        self._quiet = quiet
        for call in pending(session.branch()).open_calls:
            self._lines.know(self._name, call.reply_id, [call.call])

    def hear(self, session: str, entry: Entry) -> None:
        """A line for each tool, and for what a person would otherwise wonder about."""
        if self._quiet:
            return
        indent = "" if session == self._name else "  "
        match entry.value:
            case Message(message=Reply() as reply):
                self._lines.know(session, entry.id, reply.calls)
            case ToolStarted(reply_id=reply_id, tool_call_id=call_id, name=name):
                self._lines.begin(session, reply_id, call_id, name, indent)
            case Spawned(reply_id=reply_id, tool_call_id=call_id):
                self._lines.begin(session, reply_id, call_id, "agent", indent)
            case Message(message=ToolResult() as result):
                self._lines.end(session, result, indent)
            case Failed(error=error) if error is not None and error.retryable:
                self._lines.say(f"{indent}the model failed, trying again: {visible(error.message or error.kind)}")
            case Compaction(tokens_before=before, tokens_after=after) if before is not None and after is not None:
                self._lines.say(f"{indent}folded from about {before:,} to {after:,} tokens")

    async def close(self) -> None:
        """Finishes the lines that are open, on both streams."""
        self._lines.finish()
        # To the terminal another reply begins: that finishes the line of one that was cut.
        await self._terminal.begin("", 1)


class _ToolLines:
    """One dim line for each tool: what it is, and behind it how it ended, if nothing came in between."""

    def __init__(self, seen: Look) -> None:
        self._look = seen
        self._open: tuple[str, str, str] | None = None
        self._asked: dict[tuple[str, str, str], str] = {}

    def know(self, session: str, reply_id: str, calls: Iterable[ToolCall]) -> None:
        """What calls are about: their results only name them."""
        for call in calls:
            self._asked[session, reply_id, call.id] = telling(call.input)

    def begin(self, session: str, reply_id: str, call_id: str, name: str, indent: str) -> None:
        """A tool was begun."""
        self.finish()
        self._open = (session, reply_id, call_id)
        self._write(self._title(self._open, name, indent))

    def end(self, session: str, result: ToolResult, indent: str) -> None:
        """A tool has come to its result."""
        key = (session, result.reply_id or "", result.tool_call_id)
        if self._open != key:
            self.finish()
            self._write(self._title(key, result.tool_name, indent))
        took = f" {lasted(result.duration_ms)}" if result.duration_ms is not None else ""
        style = "dim" if result.settled == "ok" else "warn"
        tell("  " + self._look.paint(style, result.settled) + self._look.paint("dim", took) + "\n")
        self._open = None

    def say(self, text: str) -> None:
        """A line of its own."""
        self.finish()
        self._write(self._mark(text))
        tell("\n")

    def finish(self) -> None:
        """Ends a line that waits for its result."""
        if self._open is not None:
            tell("\n")
        self._open = None

    def _title(self, key: tuple[str, str, str], name: str, indent: str) -> str:
        title = "  ".join(filter(None, (clip(self._look, visible(name), _NAME_ROOM), self._asked.get(key, ""))))
        return indent + self._mark(clip(self._look, title, self._look.columns - _STATUS_ROOM))

    def _mark(self, text: str) -> str:
        return f"{self._look.sign('·', '-')} {text}"

    def _write(self, text: str) -> None:
        tell(self._look.paint("dim", text))
