"""Renderers that display a run: text for one session, text for one of many sessions, or JSON events.

Rule 1: stdout gets the replies, or the events; stderr gets one dim line for each tool, and nothing that a program has
to read.
Rule 2: names, inputs and results are hostile text and pass through `safe_text`; a stored line inside an event is
unchanged.
Rule 3: an event is written whole and at once.
Rule 4: a failed model call is reported when it is logged, and a retry when it begins, never in advance.
"""

import sys
from collections.abc import Iterable

from wakelog.app.watch import TERMINAL_CHANNEL, Renderer
from wakelog.channels.in_process import CallbackChannel, DeltaText, End, ReplyEvent, Reset
from wakelog.channels.terminal import TerminalChannel
from wakelog.cli.ui.options import SharedOptions
from wakelog.cli.ui.output import put_bytes, put_json, put_text
from wakelog.cli.ui.quantities import duration_text, plural
from wakelog.cli.ui.safe_text import json_line, visible, visible_lines
from wakelog.cli.ui.terminal import TerminalStyle, clip, style_of
from wakelog.cli.ui.transcripts import key_argument
from wakelog.errors import WakelogError
from wakelog.hooks.builtin import recalled_sessions
from wakelog.log.content import BlobRef, Reply, ToolCall, ToolResult
from wakelog.log.entry import (
    Cancelled,
    Compaction,
    Entry,
    Failed,
    FaultReport,
    Head,
    Message,
    ModelCall,
    Spawned,
    ToolStarted,
)
from wakelog.ports.runtime import Channel
from wakelog.ports.stores import Blobs
from wakelog.projections.pending import pending
from wakelog.runtime.model_request import blob_text
from wakelog.session import Session

_STATUS_WIDTH = 24
_NAME_WIDTH = 24


def renderer_for(shared: SharedOptions, session: Session, *, quiet: bool, apart: bool = False) -> Renderer:
    """Return the renderer for these options; `apart` for one of several sessions that run at the same time."""
    if shared.json:
        return JsonRenderer(session)
    return (PrefixedRenderer if apart else TextRenderer)(session, style_of(shared.color, sys.stderr), quiet=quiet)


def write_stderr(text: str) -> None:
    """Write visible text to stderr. Errors are ignored, because there is no other place to report them."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        return


class JsonRenderer:
    """Renderer that writes one JSON object per line."""

    def __init__(self, session: Session) -> None:
        self._name, self._id = session.name, session.id
        self.channel: Channel = CallbackChannel(self._on_reply, TERMINAL_CHANNEL)

    def _on_reply(self, event: ReplyEvent) -> None:
        if isinstance(event, DeltaText):
            values = {"reply": event.reply_id, "offset": event.offset, "text": event.text}
            put_json({"event": "delta", "session": self._id, **values})
        elif isinstance(event, Reset):
            put_json({"event": "reset", "session": self._id, "reply": event.reply_id})

    def on_entry(self, session: str, entry: Entry) -> None:
        """Write the stored line inside an event. Entries of sub-agents are left out; they are in their own sessions."""
        if session == self._name:
            front = json_line({"event": "entry", "session": self._id}).rstrip(b"}\n")
            put_bytes(front + b',"entry":' + entry.raw.strip() + b"}\n")

    async def close(self) -> None:
        """Do nothing: events are always complete."""


class TextRenderer:
    """Renderer that writes the text of replies to stdout and tool activity to stderr."""

    def __init__(self, session: Session, look: TerminalStyle, *, quiet: bool) -> None:
        self._terminal = TerminalChannel(sys.stdout, name=TERMINAL_CHANNEL, clean=visible)
        self.channel: Channel = self._terminal
        self._lines = _ToolLines(session, look)
        self._quiet = quiet

    def on_entry(self, session: str, entry: Entry) -> None:
        """Write a line for each tool, and for retries and compactions."""
        if not self._quiet:
            self._lines.on_entry(session, entry)

    async def close(self) -> None:
        """Finish the open lines of both streams."""
        self._lines.finish()
        # Beginning another reply finishes the line of an interrupted one.
        await self._terminal.begin("", 1)


class PrefixedRenderer:
    """Like `TextRenderer`, for one of many sessions: whole lines only, each prefixed with the session's name.

    A reply is printed when it is complete. An interrupted reply is in the log; the process that continues it prints it.
    """

    def __init__(self, session: Session, look: TerminalStyle, *, quiet: bool) -> None:
        self._front = f"{visible(session.name)} | "
        self.channel: Channel = CallbackChannel(self._on_reply, TERMINAL_CHANNEL)
        self._lines = _ToolLines(session, look, front=self._front)
        self._quiet = quiet
        self._replies: dict[str, list[str]] = {}

    def _on_reply(self, event: ReplyEvent) -> None:
        match event:
            case DeltaText():
                self._replies.setdefault(event.reply_id, []).append(event.text)
            case Reset():
                self._replies.pop(event.reply_id, None)
            case End():
                text = "".join(self._replies.get(event.reply_id, ())).removesuffix("\n")
                put_text(f"{self._front}{line}" for line in visible_lines(text) if text)
                self._replies.pop(event.reply_id, None)

    def on_entry(self, session: str, entry: Entry) -> None:
        """See `TextRenderer`; a tool gets its line when it has its result."""
        if not self._quiet:
            self._lines.on_entry(session, entry)

    async def close(self) -> None:
        """Do nothing: lines are always complete."""


class _ToolLines:
    """Writes one dim line per tool: its name and input, then its outcome on the same line unless other output came.

    With a `front` prefix, a line is written whole when the tool has ended.
    """

    def __init__(self, session: Session, look: TerminalStyle, *, front: str = "") -> None:
        self._session = session.name
        self._look = look
        self._front = front
        self._open: tuple[str, str, str] | None = None
        self._inputs: dict[tuple[str, str, str], str] = {}
        self._tries = RetryNotices()
        self._recalls = RecallNotices(session.store.blobs)
        branch = session.branch()
        for node in branch.nodes:
            # Another process may have made the earlier attempts.
            self._tries.on_entry(session.name, node)
        for call in pending(branch).open_tool_calls:
            self._remember_inputs(session.name, call.reply_id, [call.tool_call])

    def on_entry(self, session: str, entry: Entry) -> None:
        """Handle an entry of the session or of one of its sub-agents."""
        indent = "" if session == self._session else "  "
        for notice in (self._tries.on_entry(session, entry), self._recalls.on_entry(session, entry)):
            if notice:
                self._write_line(f"{indent}{visible(notice)}")
        match entry.value:
            case Message(message=Reply() as reply):
                self._remember_inputs(session, entry.id, reply.tool_calls)
            case ToolStarted(reply_id=reply_id, tool_call_id=call_id, name=name):
                self._begin(session, reply_id, call_id, name, indent)
            case Spawned(reply_id=reply_id, tool_call_id=call_id):
                self._begin(session, reply_id, call_id, "agent", indent)
            case Message(message=ToolResult() as result):
                self._end(session, result, indent)
            case Compaction(tokens_before=before, tokens_after=after) if before is not None and after is not None:
                self._write_line(f"{indent}compacted from about {before:,} to {after:,} tokens")

    def finish(self) -> None:
        """End a line that waits for its result."""
        if self._open is not None:
            write_stderr("\n")
        self._open = None

    def _remember_inputs(self, session: str, reply_id: str, calls: Iterable[ToolCall]) -> None:
        """Store the inputs of tool calls, because results contain only their ids."""
        for call in calls:
            self._inputs[session, reply_id, call.id] = key_argument(call.input)

    def _begin(self, session: str, reply_id: str, call_id: str, name: str, indent: str) -> None:
        if self._front:
            return
        self.finish()
        self._open = (session, reply_id, call_id)
        self._write(self._title(self._open, name, indent))

    def _end(self, session: str, result: ToolResult, indent: str) -> None:
        key = (session, result.reply_id or "", result.tool_call_id)
        if self._open != key:
            self.finish()
            self._write(self._title(key, result.tool_name, indent))
        took = f" {duration_text(result.duration_ms)}" if result.duration_ms is not None else ""
        style = "dim" if result.effective_status == "ok" else "warn"
        write_stderr("  " + self._look.paint(style, result.effective_status) + self._look.paint("dim", took) + "\n")
        self._open = None

    def _write_line(self, text: str) -> None:
        """Write a separate line."""
        self.finish()
        self._write(self._mark(text))
        write_stderr("\n")

    def _title(self, key: tuple[str, str, str], name: str, indent: str) -> str:
        title = "  ".join(filter(None, (clip(self._look, visible(name), _NAME_WIDTH), self._inputs.get(key, ""))))
        room = max(_NAME_WIDTH, self._look.columns - _STATUS_WIDTH - len(self._front))
        return self._mark(clip(self._look, title, room), indent)

    def _mark(self, text: str, indent: str = "") -> str:
        return f"{self._front}{indent}{self._look.symbol('·', '-')} {text}"

    def _write(self, text: str) -> None:
        write_stderr(self._look.paint("dim", text))


class RecallNotices:
    """Finds out when passages of earlier sessions are given to the model, once for each change of them."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._last: dict[str, tuple[BlobRef, ...]] = {}

    def on_entry(self, session: str, entry: Entry) -> str:
        """Return the notice for an entry; empty if there is none. Stored text in it is not made visible yet."""
        call = entry.value
        if not isinstance(call, ModelCall) or call.purpose != "reply" or call.injected == self._last.get(session, ()):
            return ""
        self._last[session] = call.injected
        names = [name for blob in call.injected for name in self._recalled_sessions(blob, call.id)]
        if not names:
            return ""
        return f"the model was given passages of {plural(len(names), 'earlier session')}: {', '.join(names)}"

    def _recalled_sessions(self, blob: BlobRef, call_id: str) -> tuple[str, ...]:
        try:
            return recalled_sessions(blob_text(self._blobs, blob, call_id))
        except WakelogError:
            # The model call itself reports a missing blob.
            return ()


class RetryNotices:
    """Counts consecutive failed model calls per session."""

    def __init__(self) -> None:
        self._failed: dict[str, int] = {}

    def on_entry(self, session: str, entry: Entry) -> str:
        """Return the notice for an entry; empty if there is none. Stored text in it is not made visible yet."""
        match entry.value:
            case Failed(reason="call", error=FaultReport(retryable=True) as error):
                self._failed[session] = self._failed.get(session, 0) + 1
                return _failure_notice(error)
            case Message() | Cancelled() | Compaction() | Head() | Failed():
                self._failed.pop(session, None)
            case ModelCall(purpose="reply") if session in self._failed:
                return f"retrying (attempt {self._failed[session] + 1})"
        return ""


def _failure_notice(error: FaultReport) -> str:
    wait = f"; next attempt in {duration_text(error.delay_ms)} at the earliest" if error.delay_ms else ""
    return f"the model call failed: {error.message or error.kind}{wait}"
