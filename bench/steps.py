"""The harness itself: what a step takes besides the model, the tools, the syncs and reading the tail.

A turn of three steps (ask, deliver, rest) is run by `wake` over and over, with a model that answers at once. The same
lines are then written and synced with nothing around them, and the tail read as often as there were steps; what is
left of the turn's time, divided by its steps, is the harness.
"""

import asyncio
import os
from collections.abc import Iterator

from bench.made import Words
from bench.measure import Figure, show, take_turns
from wakelog.agent import Agent
from wakelog.channels.held import Held
from wakelog.live import live_world
from wakelog.providers.scripted import ScriptedProvider
from wakelog.reading import read_active
from wakelog.session import UNSYNCED_TYPES
from wakelog.stores.jsonl import JsonlStore
from wakelog.wake import wake

GROUP = "Waking"
TURNS = 16
HISTORY = 12
GOAL_S = 0.001


def steps(folder: str, words: Words) -> Iterator[Figure]:
    """Turns of three steps behind a history of forty messages."""
    replies = [{"text": words.text(400), "deltaChars": 400} for _ in range(2 * TURNS + HISTORY + 10)]
    store = JsonlStore(os.path.join(folder, "store"))
    session = Agent(model="scripted:steps").begin(store)
    world = live_world(store, channels=[Held()], provider=lambda _, __: ScriptedProvider(replies))
    taken: list[int] = []
    loop = asyncio.Runner()

    def turn() -> None:
        session.say("And now?")
        before = session.last_seq
        report = loop.run(wake(world, session.name))
        taken[:] = [before, len(report.rows)]

    for _ in range(HISTORY):
        turn()
    floor = os.open(os.path.join(folder, "floor"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    log = session.read()
    lines = [(entry.raw + b"\n", entry.type not in UNSYNCED_TYPES) for entry in log.entries if entry.seq >= taken[0]]
    looks = taken[1] + 1

    def bare() -> None:
        for line, synced in lines:
            os.write(floor, line)
            if synced:
                os.fdatasync(floor)
        for _ in range(looks):
            read_active(store, session.name)

    times = take_turns({"turn": turn, "bare": bare}, rounds=TURNS, warm_up=3)
    os.close(floor)
    loop.close()
    spent = max(0.0, times["turn"].median - times["bare"].median) / taken[1]
    yield Figure(
        group=GROUP,
        what="harness time a step, without model and tool",
        workload=f"turns of {taken[1]} steps through `wake`, some {HISTORY * 2} messages in the active tail",
        floor="1 ms; the same lines written and synced, and the tail read once a step, are taken off",
        goal="≤ 1 ms",
        ratio=spent / GOAL_S,
        limit=1.0,
        measured=f"{show(spent)} a step (a turn {show(times['turn'].median)}, bare {show(times['bare'].median)})",
    )
