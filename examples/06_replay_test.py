"""Recorded sessions as regression tests, of wakelog and of your own tools.

`replay` runs the same steps again with the model, the tools and the clock answered from the log, and compares every
byte: no key, no network, no cost. A log also has the input and the result of each tool call, so today's tools can be
compared with them. Keep logs that matter beside your tests, and run this in CI.

    python 06_replay_test.py        or: pytest 06_replay_test.py
"""

import asyncio

from wakelog import Agent, Session, open_store, replay, tool

store = open_store("recorded")


def to_roman(number: int) -> str:
    signs = {10: "X", 9: "IX", 5: "V", 4: "IV", 1: "I"}
    text = ""
    for value, sign in signs.items():
        text, number = text + sign * (number // value), number % value
    return text


@tool(replay="safe")
def roman(number: int) -> str:
    """Returns a number in Roman numerals."""
    return to_roman(number)


def test_replay() -> None:
    """The steps write the same log again, byte for byte."""
    for stat in store.sessions():
        again = asyncio.run(replay(store, stat.name))
        assert again.ok, again.reason or again.divergence


def test_tools() -> None:
    """The tool returns today what it returned when the session was recorded."""
    for stat in store.sessions():
        for row in Session.get(store, stat.name).transcript():
            if row.kind == "call" and row.name == "roman":
                assert isinstance(row.input, dict)
                assert row.text == to_roman(**row.input), (stat.name, row.input)


if not any(store.sessions()):  # really: one of "anthropic:NAME", by `wakelog copy SESSION --to recorded`
    Agent("demo", tools=[roman]).run_sync(store, 'use roman with {"number": 14}')
if __name__ == "__main__":
    test_replay()
    test_tools()
    print("replayed:", *(stat.name for stat in store.sessions()))
