"""Subagents: the child session of a tool call is named in the log before it exists (TREE-6).

So a crash at any point leaves either no child and no name, or a name under which the next worker creates the child,
once. The child's log is its receipt: it is woken like any session, and its last reply is the result.
"""

from wakelog.decide import wording as words
from wakelog.errors import WakelogError
from wakelog.log.entry import Spawned
from wakelog.ports import Outcome
from wakelog.projections.pending import OpenCall
from wakelog.providers import split_model
from wakelog.runtime.step import Step
from wakelog.runtime.world import SubagentTask
from wakelog.tools.subagent import others_in


def spawn(step: Step, call: OpenCall) -> str:
    """Write the id of the child of a tool call, durably, before the child exists; return the id."""
    child = step.world.clock.new_id()
    step.write(Spawned(child_session=child, reply_id=call.reply_id, tool_call_id=call.call.id), about=call.reply_id)
    return child


def refusal(step: Step, call: OpenCall) -> str | None:
    """Return why a tool call may not start a child; None if it may."""
    if step.policy.children <= 0:
        return words.NO_DEEPER
    if not _given(call, "prompt"):
        return words.NO_PROMPT
    named, others = _given(call, "agent"), others_in(step.declared())
    if not named or named in others:
        return None
    return words.NO_SUCH_AGENT.format(name=named, names=", ".join(others)) if others else words.NO_OTHERS


def _given(call: OpenCall, key: str) -> str:
    """Return an argument of a tool call, `prompt` or `agent` (which agent to start); empty if it is no string."""
    given = call.call.input
    value = given.get(key) if isinstance(given, dict) else None
    return value if isinstance(value, str) else ""


async def answer_of_child(step: Step, call: OpenCall, child: str) -> Outcome | None:
    """Run the child; return its outcome, or None while it waits."""
    return await step.world.send(step.world, _subagent_task(step, call, child))


def obstacle_of_child(step: Step, call: OpenCall) -> WakelogError | None:
    """Return why the child of a tool call, existing or new, cannot run here; None if it can or would be refused."""
    if call.child is None and refusal(step, call) is not None:
        return None
    return step.world.obstacle(step.world, _subagent_task(step, call, call.child or ""))


def _subagent_task(step: Step, call: OpenCall, child: str) -> SubagentTask:
    card, named = step.card, _given(call, "agent")
    other = others_in(step.declared()).get(named)
    provider, model = split_model(other.model) if other is not None and other.model else (None, None)
    return SubagentTask(
        child=child,
        prompt=_given(call, "prompt"),
        parent=step.session.id,
        reply_id=call.reply_id,
        tool_call_id=call.call.id,
        agent=named if other is not None else card.agent or "agent",
        sender=card.sender or "user",
        cwd=card.cwd,
        model=model or step.state.model,
        provider=provider or step.state.provider,
        context=step.state.context,
        other=other,
    )
