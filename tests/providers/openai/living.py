"""Sessions that run on this wire: a world whose waits are over at once, and a worker that can be killed.

python -m tests.providers.openai.living FOLDER
"""

import asyncio
import os
import sys

from tests.providers.openai.asking import MODEL
from wakelog.app.agent import Agent
from wakelog.clock import SystemClock
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.tools.function_tool import tool

SESSION = "s"


class Ahead(SystemClock):
    """Time that a wait moves on at once; the waits are remembered."""

    def __init__(self):
        super().__init__()
        self.waits = []

    def now_ms(self):
        return super().now_ms() + sum(self.waits)

    async def pause(self, ms):
        self.waits.append(ms)


class Today:
    """A hook that has something new to say before every run."""

    name = "today"

    def __init__(self):
        self.runs = 0

    async def before_run(self, occasion):
        self.runs += 1
        return f"Now: run {self.runs}"


class Place:
    """The folder of one test: a store, a clock, and a ledger of what the tool did."""

    def __init__(self, folder, store=None):
        self.store = store or JsonlStore(os.path.join(str(folder), "store"))
        os.makedirs(str(folder), exist_ok=True)
        self.ledger = os.path.join(str(folder), "ledger")
        self.clock = Ahead()
        self.hook = Today()

    @property
    def looks(self):
        """What was looked at, in order."""
        if not os.path.exists(self.ledger):
            return []
        with open(self.ledger, encoding="utf-8") as file:
            return file.read().split()

    def tool(self):
        @tool(replay="never")
        async def look(where: str) -> str:
            """Looks somewhere."""
            with open(self.ledger, "a", encoding="utf-8") as file:
                file.write(f"{where}\n")
            return f"{where}: nothing but snow"

        return look

    def begin(self, provider, url):
        """A session with a tool and a hook, at a server."""
        agent = Agent(
            model=f"{provider}:{MODEL}",
            name="crab",
            system="Be brief.",
            tools=(self.tool(),),
            hooks=(self.hook,),
            params={"endpoint": f"{url}/v1"},
        )
        session = Session.create(self.store, session_id=SESSION, agent="crab", model=MODEL, provider=provider)
        agent.enter(session)
        return session

    def wake(self):
        """Lets the session go on, in this process, with the provider that its log names."""
        runtime = LiveRuntime(self.store, tools=(self.tool(),), hooks=(self.hook,), clock=self.clock)
        return asyncio.run(wake(runtime.with_changes(sleep=self.clock.pause), SESSION))


if __name__ == "__main__":
    Place(sys.argv[1]).wake()
