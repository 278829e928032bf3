"""Compaction: at which size a context is compacted, and how much of it is kept unchanged.

A compaction replaces older messages by a summary, in the context only. Nothing is deleted: the log keeps every message,
and a fork from before the compaction has all of them in its context.

    python 04_compaction.py
"""

import asyncio

from wakelog import Agent, Policy, Session, open_store, tool

SHELF = {"whales": 9, "tides": 4, "knots": 7, "stars": 2, "maps": 5, "rope": 8}


@tool(replay="safe")
def look_up(topic: str) -> str:
    """Returns what the library has on a topic."""
    return f"There are {SHELF[topic]} books on {topic}. " + "Each of them is long and says so at length. " * 10


policy = Policy(
    compact_at=500,  # tokens in the context; for a window of 200,000 tokens, 150,000 is a good value
    keep=200,  # tokens of the newest messages that stay as they are
)
agent = Agent("demo", tools=[look_up], policy=policy)  # a real model writes better summaries: "openai:NAME"


async def main() -> None:
    session = agent.begin(open_store("sessions"))
    for topic in SHELF:
        await agent.run(session.store, f'use look_up with {{"topic": "{topic}"}}', session=session)
        print(f"{topic}: {length(session)} characters in the context")
    compactions = [entry for entry in session.entries() if entry.type == "compaction"]
    print("compactions:", len(compactions))
    calls = [row for row in session.transcript() if row.kind == "call"]
    print(f"results in the log, unchanged: {sum(len(row.text) > 400 for row in calls)} of {len(SHELF)}")
    before = session.fork(at=compactions[0].value.parent_id)
    print(f"a fork from before the first compaction: {length(before)} characters")


def length(session: Session) -> int:
    return sum(len(message.text) for message in session.messages())


asyncio.run(main())
