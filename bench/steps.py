"""The runtime itself: the time of a step without the model, the tools, the syncs and reading the tail.

A turn of three steps (model call, delivery, idle) is run by `wake` many times, with a model that answers at once. The
time in syncs is measured and subtracted, and so is one reading of the tail; the rest of the turn's time, divided by its
steps, is the runtime.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Callable, Iterator

from bench.made import Words
from bench.measure import Figure, show, take_turns
from wakelog.app.agent import Agent
from wakelog.channels.in_process import MemoryChannel
from wakelog.providers.scripted import ScriptedProvider
from wakelog.reading import read_active
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.stores.jsonl import JsonlStore

GROUP = "Waking"
TURNS = 24
HISTORY = 12
GOAL_S = 0.001


def steps(folder: str, words: Words) -> Iterator[Figure]:
    """Run turns of three steps after a history of some messages."""
    replies = [{"text": words.text(400), "deltaChars": 400} for _ in range(2 * TURNS + HISTORY + 10)]
    store = JsonlStore(folder)
    session = Agent(model="scripted:steps").begin(store)
    # Reading the script is part of the model: it is done once.
    model = ScriptedProvider(replies)
    runtime = LiveRuntime(store, channels=[MemoryChannel()], provider=lambda _, __: model)
    rests: list[float] = []
    counts: list[int] = []
    with asyncio.Runner() as loop, _Syncs() as syncs:

        def turn() -> None:
            session.say("And now?")
            syncs.spent, start = 0.0, time.perf_counter()
            report = loop.run(wake(runtime, session.name))
            rests.append(time.perf_counter() - start - syncs.spent)
            counts.append(len(report.rules))

        for _ in range(HISTORY):
            turn()
        rests.clear()
        taken = take_turns({"turn": turn, "tail": lambda: read_active(store, session.name)}, rounds=TURNS)
    rest, tail, count = statistics.median(rests), taken["tail"].median, counts[-1]
    spent = max(0.0, rest - tail) / count
    yield Figure(
        group=GROUP,
        what="runtime time a step, without model and tool",
        workload=f"turns of {count} steps through `wake`, {HISTORY * 2} messages and more in the active tail",
        floor="1 ms, behind the syncs and one reading of the tail",
        goal="≤ 1 ms",
        ratio=spent / GOAL_S,
        limit=1.0,
        measured=f"{show(spent)} a step (a turn {show(rest)} without its syncs, the tail {show(tail)})",
    )


class _Syncs:
    """Measures the time that is spent in syncs."""

    def __init__(self) -> None:
        self.spent = 0.0
        self._calls = {"fsync": os.fsync, "fdatasync": os.fdatasync}

    def __enter__(self) -> "_Syncs":
        for name, call in self._calls.items():
            setattr(os, name, self._timed(call))
        return self

    def __exit__(self, *_: object) -> None:
        for name, call in self._calls.items():
            setattr(os, name, call)

    def _timed(self, call: Callable[[int], None]) -> Callable[[int], None]:
        def timed(descriptor: int) -> None:
            start = time.perf_counter()
            try:
                call(descriptor)
            finally:
                self.spent += time.perf_counter() - start

        return timed
