"""Actions that write one entry: tool result, question, damage notice, queued message, cancel, failure."""

import msgspec

from wakelog.decide import wording as words
from wakelog.decide.damage import DAMAGE, notice_text
from wakelog.decide.decisions import AskAboutDamage, Cancel, Fail, Raise, Settle, TakeUp, TellDamage
from wakelog.decide.open_tool_calls import settled
from wakelog.log.content import Prompt, Text
from wakelog.log.entry import Attention, Call, Custom, Failed, FaultReport, Message
from wakelog.projections.losses import DAMAGE_NOTICE, notice_data
from wakelog.runtime.interruption import end_turn
from wakelog.runtime.step import Step


async def settle(step: Step, decision: Settle) -> None:
    """Write the one result of an open tool call. A subagent that still works on it is cancelled first."""
    if decision.call.child is not None:
        await step.world.recall(step.world, decision.call.child)
    step.write(Message(message=decision.result))


def ask_a_person(step: Step, decision: Raise) -> None:
    """Write a question about a tool call. Instead of an approval question, an undeclared tool gets an error result."""
    call = decision.call
    name = call.call.name
    if decision.reason == "approve" and name not in {tool.get("name") for tool in step.declared()}:
        said = (Text(text=words.NO_SUCH_TOOL.format(name=name)),)
        step.write(Message(message=settled(call, "error", said)))
        return
    step.write(
        Attention(reason=decision.reason, reply_id=call.reply_id, tool_call_id=call.call.id), about=call.reply_id
    )


def tell_damage(step: Step, decision: TellDamage) -> None:
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


def ask_about_damage(step: Step, decision: AskAboutDamage) -> None:
    """Write a question about the outcome of tools that a lost reply may have started."""
    step.write(Attention(reason=DAMAGE, refs=decision.losses.refs))


def take_up(step: Step, decision: TakeUp) -> None:
    """Write a queued message as a prompt on the branch."""
    said = decision.queued.message
    prompt = said if isinstance(said, Prompt) else Prompt(content=said.content if said else ())
    step.write(Message(message=msgspec.structs.replace(prompt, queued_id=decision.queued.id)))


def cancel(step: Step, decision: Cancel) -> None:
    """End the turn and keep the text of an interrupted reply. Later steps settle the tool calls that are still open."""
    cut = next(
        (annotation.value for annotation in step.branch.annotations if annotation.id == step.verdict.snapshot.open.cut),
        None,
    )
    end_turn(step, decision.queued, step.said_of(cut.reply_id) if isinstance(cut, Call) else "")


def fail(step: Step, decision: Fail) -> None:
    """End the turn because it reached one of its limits."""
    error = FaultReport(kind=decision.reason, message=decision.message, retryable=False)
    step.write(Failed(reason=decision.reason, error=error))
