"""Two-phase send: a reply is complete in the log first, and `sent` only when a channel has flushed it.

What is delivered comes from the log, whole, under the reply's own id; a channel that has some of it already
knows by the offset. So a repeat after a crash is harmless, and a reply that was sent is not sent again.
What a channel raises becomes a `send_failed` entry; `decide/delivery.py` says when the reply is sent again.
"""

from collections.abc import Awaitable, Callable

from wakelog.decide.clip import storable
from wakelog.decide.decisions import Deliver
from wakelog.decide.delivery import attempts
from wakelog.errors import WakelogError
from wakelog.log.content import Reply
from wakelog.log.entry import Call, FaultReport, Message, SendFailed, Sent
from wakelog.log.tree import Branch
from wakelog.ports import Channel
from wakelog.runtime.step import Step

_ERROR_MAX_CHARS = 1_000


async def deliver(step: Step, decision: Deliver) -> None:
    """Gives a finished reply to one channel."""
    channel, reply_id = decision.channel, decision.reply_id
    attempt, text = attempt_of(step.branch, reply_id), _text(step, reply_id)
    # A channel that missed a new beginning may hold other words under the same id.
    resets = attempt > 1 and attempts(step.state, reply_id, channel) > 0

    async def give(channel: Channel) -> None:
        await channel.begin(reply_id, attempt)
        if resets:
            await channel.reset(reply_id)
        if text:
            await channel.delta(reply_id, 0, text)
        await channel.end(reply_id)

    fault = await channel_fault(step, step.world.channels[channel], give)
    if fault is None:
        step.write(Sent(reply_id=reply_id, channel=channel), about=reply_id)
    else:
        write_send_failed(step, reply_id, channel, fault, about=reply_id)


async def channel_fault(step: Step, channel: Channel, give: Callable[[Channel], Awaitable[None]]) -> FaultReport | None:
    """Gives a channel something; the report of what it raised, if it did. Under rules 1 it raises."""
    try:
        await give(channel)
    except Exception as error:  # a channel is the outside world, and may raise anything
        if step.rules < 2:
            raise
        return _report(step, error)
    return None


def write_send_failed(step: Step, reply_id: str, channel: str, fault: FaultReport, *, about: str | None) -> None:
    """Writes that a channel failed to take a reply; `about` is None if the reply never came to be."""
    attempt = attempts(step.state, reply_id, channel) + 1
    step.write(SendFailed(reply_id=reply_id, channel=channel, error=fault, attempt=attempt), about=about)


def _report(step: Step, error: Exception) -> FaultReport:
    kind = error.kind if isinstance(error, WakelogError) else type(error).__name__
    text = step.without_secrets(storable(str(error)))
    message = text if len(text) <= _ERROR_MAX_CHARS else f"{text[: _ERROR_MAX_CHARS - 1]}…"
    return FaultReport(kind=kind, message=message, retryable=True)


def attempt_of(branch: Branch, reply_id: str) -> int:
    """How many calls were made for a reply."""
    calls = sum(
        isinstance(annotation.value, Call) and annotation.value.reply_id == reply_id
        for annotation in branch.annotations
    )
    return max(1, calls)


def _text(step: Step, reply_id: str) -> str:
    """The words of a reply, which may stand before the last fold."""
    node = step.tree.nodes.get(reply_id) or step.session.read().tree.nodes.get(reply_id)
    if node is None or not isinstance(node.value, Message) or not isinstance(node.value.message, Reply):
        return ""
    return node.value.message.text
