"""From a reply that is known in advance to the deltas of a stream: what the offline providers share.

What is played is a value; playing it takes time but decides nothing. Usage is the estimate of
`views.context`, so that figures of offline sessions mean what the budgets mean; nothing is paid.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator

import msgspec

from wakelog.log.content import AnyPart, Text, Thinking, ToolCall, Usage
from wakelog.log.deltas import CallDelta, Delta, Faulted, Finished, TextDelta, ThinkingDelta
from wakelog.ports import Request
from wakelog.projections.context import estimate_tokens, message_tokens


class Played(msgspec.Struct, frozen=True):
    """A whole reply, and how it is cut into deltas."""

    text: str = ""
    thinking: str = ""
    calls: tuple[CallDelta, ...] = ()
    fault: Faulted | None = None
    usage: Usage | None = None
    stop_reason: str | None = None
    delta_chars: int = 16
    delay_ms: int = 0


async def play(reply: Played, request: Request, *, can_resume: bool) -> AsyncIterator[Delta]:
    """The deltas of a reply. With a prefill only what lies behind it comes, or a fault."""
    if request.prefill and not (can_resume and reply.text.startswith(request.prefill)):
        yield _cannot_go_on(can_resume=can_resume)
        return
    if request.prefill:
        # What was thought was thought before the part of the text that is there.
        reply = msgspec.structs.replace(reply, text=reply.text[len(request.prefill) :], thinking="")
    for place, delta in enumerate(_deltas(reply)):
        if place:
            # Without a delay this still lets others have their turn: a cancel, a message that came in.
            await asyncio.sleep(reply.delay_ms / 1_000)
        yield delta
    yield reply.fault or _finished(reply, request)


async def fail(fault: Faulted) -> AsyncIterator[Delta]:
    """A reply that does not come at all."""
    yield fault


def call_id(request: Request, number: int) -> str:
    """An id for the call of that number, from 0, that no other call of this branch has."""
    return f"call_{request.answers}_{number}"


def _deltas(reply: Played) -> Iterator[Delta]:
    for piece in _pieces(reply.thinking, reply.delta_chars):
        yield ThinkingDelta(piece)
    for piece in _pieces(reply.text, reply.delta_chars):
        yield TextDelta(piece)
    yield from reply.calls


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def _cannot_go_on(*, can_resume: bool) -> Faulted:
    why = "the reply does not begin with what was said" if can_resume else "this model cannot continue a reply"
    return Faulted("cannot_resume", why)


def _finished(reply: Played, request: Request) -> Finished:
    stop_reason = reply.stop_reason or ("tools" if reply.calls else "stop")
    return Finished(stop_reason, usage=reply.usage or _estimated(reply, request))


def _estimated(reply: Played, request: Request) -> Usage:
    around = [Text(text=words) for words in (request.system, *request.injected, request.prefill)]
    said: list[AnyPart] = [Thinking(thinking=reply.thinking), Text(text=reply.text)]
    said.extend(ToolCall(id=call.id, name=call.name, input=call.input) for call in reply.calls)
    return Usage(
        input_tokens=sum(map(message_tokens, request.messages)) + estimate_tokens(around),
        output_tokens=estimate_tokens(said),
        cost_micros=0,
    )
