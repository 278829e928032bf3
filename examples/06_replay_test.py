"""Recorded sessions as regression tests: of wakelog, and of your own tools.

`replay` drives the same steps again, with the model, the tools and the clock answered from the log, and compares every
byte: no key, no network, no cost. And since a log says what each tool was given and what it answered, today's tools
can be held to it. Keep logs that matter beside your tests, and let this run in CI.

    python 06_replay_test.py        or: pytest 06_replay_test.py
"""

import asyncio
from collections.abc import Iterator

from wakelog import Agent, Message, Reply, Session, ToolCall, ToolResult, open_store, replay, tool
from wakelog.ports.runtime import ToolInvocation

store = open_store("recorded")


@tool(replay="safe")
def roman(number: int) -> str:
    """A number as the Romans wrote it."""
    signs = {10: "X", 9: "IX", 5: "V", 4: "IV", 1: "I"}
    text = ""
    for value, sign in signs.items():
        text, number = text + sign * (number // value), number % value
    return text


def test_replay() -> None:
    """The same log comes out of it, byte for byte."""
    for stat in store.sessions():
        again = asyncio.run(replay(store, stat.name))
        assert again.ok, again.reason or again.divergence


def test_tools() -> None:
    """A tool that only looks answers today as it did when the session was recorded."""
    for stat in store.sessions():
        for call, result in answered(Session(store, stat.name)):
            outcome = asyncio.run(roman.run(ToolInvocation("", "", call.input)))
            assert outcome.text == result.text, (stat.name, call.input)


def answered(session: Session) -> Iterator[tuple[ToolCall, ToolResult]]:
    said = [node.value.message for node in session.read().tree.branch().nodes if isinstance(node.value, Message)]
    parts = [part for reply in said if isinstance(reply, Reply) for part in reply.content]
    calls = {part.id: part for part in parts if isinstance(part, ToolCall)}
    return ((calls[each.tool_call_id], each) for each in said if isinstance(each, ToolResult))


if not any(store.sessions()):  # in real life: "anthropic:NAME" at work, and then `wakelog copy SESSION --to recorded`
    asyncio.run(Agent(model="demo", tools=(roman,)).run(store, 'use roman with {"number": 14}'))
if __name__ == "__main__":
    test_replay()
    test_tools()
    print("replayed:", *(stat.name for stat in store.sessions()))
