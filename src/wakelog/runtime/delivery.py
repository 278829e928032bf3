"""Two-phase delivery: a reply is complete in the log first; `sent` is written when a channel has flushed it.

The whole text is delivered from the log, under the reply's id; by the offset, a channel skips text that it already has.
So a repeat after a crash is harmless, and a reply that was sent is not sent again. An exception of a channel becomes a
`send_failed` entry; `decide/delivery.py` decides when the reply is sent again.
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
    """Send a finished reply to one channel."""
    channel, reply_id = decision.channel, decision.reply_id
    attempt, text = attempt_of(step.branch, reply_id), _text(step, reply_id)
    # A channel that missed a restart of the reply may hold other text under the same id.
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
    """Call `give` with a channel; return a report of the exception it raised, or None. Under rules 1 it propagates."""
    try:
        await give(channel)
    except Exception as error:  # a channel may be any code, and raise anything
        if step.rules < 2:
            raise
        return _report(step, error)
    return None


def write_send_failed(step: Step, reply_id: str, channel: str, fault: FaultReport, *, about: str | None) -> None:
    """Write that sending a reply to a channel failed; `about` is None if the reply is not in the log."""
    attempt = attempts(step.state, reply_id, channel) + 1
    step.write(SendFailed(reply_id=reply_id, channel=channel, error=fault, attempt=attempt), about=about)


def _report(step: Step, error: Exception) -> FaultReport:
    kind = error.kind if isinstance(error, WakelogError) else type(error).__name__
    text = step.without_secrets(storable(str(error)))
    message = text if len(text) <= _ERROR_MAX_CHARS else f"{text[: _ERROR_MAX_CHARS - 1]}…"
    return FaultReport(kind=kind, message=message, retryable=True)


def attempt_of(branch: Branch, reply_id: str) -> int:
    """Return the number of model calls that were made for a reply, at least 1."""
    calls = sum(
        isinstance(annotation.value, Call) and annotation.value.reply_id == reply_id
        for annotation in branch.annotations
    )
    return max(1, calls)


def _text(step: Step, reply_id: str) -> str:
    """Return the text of a reply, which may be older than the last compaction."""
    node = step.tree.nodes.get(reply_id) or step.session.read().tree.nodes.get(reply_id)
    if node is None or not isinstance(node.value, Message) or not isinstance(node.value.message, Reply):
        return ""
    return node.value.message.text
