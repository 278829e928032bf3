"""Processes that watch a session, as programs.

python -m tests.watcher.children idle STORE       follow an idle session; print when it was looked at often enough
python -m tests.watcher.children fork STORE       fork with an open subscription; both processes print the news
python -m tests.watcher.children exit STORE       end the program with a subscription that still waits
python -m tests.watcher.children run STORE WHAT   run the session until it is cancelled; WHAT is `tool` or `model`
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from tests.kernel.watching import until
from tests.patience import PATIENCE_S
from wakelog.app.agent import Agent
from wakelog.log.content import Prompt, TextDelta
from wakelog.log.entry import Message
from wakelog.providers.scripted import ScriptedProvider
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores import open_store
from wakelog.stores.followers import Follower
from wakelog.tools.function_tool import tool
from wakelog.watcher import Subscription

LOOKS = 50
# Looking for these files marks the idle time in a trace of system calls.
BEGIN, END = "/idle-begins", "/idle-ends"
REPLIES: list[dict[str, Any]] = [{"text": "I wait.", "toolCalls": [{"name": "hang", "input": {}}]}, {"text": "Done."}]


@tool(replay="never")
async def hang() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()
    return ""


class HangingProvider(ScriptedProvider):
    """A model that says a word and then nothing more."""

    async def stream(self, request):
        yield TextDelta("Well, ")
        await asyncio.Event().wait()


def begin(store, session_id="s"):
    """A session with a prompt that waits for its answer."""
    session = Session.create(store, session_id=session_id, agent="crab", model="script", provider="scripted")
    Agent(model="scripted:script", name="crab", tools=[hang]).enter(session)
    session.append(Message(message=Prompt(content="Wait.")))
    return session


def count_looks():
    """Count how often followers look for news; with file events they do so every millisecond here."""
    for module in ("wakelog.stores.jsonl.store", "wakelog.stores.sqlite.tables"):
        __import__(module)
        setattr(sys.modules[module], "_LOOK_S", 0.001)  # noqa: B010 - the module is known by name only
    looks, wait = [0], Follower.wait

    def counted(follower, at_most_s):
        looks[0] += 1
        return wait(follower, at_most_s)

    Follower.wait = counted  # type: ignore[method-assign]
    return looks


def idle(store):
    """Follow an idle session, with its journals."""
    looks = count_looks()
    session = Session(store, "s")
    with Subscription(store, session.name, after=session.last_seq, pieces={}):
        until(lambda: looks[0] > LOOKS)
        os.path.exists(BEGIN)
        until(lambda: looks[0] > 2 * LOOKS)
        os.path.exists(END)


def fork(store):
    """Fork with an open subscription."""
    session = Session(store, "s")
    with Subscription(store, session.name, after=session.last_seq) as subscription:
        session.say("fetched")
        seen = [entry.seq for news in subscription.wait() for entry in news.entries]
        session.say("not fetched")
        until(lambda: subscription.has_news)
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            while seen[-1] < 3:
                seen += [entry.seq for news in subscription.wait() for entry in news.entries]
            print(json.dumps({"seen": seen, "child": os.waitstatus_to_exitcode(status)}))
            return
        Session(store, "s").say("after")
        found = [entry.seq for _ in range(2) for news in subscription.wait(PATIENCE_S) for entry in news.entries]
        os._exit(0 if found == [2, 3] else 1)


def leave(store):
    """End the program without closing a subscription."""
    session = Session(store, "s")
    Subscription(store, session.name, after=session.last_seq, pieces={}).start()
    print(json.dumps({"left": "with a thread"}))


def run(store, what):
    """Run the session until a person cancels."""
    provider = HangingProvider(REPLIES) if what == "model" else ScriptedProvider(REPLIES)
    runtime = LiveRuntime(store, provider=lambda _, __: provider, tools=[hang])
    report = asyncio.run(wake(runtime, "s"))
    print(json.dumps({"left": getattr(report.decision, "outcome", "")}))
    store.close()


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {"idle": idle, "fork": fork, "exit": leave, "run": run}
    commands[sys.argv[1]](open_store(sys.argv[2]), *sys.argv[3:])
