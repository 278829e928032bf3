"""The runtime of a replay: clock, models, tools, channels and people, answered from the log. Nothing reaches outside.

Each answer is looked up when it is requested, from the entries that come next in the recording. A model or tool whose
entry is not next waits until it is, or until it is stopped because the log says that a person cancelled or that the
worker was gone.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.channels.in_process import MemoryChannel
from wakelog.decide.assembly import to_deltas
from wakelog.decide.policy import HookSettings
from wakelog.decide.wording import without_summary_prefix
from wakelog.errors import WakelogError
from wakelog.log.content import (
    AnyPart,
    BlobRef,
    Content,
    Delta,
    Faulted,
    Finished,
    Media,
    Prompt,
    Reply,
    Text,
    TextDelta,
    ToolResult,
)
from wakelog.log.entry import (
    Activity,
    Attention,
    Cancelled,
    Compaction,
    Entry,
    Envelope,
    Failed,
    FaultReport,
    Message,
    ModelCall,
    Partial,
    Queued,
    ReplayMode,
    SendFailed,
    Sent,
    ToolStarted,
)
from wakelog.log.redaction_marks import differs_in_marks_only
from wakelog.log.timestamps import parse_ms
from wakelog.ports.runtime import HookContext, ModelRequest, Provider, ReceiptAnswer, Tool, ToolInvocation, ToolOutcome
from wakelog.runtime.interface import AnyBody, Runtime, SubagentTask
from wakelog.runtime.replay.recording import ReplayStore, new_ids_of
from wakelog.session import Session
from wakelog.tools.subagent import SUBAGENT_NAME, SubagentTool


class ReplayRuntime(Runtime):
    """The runtime of the worker that wrote the entry `attached`, replayed: every answer comes from the recording."""

    def __init__(self, recording: ReplayStore, attached: Activity, channels: Mapping[str, MemoryChannel]) -> None:
        super().__init__(
            recording,
            _RecordedClock(recording),
            attached.holder,
            channels={name: _RecordedChannel(channels[name], self) for name in attached.channels},
            redacts_input=False,
        )
        self.recording = recording
        self.cancel = asyncio.Event()
        self.gone = asyncio.Event()

    def open_provider(self, provider: str, model: str, /) -> Provider:  # noqa: ARG002 - the recording has the replies
        """Return a model that streams the recorded replies."""
        return _RecordedModel(self)

    def tools(self, cwd: str, declarations: Sequence[Mapping[str, Any]], /) -> Mapping[str, Tool]:  # noqa: ARG002
        """Return a mapping with a recorded tool for every name."""
        return _RecordedTools(self)

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────

    async def wait_for_turn(self, is_mine: Callable[[Entry], bool]) -> Entry | None:
        """Wait until the next entry satisfies `is_mine`, and return it. Waits until cancelled if that never happens."""
        while True:
            entry = self.recording.next_entry
            if entry is not None and is_mine(entry):
                return entry
            self._signal_end(entry)
            await self.recording.changed.wait()

    def _signal_end(self, entry: Entry | None) -> None:
        """Set `gone` or `cancel` if the next entry says that the worker was gone or that a person cancelled."""
        if entry is None or isinstance(entry.value, Activity):
            self.gone.set()
        elif isinstance(entry.value, Cancelled | Partial) or _is_result_of_stopped_tool(entry):
            # Partial replies and outputs, and the results of stopped tools, are written before the `cancelled` entry.
            self.cancel.set()

    async def wait_forever(self) -> None:
        """Wait until cancelled: the log holds no further answer."""
        await self.wait_for_turn(lambda _: False)

    async def sleep(self, ms: int) -> None:  # noqa: ARG002 - the time is in the log
        """Return at once; but for a worker that was gone before the wait was over, wait until cancelled."""
        if self.recording.worker_is_gone:
            await self.wait_forever()

    async def wait_for_cancel(self, session: Session, seq: int) -> Queued:  # noqa: ARG002 - the time is in the log
        """Wait until the recording shows that a person cancelled; return the request."""
        await self.cancel.wait()
        self.cancel.clear()
        wanted = next(
            (entry.value.queued_id for entry in self.upcoming_entries() if isinstance(entry.value, Cancelled)), None
        )
        return Queued(id=wanted or "", mode="cancel")

    async def hook_texts(self, hooks: Sequence[HookSettings], context: HookContext) -> tuple[str, ...]:  # noqa: ARG002
        """Return the hook texts of the model call that is to be written next."""
        entry = self.recording.next_entry
        blobs = entry.value.injected if entry is not None and isinstance(entry.value, ModelCall) else ()
        return tuple(self._blob_text(blob) for blob in blobs)

    async def run_subagent(self, task: SubagentTask) -> ToolOutcome | None:
        """Return the recorded outcome when its result is the next entry; None if the subagent had to wait."""

        def is_over(entry: Entry) -> bool:
            return _is_result(entry, task.reply_id, task.tool_call_id) or is_stuck(entry)

        def is_stuck(entry: Entry) -> bool:
            # While a subagent waits for a person, the worker leaves or sends a reply again.
            return _is_leaving(entry) or isinstance(entry.value, Sent | SendFailed)

        entry = await self.wait_for_turn(is_over)
        return None if entry is None or is_stuck(entry) else self.outcome(entry)

    def is_subagent_blocked(self, child: str) -> bool:  # noqa: ARG002 - `run_subagent` reads it from the recording
        """Return False: whether a subagent had to wait is in the recording."""
        return False

    async def cancel_subagent(self, child: str) -> None:
        """Do nothing: a subagent's own log records how it ended."""

    async def wait_for_entry(self, session: Session, seq: int) -> None:  # noqa: ARG002 - inputs are in the log already
        """Wait until cancelled."""
        await asyncio.Event().wait()

    def with_recorded_marks(self, body: AnyBody) -> AnyBody:
        """See `Runtime`: which values were known as secrets is not in the log, so the recorded entry answers."""
        entry = self.recording.next_entry
        if entry is None or type(entry.value) is not type(body):
            return body
        envelope = {name: getattr(body, name) for name in Envelope.__struct_fields__}
        recorded = msgspec.structs.replace(entry.value, **envelope)
        is_same = differs_in_marks_only(msgspec.json.encode(recorded), msgspec.json.encode(body))
        return recorded if is_same else body

    # ── lookups in the recording ─────────────────────────────────────────────────────────────────

    def upcoming_entries(self) -> Iterator[Entry]:
        """Return the entries from the next one on."""
        return (
            recorded.entry
            for recorded in self.recording.script[self.recording.position :]
            if recorded.entry is not None
        )

    def outcome(self, entry: Entry) -> ToolOutcome:
        """Return the whole outcome of a tool, from its recorded result."""
        assert isinstance(entry.value, Message)
        result = entry.value.message
        assert isinstance(result, ToolResult)
        text = self._blob_text(result.blob) if result.blob is not None else self.text_of(result.content)
        media = tuple(part for part in result.parts if isinstance(part, Media))
        return ToolOutcome(text, is_error=result.effective_status == "error", media=media)

    def _parts(self, content: Content) -> tuple[AnyPart, ...]:
        """Return the parts as they were passed to the writer: a text too long for its line is read from its blob."""
        parts = Prompt(content=content).parts
        return tuple(
            Text(text=self._blob_text(part.blob)) if isinstance(part, Text) and part.blob is not None else part
            for part in parts
        )

    def text_of(self, content: Content) -> str:
        """Return the whole text of a content."""
        return Prompt(content=self._parts(content)).text

    def _blob_text(self, blob: BlobRef) -> str:
        return self.recording.blobs.get(blob).decode()

    def channel_fault(self, reply_id: str, channel: str) -> FaultReport | None:
        """Return what a channel raised for a reply that is about to be sent or streamed; None if nothing."""
        for failed in self._send_failures(reply_id):
            if failed.channel == channel:
                return failed.error or FaultReport()
        return None

    def _send_failures(self, reply_id: str) -> Iterator[SendFailed]:
        """Yield the failures that come next, or next after the end of the model call for this reply.

        A call writes its failures in the order of its channels; one out of order was written by a later step.
        """
        order, last = self._channels_of(reply_id), -1
        for recorded in self.recording.script[self.recording.position :]:
            value = recorded.body
            if isinstance(value, SendFailed) and value.reply_id == reply_id and value.channel in order[last + 1 :]:
                last = order.index(value.channel)
                yield value
            elif not (recorded.is_input or (last < 0 and _ends_a_call(value, reply_id))):
                return

    def last_call(self) -> ModelCall:
        """Return the model call that was written last."""
        return next(self._calls_written())

    def _channels_of(self, reply_id: str) -> tuple[str, ...]:
        """Return the channels that the last model call for a reply names."""
        return next((call.channels for call in self._calls_written() if call.reply_id == reply_id), ())

    def _calls_written(self) -> Iterator[ModelCall]:
        """Return the model calls written so far, newest first."""
        written = (recorded.body for recorded in reversed(self.recording.script[: self.recording.position]))
        return (value for value in written if isinstance(value, ModelCall))

    def recorded_reply(self, call: ModelCall) -> tuple[tuple[AnyPart, ...], Finished | Faulted | None]:
        """Return the parts of the reply to a model call, and how the call ended; None if it never did."""
        parts: tuple[AnyPart, ...] = ()
        for entry in self.upcoming_entries():
            match entry.value:
                case ModelCall(reply_id=call.reply_id):
                    return parts, None
                case Message(message=Reply(call_id=call.key) as reply):
                    return self._parts(reply.content), Finished(
                        reply.stop_reason or "stop", reply.usage, reply.request_id
                    )
                case Compaction(call_id=call.key, usage=usage) as compaction:
                    return (Text(text=without_summary_prefix(compaction.summary)),), Finished(usage=usage)
                case Failed(call_id=call.key, error=error) if error is not None:
                    return parts, Faulted(error.kind, error.message, error.retryable, error.delay_ms)
                case Partial(reply_id=call.reply_id, tool_call_id=None) as partial:
                    parts = self._parts(partial.content)
                    if call.purpose == "compaction" and partial.error is not None:
                        return parts, _end_of_summary(partial)
        return parts, None


def _end_of_summary(partial: Partial) -> Finished | Faulted:
    """Return how the call for a rejected summary ended: one that was empty or did not shrink was complete."""
    error = partial.error
    assert error is not None
    if error.kind in ("empty", "did_not_shrink"):
        return Finished(usage=partial.usage)
    return Faulted(error.kind, error.message, error.retryable)


class _RecordedClock:
    """Clock with the time and the ids of the entry that is to be written next."""

    def __init__(self, store: ReplayStore) -> None:
        self._store = store
        self._place = -1
        self._given = 0

    def now_ms(self) -> int:
        """Return the time of the next entry; 0 if it has none."""
        entry = self._store.next_entry
        stamp = entry.value.timestamp if entry is not None else ""
        return parse_ms(stamp) or 0

    def new_id(self) -> str:
        """Return the next of the ids that were made for that entry; a placeholder if there are no more."""
        if self._place != self._store.position:
            self._place, self._given = self._store.position, 0
        entry = self._store.next_entry
        if entry is not None and isinstance(entry.value, Activity):
            # The worker never wrote any other entry that it prepares here.
            return entry.id
        ids = self._left(entry) if entry is not None else ()
        self._given += 1
        return ids[self._given - 1] if self._given <= len(ids) else f"none-{self._store.position}-{self._given}"

    def _left(self, entry: Entry) -> tuple[str, ...]:
        """Return the ids made for an entry. The call for an interrupted reply makes no new reply id."""
        ids = new_ids_of(entry)
        if not isinstance(entry.value, ModelCall):
            return ids
        before = (recorded.entry for recorded in self._store.script[: self._store.position])
        known = any(
            past is not None and isinstance(past.value, ModelCall) and past.value.reply_id == entry.value.reply_id
            for past in before
        )
        return ids[1:] if known else ids


class _RecordedModel:
    """Model that streams the recorded replies."""

    name = "recorded"
    can_resume = True

    def __init__(self, runtime: ReplayRuntime) -> None:
        self._runtime = runtime

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Yield the reply to the model call that was written last."""
        parts, end = self._runtime.recorded_reply(self._runtime.last_call())
        for at, delta in enumerate(to_deltas(parts)):
            if at == 0 and request.prefill and isinstance(delta, TextDelta):
                yield TextDelta(delta.text.removeprefix(request.prefill), delta.bound)
            else:
                yield delta
        if end is None:
            await self._runtime.wait_forever()
        else:
            yield end


class _RecordedTools(Mapping[str, Tool]):
    """Mapping with a recorded tool for every name."""

    def __init__(self, runtime: ReplayRuntime) -> None:
        self._runtime = runtime

    def __getitem__(self, name: str) -> Tool:
        entry = self._runtime.recording.next_entry
        if name == SUBAGENT_NAME and not (entry is not None and isinstance(entry.value, ToolStarted)):
            return SubagentTool()
        return _RecordedTool(name, self._runtime)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _RecordedTool:
    """Tool that returns its recorded outcome when that is the next entry."""

    description = ""
    schema: Mapping[str, Any] = {}

    def __init__(self, name: str, runtime: ReplayRuntime) -> None:
        self.name = name
        self.replay: ReplayMode = "never"
        self._runtime = runtime

    async def prepare(self, call: ToolInvocation) -> Mapping[str, Any]:  # noqa: ARG002 - read from the log
        """Return the intent in the `tool_started` entry that comes next; empty if none does."""
        entry = self._runtime.recording.next_entry
        if entry is None or not isinstance(entry.value, ToolStarted):
            return {}
        self.replay = entry.value.replay
        return entry.value.intent

    async def run(self, call: ToolInvocation) -> ToolOutcome:
        """Show the recorded live output of an interrupted run, and return the outcome when its result is next."""
        shown = self._output_before_interruption(call)
        if shown:
            call.show(shown)

        def is_mine(entry: Entry) -> bool:
            return _is_result(entry, call.reply_id, call.tool_call_id) and not _is_result_of_stopped_tool(entry)

        entry = await self._runtime.wait_for_turn(is_mine)
        assert entry is not None
        return self._runtime.outcome(entry)

    def _output_before_interruption(self, call: ToolInvocation) -> str:
        for entry in self._runtime.upcoming_entries():
            match entry.value:
                case ToolStarted(reply_id=call.reply_id, tool_call_id=call.tool_call_id):
                    return ""
                case Partial(reply_id=call.reply_id, tool_call_id=call.tool_call_id, content=content):
                    return self._runtime.text_of(content)
            if _is_result(entry, call.reply_id, call.tool_call_id):
                return ""
        return ""

    async def receipt(self, call: ToolInvocation) -> ReceiptAnswer:
        """Return the answer that the next entry of the call implies."""

        def is_mine(entry: Entry) -> bool:
            mine = (call.reply_id, call.tool_call_id)
            begun = isinstance(entry.value, ToolStarted | Attention)
            return (begun and (entry.value.reply_id, entry.value.tool_call_id) == mine) or _is_result(entry, *mine)  # type: ignore[union-attr]

        entry = await self._runtime.wait_for_turn(is_mine)
        assert entry is not None
        if isinstance(entry.value, ToolStarted):
            return "not begun"
        if isinstance(entry.value, Message):
            result = entry.value.message
            if isinstance(result, ToolResult) and result.effective_status in ("ok", "error"):
                return self._runtime.outcome(entry)
        return "cannot say"


class _RecordedChannel:
    """Channel that keeps what it gets, and raises where the log says that it did."""

    def __init__(self, held: MemoryChannel, runtime: ReplayRuntime) -> None:
        self.name = held.name
        self.delta, self.end = held.delta, held.end
        self._held = held
        self._runtime = runtime

    async def begin(self, reply_id: str, attempt: int) -> None:
        """Raise the recorded fault here, whatever its place in the reply was: no entry records that place."""
        self._raise_recorded_fault(reply_id)
        await self._held.begin(reply_id, attempt)

    async def reset(self, reply_id: str) -> None:
        """Raise the recorded fault here too: an interrupted reply is reset without a `begin`."""
        self._raise_recorded_fault(reply_id)
        await self._held.reset(reply_id)

    def _raise_recorded_fault(self, reply_id: str) -> None:
        fault = self._runtime.channel_fault(reply_id, self.name)
        if fault is not None:
            raise _RecordedFault(fault)


class _RecordedFault(WakelogError):
    """What a channel raised, with its kind and its text."""

    def __init__(self, fault: FaultReport) -> None:
        super().__init__(fault.message)
        self.kind = fault.kind


def _ends_a_call(value: object, reply_id: str) -> bool:
    """Return whether an entry is one of those that end a model call for a reply."""
    match value:
        case Message(id=made, message=Reply()) | Partial(reply_id=made, tool_call_id=None):
            return made == reply_id
    return isinstance(value, Failed | Cancelled)


def _is_result(entry: Entry, reply_id: str, tool_call_id: str) -> bool:
    match entry.value:
        case Message(message=ToolResult(reply_id=named, tool_call_id=call_id)):
            return (named, call_id) == (reply_id, tool_call_id)
    return False


def _is_result_of_stopped_tool(entry: Entry) -> bool:
    match entry.value:
        case Message(message=ToolResult(status="interrupted")):
            return True
    return False


def _is_leaving(entry: Entry) -> bool:
    return isinstance(entry.value, Activity) and entry.value.event == "left"
