"""A hook of your own: what the model should know in this run, and only in this one.

A hook is asked before each run. What it says stands behind the history in every request of that run and never becomes
history, so it is always fresh, and what a provider has cached of the history stays good. The log keeps which words it
was: a request can be shown exactly as it was made (`wakelog context SESSION --exact`).

    python 03_own_hook.py
"""

import asyncio

from wakelog import Agent, Session, build_context, open_store
from wakelog.log.entry import ModelCall
from wakelog.ports.runtime import HookContext

TICKETS = {"ann": ["7: the door squeaks"], "bob": []}


class Tickets:
    """What is open for whoever asks."""

    name = "tickets"

    async def before_run(self, occasion: HookContext) -> str:
        tickets = TICKETS[occasion.sender]
        return f"Open tickets of {occasion.sender}: {'; '.join(tickets) or 'none'}."


async def main() -> None:
    store = open_store("sessions")
    agent = Agent(model="demo", hooks=(Tickets(),))  # a real one: model="anthropic:NAME"
    session = agent.begin(store, sender="ann")
    await agent.run(store, "What is next?", session=session)
    TICKETS["ann"].append("8: the door is gone")
    await agent.run(store, "And now?", session=session)
    show(Session(store, session.name))


def show(session: Session) -> None:
    for entry in session.read().entries:
        if isinstance(entry.value, ModelCall):
            said = [session.store.blobs.get(ref).decode() for ref in entry.value.injected]
            print("the model was told:", *said)
    history = str(build_context(session.branch()).messages)
    print("in the history:", "Open tickets" in history)


asyncio.run(main())
