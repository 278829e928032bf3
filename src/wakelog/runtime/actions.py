"""Actions that write one entry: tool result, question, damage notice, queued message, cancel, failure, and delivery.

Delivery has two phases: a reply is complete in the log first; `sent` is written when a channel has flushed it. The
whole text is delivered from the log, under the reply's id; by the offset, a channel skips text that it already has. So
a repeat after a crash is harmless, and a reply that was sent is not sent again. A reply that will not be completed is
closed in the same way: a cancelled one ends with its displayed words, any other is reset (RUN-25). An exception of a
channel becomes a `send_failed` entry; `decide/retries.py` decides when the reply is sent again.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from wakelog.decide import wording
from wakelog.decide.damage import DAMAGE_REASON, notice_text
from wakelog.decide.decisions import (
    AskAboutDamage,
    AskPerson,
    CancelTurn,
    Deliver,
    FailTurn,
    ReportDamage,
    ReportOutcomes,
    SettleToolCall,
    TakeQueued,
)
from wakelog.decide.open_tool_calls import tool_result
from wakelog.decide.outcomes import outcome_notice
from wakelog.decide.retries import failed_attempts
from wakelog.decide.wording import valid_utf8
from wakelog.errors import WakelogError
from wakelog.log.content import BaseMessage, Prompt, Reply, Text
from wakelog.log.entry import (
    Attention,
    Cancelled,
    Custom,
    Failed,
    FaultReport,
    Message,
    ModelCall,
    SendFailed,
    Sent,
)
from wakelog.log.tree import Branch, Tree
from wakelog.ports.runtime import Channel
from wakelog.projections.losses import DAMAGE_NOTICE, notice_data
from wakelog.runtime.model_request import is_being_cancelled
from wakelog.runtime.step import Step, write_cancelled


async def settle_tool_call(step: Step, decision: SettleToolCall) -> None:
    """Write the one result of an open tool call. A subagent that still works on it is cancelled first."""
    if decision.open_call.child_session is not None:
        await step.runtime.cancel_subagent(decision.open_call.child_session)
    step.write(Message(message=decision.result))


def ask_person(step: Step, decision: AskPerson) -> None:
    """Write a question about a tool call. Instead of an approval question, an undeclared tool gets an error result."""
    call = decision.open_call
    name = call.tool_call.name
    if decision.reason == "approve" and name not in {tool.get("name") for tool in step.tool_declarations()}:
        content = (Text(text=wording.NO_SUCH_TOOL.format(name=name)),)
        step.write(Message(message=tool_result(call, "error", content)))
        return
    step.write(
        Attention(reason=decision.reason, reply_id=call.reply_id, tool_call_id=call.tool_call.id), about=call.reply_id
    )


def report_damage(step: Step, decision: ReportDamage) -> None:
    """Write the notice that tells the model which parts of the log are lost."""
    text = notice_text(decision.losses, decision.answer)
    step.write(
        Custom(
            custom_type=DAMAGE_NOTICE,
            data=notice_data(decision.losses),
            in_context=True,
            content=(Text(text=text),),
        )
    )


def report_outcomes(step: Step, decision: ReportOutcomes) -> None:
    """Write the notice that tells the model what people have answered about unknown outcomes."""
    step.write(outcome_notice(decision.answered))


def ask_about_damage(step: Step, decision: AskAboutDamage) -> None:
    """Write a question about the outcome of tools that a lost reply may have started."""
    step.write(Attention(reason=DAMAGE_REASON, refs=decision.losses.refs))


def take_queued(step: Step, decision: TakeQueued) -> None:
    """Write a queued message as a prompt on the branch."""
    message = decision.queued.message
    prompt = message if isinstance(message, Prompt) else Prompt(content=message.content if message else ())
    step.write(Message(message=msgspec.structs.replace(prompt, queued_id=decision.queued.id)))


def cancel_turn(step: Step, decision: CancelTurn) -> None:
    """End the turn and keep the text of an interrupted reply. Later steps settle the tool calls that are still open."""
    cut = next(
        (
            annotation.value
            for annotation in step.branch.annotations
            if annotation.id == step.verdict.snapshot.pending.interrupted
        ),
        None,
    )
    if isinstance(cut, ModelCall):
        write_cancelled(step, decision.queued, cut.reply_id, step.partial_text(cut.reply_id))
    else:
        write_cancelled(step, decision.queued)


def fail_turn(step: Step, decision: FailTurn) -> None:
    """End the turn because it reached one of its limits."""
    error = FaultReport(kind=decision.reason, message=decision.message, retryable=False)
    step.write(Failed(reason=decision.reason, error=error))


_ERROR_MAX_CHARS = 1_000
# The time limit of a channel without a `timeout_s` of its own.
CHANNEL_TIMEOUT_S = 60.0


async def deliver(step: Step, decision: Deliver) -> None:
    """Send a finished reply to one channel, or close an interrupted one there."""
    channel, reply_id, closed = decision.channel, decision.reply_id, decision.interrupted
    attempt, text = max(1, count_model_calls(step.branch, reply_id)), _text_to_deliver(step, decision)
    if closed is not None and not text:
        closed = "reset"
    # A channel that missed a restart of the reply may hold other text under the same id.
    resets = attempt > 1 and failed_attempts(step.deliveries, reply_id, channel) > 0

    async def give(channel: Channel) -> None:
        if closed == "reset":
            await channel.reset(reply_id)
            return
        await channel.begin(reply_id, attempt)
        if resets:
            await channel.reset(reply_id)
        if text:
            await channel.delta(reply_id, 0, text)
        await channel.end(reply_id)

    fault = await call_channel(step, step.runtime.channels[channel], give)
    about = reply_id if closed is None else None
    if fault is None:
        step.write(Sent(reply_id=reply_id, channel=channel, interrupted=closed), about=about)
    else:
        write_send_failed(step, reply_id, channel, fault, about=about)


async def call_channel(step: Step, channel: Channel, send: Callable[[Channel], Awaitable[None]]) -> FaultReport | None:
    """Call `send` with a channel; return a report of the exception it raised, or None.

    A channel that does not return in time raises `TimeoutError`: it must not hold the session for ever. A
    `CancelledError` of the channel itself is a failure of the channel; a cancellation of this task is raised.
    """
    try:
        await _within_limit(send, channel)
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
            raise
        return _fault_report(step, error)
    return None


async def _within_limit(send: Callable[[Channel], Awaitable[None]], channel: Channel) -> None:
    limit_s: float | None = getattr(channel, "timeout_s", CHANNEL_TIMEOUT_S)
    try:
        async with asyncio.timeout(limit_s) as limit:
            await send(channel)
    except TimeoutError:
        if limit.expired():
            raise TimeoutError(f"the channel did not return within {limit_s:g} s") from None
        raise


def write_send_failed(step: Step, reply_id: str, channel: str, fault: FaultReport, *, about: str | None) -> None:
    """Write that sending a reply to a channel failed; `about` is None if the reply is not in the log."""
    attempt = failed_attempts(step.deliveries, reply_id, channel) + 1
    step.write(SendFailed(reply_id=reply_id, channel=channel, error=fault, attempt=attempt), about=about)


def _fault_report(step: Step, error: BaseException) -> FaultReport:
    kind = error.kind if isinstance(error, WakelogError) else type(error).__name__
    text = step.without_secrets(valid_utf8(str(error)))
    message = text if len(text) <= _ERROR_MAX_CHARS else f"{text[: _ERROR_MAX_CHARS - 1]}…"
    return FaultReport(kind=kind, message=message, retryable=True)


def count_model_calls(branch: Branch, reply_id: str) -> int:
    """Return the number of model calls on a branch that were made for a reply."""
    calls = [annotation.value for annotation in branch.annotations if type(annotation.value) is ModelCall]
    return sum(call.reply_id == reply_id for call in calls)


def _text_to_deliver(step: Step, decision: Deliver) -> str:
    """Return the text to deliver, which may be older than the last compaction; empty for a reset."""
    match decision.interrupted:
        case None:
            return _reply_text(step, decision.reply_id)
        case "ended":
            words = _displayed_words(step.tree, decision.reply_id)
            return words or _displayed_words(step.session.read().tree, decision.reply_id) or ""
    return ""


def _reply_text(step: Step, reply_id: str) -> str:
    node = step.tree.nodes.get(reply_id) or step.session.read().tree.nodes.get(reply_id)
    if node is None or not isinstance(node.value, Message) or not isinstance(node.value.message, Reply):
        return ""
    return node.value.message.text


def _displayed_words(tree: Tree, reply_id: str) -> str | None:
    """Return the words of a cancelled reply; None if its `cancelled` entry is not in the tree."""
    for entry in reversed(tree.own_entries_of(Cancelled)):
        if isinstance(entry.value, Cancelled) and entry.value.reply_id == reply_id:
            return BaseMessage(content=entry.value.content).text
    return None
