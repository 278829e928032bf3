"""Sub-agents: a model hands out tasks, each to a session of its own, whose last reply is the result.

They have the same tools and see nothing of the conversation. Each has its own log, which says who sent it out, and is
the receipt of its call: after a crash it goes on where it was, and is never sent out a second time.

    python 05_sub_agents.py
"""

import asyncio
from pathlib import Path

from wakelog import Agent, Policy, Session, open_store, transcript
from wakelog.log.entry import Spawned
from wakelog.tools import SubagentTool, builtin_tools

TASK = "ask an agent to read north.txt, then ask an agent to read south.txt"


async def main() -> None:
    here = Path.cwd()
    (here / "north.txt").write_text("Cold, and the wind comes from ahead.\n")
    (here / "south.txt").write_text("Warm, and no wind at all.\n")
    store = open_store("sessions")
    agent = Agent(
        model="demo",  # a real one: "anthropic:NAME"
        tools=(SubagentTool(), *builtin_tools(str(here), ["read"])),
        policy=Policy(children=1),  # sub-agents send out nobody
    )
    report = await agent.run(store, TASK, cwd=str(here))
    print(report.text)
    show(Session(store, report.session))


def show(parent: Session) -> None:
    for entry in parent.read().entries:
        if isinstance(entry.value, Spawned):
            child = Session(parent.store, entry.value.child_session)
            rows = transcript(child.branch())
            print(f"{child.name}:", " → ".join(row.kind for row in rows if row.kind != "session"))


asyncio.run(main())
