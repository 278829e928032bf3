"""Playback of a prepared reply as a stream of deltas; shared by the offline providers.

The reply is a value; playing it takes time but decides nothing. Usage is the estimate of `projections/context.py`,
so that figures of offline sessions are comparable with budgets; the cost is zero.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator

import msgspec

from wakelog.log.content import (
    AnyPart,
    Delta,
    Faulted,
    Finished,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from wakelog.ports.runtime import ModelRequest
from wakelog.projections.context import estimate_tokens, message_tokens


class PreparedReply(msgspec.Struct, frozen=True):
    """A whole reply, and how it is split into deltas."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ToolCallDelta, ...] = ()
    fault: Faulted | None = None
    usage: Usage | None = None
    stop_reason: str | None = None
    delta_chars: int = 16
    delay_ms: int = 0


async def play(reply: PreparedReply, request: ModelRequest, *, can_resume: bool) -> AsyncIterator[Delta]:
    """Yield the deltas of a reply. With a prefill, only the text after it, or a fault."""
    if request.prefill and not (can_resume and reply.text.startswith(request.prefill)):
        yield _cannot_resume(can_resume=can_resume)
        return
    if request.prefill:
        # The reasoning came before the text that is already there.
        reply = msgspec.structs.replace(reply, text=reply.text[len(request.prefill) :], thinking="")
    for place, delta in enumerate(_deltas(reply)):
        if place:
            # Without a delay this still yields to the event loop, for a cancellation or a message that arrived.
            await asyncio.sleep(reply.delay_ms / 1_000)
        yield delta
    yield reply.fault or _finished(reply, request)


async def play_fault(fault: Faulted) -> AsyncIterator[Delta]:
    """Yield only a fault: a reply that fails before its first delta."""
    yield fault


def _deltas(reply: PreparedReply) -> Iterator[Delta]:
    for piece in _split_text(reply.thinking, reply.delta_chars):
        yield ThinkingDelta(piece)
    for piece in _split_text(reply.text, reply.delta_chars):
        yield TextDelta(piece)
    yield from reply.calls


def _split_text(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def _cannot_resume(*, can_resume: bool) -> Faulted:
    why = "the reply does not begin with what was said" if can_resume else "this model cannot continue a reply"
    return Faulted("cannot_resume", why)


def _finished(reply: PreparedReply, request: ModelRequest) -> Finished:
    stop_reason = reply.stop_reason or ("tools" if reply.calls else "stop")
    return Finished(stop_reason, usage=reply.usage or _estimated_usage(reply, request))


def _estimated_usage(reply: PreparedReply, request: ModelRequest) -> Usage:
    context = [Text(text=text) for text in (request.system, *request.injected, request.prefill)]
    parts: list[AnyPart] = [Thinking(thinking=reply.thinking), Text(text=reply.text)]
    parts.extend(ToolCall(id=call.id, name=call.name, input=call.input) for call in reply.calls)
    return Usage(
        input_tokens=sum(map(message_tokens, request.messages)) + estimate_tokens(context),
        output_tokens=estimate_tokens(parts),
        cost_micros=0,
    )
