"""A hook: text that the model gets in one run and that does not become part of the history.

A hook is called before each run. Its text follows the history in every request of that run, so it is up to date, and
the part of the request that the provider has cached does not change. The log records the text: `wakelog context SESSION
--exact` shows each request as it was made.

    python 03_own_hook.py
"""

import asyncio

from wakelog import Agent, HookContext, open_store

TICKETS = {"ann": ["7: the door squeaks"], "bob": []}


class Tickets:
    """The open tickets of the sender."""

    name = "tickets"

    async def before_run(self, context: HookContext) -> str:
        text = f"Open tickets of {context.sender}: {'; '.join(TICKETS[context.sender]) or 'none'}."
        print("the model gets:", text)
        return text


async def main() -> None:
    store = open_store("sessions")
    agent = Agent("demo", hooks=(Tickets(),))  # a real model: "anthropic:NAME"
    session = agent.begin(store, sender="ann")
    await agent.run(store, "What is next?", session=session)
    TICKETS["ann"].append("8: the door is gone")
    await agent.run(store, "And now?", session=session)
    print("in the history:", any("Open tickets" in str(message) for message in session.messages()))


asyncio.run(main())
