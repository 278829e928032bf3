"""A worker whose shell command prints millions of bytes and then waits, as a program.

    python -m tests.faults.live_output STORE FOLDER

It runs the session `s` that `begin` made. The last line says how the session was left.
"""

import asyncio
import json
import sys
from typing import Any

from wakelog.app.agent import Agent
from wakelog.log.content import Prompt
from wakelog.log.entry import Message
from wakelog.providers.scripted import ScriptedProvider
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores import open_store
from wakelog.tools import builtin_tools

PRINTED = 9_500_000
# A quotation mark takes two bytes in JSON: the whole output in one entry would be 19 MB long.
COMMAND = f"head -c {PRINTED} /dev/zero | tr '\\0' '\"'; sleep 1000"
REPLIES: list[dict[str, Any]] = [
    {"text": "I run it.", "toolCalls": [{"name": "shell", "input": {"command": COMMAND}}]},
    {"text": "It was cut short."},
]


def begin(store, folder):
    """A session with an unanswered prompt."""
    session = Session.create(store, session_id="s", agent="crab", model="script", provider="scripted", cwd=str(folder))
    Agent(model="scripted:script", name="crab", tools=builtin_tools(str(folder), ["shell"])).enter(session)
    session.append(Message(message=Prompt(content="Print a lot.")))
    return session


def wake_here(store):
    """Wake the session in this process."""
    return asyncio.run(wake(LiveRuntime(store, provider=lambda _, __: ScriptedProvider(REPLIES)), "s"))


def main():
    store = open_store(sys.argv[1])
    report = wake_here(store)
    print(json.dumps({"left": getattr(report.decision, "outcome", "")}))
    store.close()


if __name__ == "__main__":
    main()
