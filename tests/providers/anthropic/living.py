"""Sessions that run on this wire: a world whose waits are over at once, and a worker that can be killed.

python -m tests.providers.anthropic.living FOLDER URL
"""

import asyncio
import os
import sys

from wakelog.app.agent import Agent
from wakelog.clock import SystemClock
from wakelog.providers.anthropic.messages import MESSAGES
from wakelog.providers.http_provider import HttpProvider
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.tools.function_tool import tool

SESSION = "s"
MODEL = "claude-sonnet-4-6"


class Ahead(SystemClock):
    """Time that a wait moves on at once; the waits are remembered."""

    def __init__(self):
        super().__init__()
        self.waits = []

    def now_ms(self):
        return super().now_ms() + sum(self.waits)

    async def pause(self, ms):
        self.waits.append(ms)


def world_of(store, provider, *, tools=(), clock=None):
    """Everything an agent of this provider can reach."""
    clock = clock or Ahead()
    runtime = LiveRuntime(store, tools=tools, provider=lambda *_: provider, clock=clock)
    return runtime.with_changes(sleep=clock.pause)


class Place:
    """The folder of one test: a store, and a ledger of what was paid."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.store = JsonlStore(os.path.join(self.folder, "store"))
        self.ledger = os.path.join(self.folder, "ledger")

    def begin(self, prompt):
        """A session that owes an answer."""
        session = Session.create(
            self.store, session_id=SESSION, agent="crab", model=MODEL, provider="anthropic", cwd=self.folder
        )
        Agent(model=f"anthropic:{MODEL}", name="crab", tools=(self.pay(),)).enter(session)
        session.say(prompt)
        return session

    def pay(self):
        @tool(replay="never")
        async def pay(amount: int) -> str:
            """Pays."""
            with open(self.ledger, "a", encoding="utf-8") as file:
                file.write(f"{amount}\n")
            return "paid"

        return pay

    def paid(self):
        if not os.path.exists(self.ledger):
            return []
        with open(self.ledger, encoding="utf-8") as file:
            return file.read().split()

    def wake(self, url):
        """Lets the session go on, in this process."""
        provider = HttpProvider(MESSAGES, environ={"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url})
        return asyncio.run(wake(world_of(self.store, provider, tools=(self.pay(),)), SESSION))


if __name__ == "__main__":
    Place(sys.argv[1]).wake(sys.argv[2])
