"""Two-phase send: a reply is complete in the log first, and `sent` only when a channel has flushed it.

What is delivered comes from the log, whole, under the reply's own id; a channel that has some of it already
knows by the offset. So a repeat after a crash is harmless, and a reply that was sent is not sent again.
"""

from wakelog.acts.step import Step
from wakelog.log.content import Reply
from wakelog.log.entry import Call, Message, Sent
from wakelog.log.tree import Branch
from wakelog.turn.decisions import Deliver


async def deliver(step: Step, decision: Deliver) -> None:
    """Gives a finished reply to one channel."""
    channel = step.world.channels[decision.channel]
    reply_id = decision.reply_id
    await channel.begin(reply_id, attempt_of(step.branch, reply_id))
    text = _text(step, reply_id)
    if text:
        await channel.delta(reply_id, 0, text)
    await channel.end(reply_id)
    step.write(Sent(reply_id=reply_id, channel=decision.channel), about=reply_id)


def attempt_of(branch: Branch, reply_id: str) -> int:
    """How many calls were made for a reply."""
    calls = sum(isinstance(fact.value, Call) and fact.value.reply_id == reply_id for fact in branch.facts)
    return max(1, calls)


def _text(step: Step, reply_id: str) -> str:
    """The words of a reply, which may stand before the last fold."""
    link = step.tree.links.get(reply_id) or step.session.read().tree.links.get(reply_id)
    if link is None or not isinstance(link.value, Message) or not isinstance(link.value.message, Reply):
        return ""
    return link.value.message.text
