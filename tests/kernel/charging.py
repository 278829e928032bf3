"""A program: an agent whose one tool looks up its own call in a side log before it does anything.

    python -m tests.kernel.charging FOLDER WORD [DIES]

The side log is the outside world: a line in it is a charge, and its receipt, in one write. WORD says how the tool
is told about a call that was begun: `safe` runs it again, and its first action is to look; `receipt` asks it.
DIES is `before` or `after` the charge.
"""

import asyncio
import json
import os
import sys
from typing import Any

from tests.kernel.killing import die
from tests.kernel.outside import Outside
from wakelog.app.agent import Agent
from wakelog.log.content import Prompt
from wakelog.log.entry import Message
from wakelog.ports.runtime import ToolInvocation, ToolOutcome
from wakelog.providers.scripted import ScriptedProvider
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.tools.function_tool import tool

SESSION = "s"
REPLIES: list[dict[str, Any]] = [
    {"text": "I charge you.", "toolCalls": [{"name": "charge", "input": {"euros": 9}}]},
    {"text": "Thank you."},
]


class SideLog:
    """The charges that really happened, by call."""

    def __init__(self, folder):
        self._path = os.path.join(folder, "side-log")

    @property
    def charges(self):
        if not os.path.exists(self._path):
            return []
        with open(self._path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def found(self, call) -> str | None:
        """The earlier result of a call."""
        key = [call.reply_id, call.tool_call_id]
        result: str | None = next((charge["result"] for charge in self.charges if charge["call"] == key), None)
        return result

    def charge(self, call, result):
        """Record the effect and its receipt in one write."""
        line = json.dumps({"call": [call.reply_id, call.tool_call_id], "result": result}) + "\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, line.encode())
        os.close(descriptor)


def charging(side: SideLog, word, dies):
    """Return the tool."""

    @tool(replay=word)
    async def charge(euros: int, call: ToolInvocation) -> str:
        """Charges."""
        before = side.found(call)
        if before is not None:
            return before
        if dies == "before":
            die()
        side.charge(call, f"charged {euros}, receipt {len(side.charges) + 1}")
        if dies == "after":
            die()
        charged = side.found(call)
        assert charged is not None
        return charged

    if word == "receipt":

        @charge.receipt
        async def receipt(call: ToolInvocation):
            before = side.found(call)
            return "not begun" if before is None else ToolOutcome(before)

    return charge


def main(folder, word, dies=""):
    """Create the session if it does not exist, and wake it: there is no other way to start, continue or recover."""
    store = JsonlStore(os.path.join(folder, "store"))
    charge = charging(SideLog(folder), word, dies)
    session = Session.create(store, session_id=SESSION, agent="till", model="play", provider="scripted")
    Agent(model="scripted:play", name="till", tools=(charge,)).enter(session)
    if session.read().tree.entry("u1") is None:
        session.append(Message(id="u1", message=Prompt(content="Charge me.")))
    channel = Outside(os.path.join(folder, "outside")).channel()
    provider = ScriptedProvider(REPLIES)
    runtime = LiveRuntime(store, tools=[charge], channels=[channel], provider=lambda _, __: provider)
    asyncio.run(wake(runtime, SESSION))


if __name__ == "__main__":
    main(*sys.argv[1:])
