"""The size of an idle session on disk beside that of its content: log and blobs."""

import asyncio
import os
from collections.abc import Iterator
from typing import Any

from bench.made import Words
from bench.measure import Figure
from wakelog.app.agent import Agent
from wakelog.providers.scripted import ScriptedProvider
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.stores.jsonl import JsonlStore
from wakelog.tools.function_tool import tool

GROUP = "Size"
TURNS = 200


def stored(folder: str, words: Words) -> Iterator[Figure]:
    """200 turns, run by `wake`: a prompt, a tool call with an 8 KB result, and a 4 KB reply."""
    content = 0

    @tool(replay="safe")
    async def look(command: str) -> str:
        """Look."""
        nonlocal content
        said = _exactly(words, 8_192)
        content += len(said.encode()) + len(command.encode())
        return said

    replies: list[dict[str, Any]] = []
    for _ in range(TURNS):
        reply, command = _exactly(words, 4_096), _exactly(words, 80)
        content += len(reply.encode())
        replies += [{"toolCalls": [{"name": "look", "input": {"command": command}}]}, {"text": reply}]
    store = JsonlStore(folder)
    agent = Agent(model="scripted:size", tools=(look,))
    session = agent.begin(store)
    runtime = LiveRuntime(store, tools=(look,), provider=lambda _, __: ScriptedProvider(replies))
    for _ in range(TURNS):
        prompt = _exactly(words, 100)
        content += len(prompt.encode())
        session.say(prompt)
        asyncio.run(wake(runtime, session.name))
    size = sum(os.path.getsize(path) for path in _kept(folder))
    yield Figure(
        group=GROUP,
        what="bytes stored / bytes of content",
        workload=f"{TURNS} turns of a 4 KB reply and an 8 KB tool result through `wake`; log and blobs, after rest",
        floor="the texts alone",
        goal="≤ 1.3",
        ratio=size / content,
        limit=1.3,
        measured=f"{size / 1e6:.2f} MB : {content / 1e6:.2f} MB",
    )


def _exactly(words: Words, size: int) -> str:
    text = ""
    while len(text) < size:
        text += words.text(size) + " "
    return text[:size]


def _kept(folder: str) -> Iterator[str]:
    """Return the size of logs and blobs, without what is derived."""
    for place, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(place, name)
            if not os.path.islink(path) and (name.endswith(".jsonl") or "/.blobs/" in path):
                yield path
