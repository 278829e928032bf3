"""A worker that wakes a session with MCP tools, from its log alone.

python -m tests.tools.mcp.waker FOLDER
"""

import asyncio
import json
import os
import sys

from wakelog.log.codec import canonical_json
from wakelog.log.content import Prompt
from wakelog.log.entry import ContextEntry, Message
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.tools.mcp import ServerPool

SESSION = "s"


class Place:
    """The folder of one test: a store, a script, and the file that the tool writes to."""

    def __init__(self, folder):
        self.store = JsonlStore(os.path.join(folder, "store"))
        self.file = os.path.join(folder, "touched")
        self._folder = str(folder)
        self._script = os.path.join(folder, "script.jsonl")

    @property
    def touched(self):
        """The processes that the tool ran in, one for each run."""
        try:
            with open(self.file, encoding="utf-8") as file:
                return [int(line) for line in file]
        except FileNotFoundError:
            return []

    def begin(self, server, tool):
        """A session whose model calls a tool of a server, as a run starts it."""
        calls = [{"name": f"mcp__{server.name}__{tool}", "input": {"file": self.file}}]
        with open(self._script, "w", encoding="utf-8") as file:
            file.write(json.dumps({"text": "Let me see.", "toolCalls": calls}) + "\n")
            file.write(json.dumps({"text": "Seen."}) + "\n")
        session = Session.create(
            self.store, session_id=SESSION, agent="crab", provider="scripted", model=self._script, cwd=self._folder
        )
        told = self.store.blobs.put(canonical_json(asyncio.run(self._listed(server))), "application/json")
        session.append(ContextEntry(tools=told))
        session.append(Message(message=Prompt(content="Look.")))
        return session

    async def _listed(self, server):
        async with ServerPool() as servers:
            return await servers.list_tools(server, self._folder)

    async def wake(self):
        """Wake the session, from the store alone."""
        return await wake(LiveRuntime(self.store), SESSION)


if __name__ == "__main__":
    asyncio.run(Place(sys.argv[1]).wake())
