"""Ports of a run besides its store: `Clock`, `Provider` (models), `Tool`, `Hook` and `Channel`.

Failures outside wakelog are values (`Faulted`, an error outcome), never exceptions; only a channel may raise. Adapters
in `providers/`, `tools/`, `hooks/` and `channels/` implement these and know nothing of each other.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from wakelog.log.content import Delta, Media
from wakelog.log.entry import ReplayMode
from wakelog.redaction.redactor import SecretSpan

# ── runtime ──────────────────────────────────────────────────────────────────────────────────────


class Clock(Protocol):
    """Time and new ids, passed in so that replay can supply both."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        ...

    def new_id(self) -> str:
        """Return a new unique id; later ids sort after earlier ones."""
        ...


class ModelRequest(msgspec.Struct, frozen=True):
    """A model request: everything the context digest covers, with texts resolved from blobs.

    `answers` is the number of model calls of this branch that ended before this one. `prefill` is the text that a reply
    to be resumed already has; the model continues after it.
    """

    model: str
    messages: tuple[Any, ...]
    system: str = ""
    tools: tuple[Any, ...] = ()
    params: Mapping[str, Any] = {}
    injected: tuple[str, ...] = ()
    prefill: str = ""
    answers: int = 0
    purpose: Literal["reply", "compaction"] = "reply"


class Provider(Protocol):
    """Access to a model. It never raises for failures outside wakelog; it yields `Faulted` instead.

    An exception that it raises anyway becomes a fault of its type; it is retried only if it is an `OSError`.

    A provider that signs reasoning and needs it back unchanged sets `needs_reasoning_back = True`.
    """

    name: str
    can_resume: bool

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Yield the reply as it arrives, ending in `Finished` or `Faulted`."""
        ...


@runtime_checkable
class CheckedProvider(Protocol):
    """A provider that can report before a request that none can be made. Optional for a `Provider`."""

    def check(self, model: str, params: Mapping[str, Any]) -> None:
        """Raise `UsageError` if the model cannot be called: no key, wrong settings, missing package. No network use."""
        ...


class ToolOutcome(msgspec.Struct, frozen=True):
    """The full result of a tool run; it is clipped when it is appended.

    `media` are the images and audio that belong to the text, base64-encoded.
    """

    text: str
    is_error: bool = False
    media: tuple[Media, ...] = ()


def _discard_output(_: str) -> None:
    """Discard live output."""


class ToolInvocation(msgspec.Struct, frozen=True):
    """One tool call. (reply id, tool call id) is the key of its receipt, the same for every attempt.

    `intent` is what `prepare` returned before the tool started; `show` receives live output. `find_secrets` returns the
    secrets of a text that the model sees as marks, in order; None if nothing is redacted.
    """

    reply_id: str
    tool_call_id: str
    arguments: Mapping[str, Any]
    attempt: int = 1
    intent: Mapping[str, Any] = {}
    show: Callable[[str], None] = _discard_output
    find_secrets: Callable[[str], tuple[SecretSpan, ...]] | None = None


class HookContext(msgspec.Struct, frozen=True):
    """A run about to start: session, agent, sender, folder, and the last prompt."""

    session: str
    turn_id: str
    agent: str
    sender: str
    cwd: str
    prompt: str
    now_ms: int


class Hook(Protocol):
    """Called before a run; provides text that the model sees in that run only (VIEW-7)."""

    name: str

    async def before_run(self, occasion: HookContext) -> str:
        """Return the text to add to the context; empty for none."""
        ...


ReceiptAnswer: TypeAlias = ToolOutcome | Literal["not begun", "cannot say"]


class Tool(Protocol):
    """An action available to an agent. `replay` says what to do if it is unknown whether the tool ran.

    A tool that understands redaction marks has `accepts_marks = True`; any other is not run with a mark in its input.
    Failures outside wakelog are returned as a `ToolOutcome`; a tool raises nothing.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    replay: ReplayMode

    async def prepare(self, call: ToolInvocation) -> Mapping[str, Any]:
        """Return data that `receipt` needs later. It is logged before the tool starts. Must have no effect."""
        ...

    async def run(self, call: ToolInvocation) -> ToolOutcome:
        """Run the tool. Cancelling the task stops it and everything it started before this returns."""
        ...

    async def receipt(self, call: ToolInvocation) -> ReceiptAnswer:
        """For `receipt` tools: return what a started call did, `"not begun"`, or `"cannot say"`."""
        ...


class Channel(Protocol):
    """Destination for replies. Offsets make repeated deliveries harmless.

    Every reply that began ends in `end` or `reset`, if need be from another process: that of a reply whose model call
    failed in `reset`, that of a cancelled one in `end`, after the whole text that was displayed.
    Any method may raise anything: the reply is kept and delivered in full later, under the same id. A method that does
    not return within 60 seconds is cancelled and counts as one that raised; an attribute `timeout_s` of the channel
    sets another limit, and None removes it.
    """

    name: str

    async def begin(self, reply_id: str, attempt: int) -> None:
        """A reply starts with its first text, or starts again."""
        ...

    async def delta(self, reply_id: str, offset: int, text: str) -> None:
        """Text at an offset; everything before it has been delivered."""
        ...

    async def reset(self, reply_id: str) -> None:
        """Text delivered so far for this reply is void, also text that another process delivered; there may be none."""
        ...

    async def end(self, reply_id: str) -> None:
        """The reply is complete. Returning means that it is flushed."""
        ...


class OpenProvider(Protocol):
    """Factory of providers, by provider name and model."""

    def __call__(self, provider: str, model: str, /) -> Provider:
        """Return the provider, or raise `UsageError`."""
        ...
