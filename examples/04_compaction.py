"""A policy for compaction: when a context is folded, and how much of it stays word for word.

A fold lets a summary stand for what came before, in the context only. Nothing is deleted: the log has every word, and
a branch from before the fold still sees all of them.

    python 04_compaction.py
"""

import asyncio

from wakelog import Agent, Policy, Session, build_context, open_store, tool, transcript
from wakelog.log.entry import Compaction

SHELF = {"whales": 9, "tides": 4, "knots": 7, "stars": 2, "maps": 5, "rope": 8}


@tool(replay="safe")
def look_up(topic: str) -> str:
    """What the library has on a topic."""
    return f"There are {SHELF[topic]} books on {topic}. " + "Each of them is long and says so at length. " * 10


policy = Policy(
    compact_at=500,  # tokens in the context; a window of 200,000 would do with 150,000
    keep=200,  # of the newest messages, word for word
)
agent = Agent(model="demo", tools=(look_up,), policy=policy)  # a real one, which writes better summaries: "openai:NAME"


async def main() -> None:
    store = open_store("sessions")
    session = agent.begin(store)
    for topic in SHELF:
        await agent.run(store, f'use look_up with {{"topic": "{topic}"}}', session=session)
        print(f"{topic}: {build_context(session.branch()).tokens} tokens")
    show(Session(store, session.name))


def show(session: Session) -> None:
    log = session.read()
    folds = [entry.value for entry in log.entries if isinstance(entry.value, Compaction)]
    for fold in folds:
        print(f"folded: {fold.tokens_before} tokens became {fold.tokens_after}")
    results = [row for row in transcript(log.tree.branch()) if row.kind == "call"]
    print(f"in the log, word for word: {sum(len(row.text) > 400 for row in results)} of {len(SHELF)} results")
    print(f"a branch from before the folds: {build_context(log.tree.branch(folds[0].parent_id)).tokens} tokens")


asyncio.run(main())
