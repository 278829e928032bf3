"""`python -m tests.live [PROVIDER:NAME …]`: each model uses a tool, answers.

Continues after its history was forked.

Without names, one small model of every provider whose key is in the environment; without a key nobody is asked.
"""

import asyncio
import os
import sys

from wakelog.app.agent import Agent
from wakelog.errors import UsageError
from wakelog.forking import fork
from wakelog.log.content import Reply
from wakelog.log.entry import Failed, Message
from wakelog.stores.memory import MemoryStore
from wakelog.tools.function_tool import tool

SMALL = {
    "ANTHROPIC_API_KEY": ("anthropic:claude-haiku-4-5",),
    "OPENAI_API_KEY": ("openai:gpt-5-mini", "openai-chat:gpt-5-mini"),
}
WORD = "marmalade"


@tool(replay="safe")
async def secret_word() -> str:
    """Tells the secret word."""
    return WORD


async def ask(model: str) -> bool:
    """Send two prompts, the second on a fork, and print the replies; return whether the word was in them."""
    store, agent = MemoryStore(), Agent(model=model, tools=(secret_word,), params={"effort": "low"})
    session = agent.begin(store)
    first = await agent.run(store, "Use the tool, then tell me the secret word.", session=session)
    other = fork(session, session.branch().nodes[-1].id)
    again = await agent.run(store, "Say it once more, without the tool.", session=other)
    for value in [entry.value for entry in (*session.read().entries, *other.read().entries)]:
        if isinstance(value, Message) and isinstance(value.message, Reply):
            print(f"{model}  {value.message.stop_reason}  {value.message.usage}  {value.message.text!r}")
        elif isinstance(value, Failed) and value.error is not None:
            print(f"{model}  failed: {value.error.kind}: {value.error.message}")
    return WORD in first.text.lower() and WORD in again.text.lower()


def main(models: list[str]) -> int:
    """Ask every model; return 1 if one of them did not reply with the word."""
    wanted = models or [model for key, small in SMALL.items() if os.environ.get(key) for model in small]
    if not wanted:
        print(f"nobody was asked: set {' or '.join(SMALL)}")
    try:
        knew = [asyncio.run(ask(model)) for model in wanted]
    except UsageError as error:
        print(f"{error.message}: {error.hint}")
        return 2
    return 0 if all(knew) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
