"""Sub-agents: the model gives tasks to other agents; each runs in a session of its own, and its reply is the result.

They have the same tools and do not see the conversation. The log of a sub-agent names the tool call that started it,
so after a crash the same sub-agent continues, and no second one is started.

    python 05_sub_agents.py
"""

import asyncio
from pathlib import Path

from wakelog import Agent, Policy, Session, open_store
from wakelog.tools import SubagentTool, builtin_tools

TASK = "ask an agent to read north.txt, then ask an agent to read south.txt"


async def main() -> None:
    here = Path.cwd()
    (here / "north.txt").write_text("Cold, and the wind comes from ahead.\n")
    (here / "south.txt").write_text("Warm, and no wind at all.\n")
    store = open_store("sessions")
    agent = Agent(
        "demo",  # a real model: "anthropic:NAME"
        tools=[SubagentTool(), *builtin_tools(str(here), ["read"])],
        policy=Policy(children=1),  # sub-agents start no sub-agents
    )
    result = await agent.run(store, TASK, cwd=str(here))
    print(result.text)
    for stat in store.sessions():
        session = Session.get(store, stat.name)
        if session.id != result.session.id:
            kinds = [row.kind for row in session.transcript() if row.kind != "session"]
            print(f"{session.name}:", " → ".join(kinds))


asyncio.run(main())
