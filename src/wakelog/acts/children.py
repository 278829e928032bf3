"""Sub-agents: the session that a call is about to have is named in the log before it exists (TREE-6).

So a crash at any point leaves either no child and no name, or a name under which the child is made, once, by whoever
comes next. The child's own log is its receipt: it is woken like any session, and its last reply is the result.
"""

from wakelog.acts.step import Step
from wakelog.log.entry import Session as SessionEntry
from wakelog.log.entry import Spawned
from wakelog.ports import Outcome
from wakelog.turn import words
from wakelog.views.pending import OpenCall
from wakelog.world import Errand


def spawn(step: Step, call: OpenCall) -> str:
    """Names the child of a call, durably, before there is one."""
    child = step.world.clock.new_id()
    step.write(Spawned(child_session=child, reply_id=call.reply_id, tool_call_id=call.call.id), about=call.reply_id)
    return child


def refusal(step: Step, call: OpenCall) -> str | None:
    """Why a call may not have a child."""
    if step.policy.children <= 0:
        return words.NO_DEEPER
    return None if prompt_of(call) else words.NO_PROMPT


def prompt_of(call: OpenCall) -> str:
    """What the child is told."""
    given = call.call.input
    prompt = given.get("prompt") if isinstance(given, dict) else None
    return prompt if isinstance(prompt, str) else ""


async def answer_of_child(step: Step, call: OpenCall, child: str) -> Outcome | None:
    """Lets the child go on; its outcome, or None while it waits."""
    card = next((link.value for link in step.tree.own_links() if isinstance(link.value, SessionEntry)), SessionEntry())
    errand = Errand(
        child=child,
        prompt=prompt_of(call),
        parent=step.session.id,
        reply_id=call.reply_id,
        tool_call_id=call.call.id,
        agent=card.agent or "agent",
        sender=card.sender or "user",
        cwd=card.cwd,
        model=step.state.model,
        provider=step.state.provider,
        context=step.state.context,
    )
    return await step.world.send(step.world, errand)
