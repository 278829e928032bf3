"""Waking a long log: with a short active tail, time and memory must not depend on its length."""

import os
from collections.abc import Callable, Iterator
from functools import partial

from bench.made import Words, compacted_talk, write_log
from bench.measure import Figure, compare, peak_memory, take_turns
from wakelog.reading import read_active
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore

GROUP = "Reading"
TAIL_TURNS = 10
ROUNDS = 60
_SCRIPT = """
import sys
from wakelog.reading import read_active
from wakelog.stores.jsonl import JsonlStore
read_active(JsonlStore(sys.argv[1]), sys.argv[2])
"""


def _open_branch(store: JsonlStore, name: str) -> object:
    return Session(store, name).branch()


def wake(folder: str, words: Words, *, megabytes: int) -> Iterator[Figure]:
    """Measure a log of so many megabytes beside one of 1 MB with the same tail."""
    sizes = {"small_user_1": 1_000_000, "large_user_1": megabytes * 1_000_000}
    for name, size in sizes.items():
        bodies = compacted_talk(name.replace("_", "-"), words, bytes_before=size, size=4_000, tail=TAIL_TURNS)
        write_log(folder, name, bodies)
    store = JsonlStore(folder)
    acts: dict[str, Callable[[], object]] = {}
    for name in sizes:
        acts[name] = partial(read_active, store, name)
        acts[f"open {name}"] = partial(_open_branch, store, name)
    taken = take_turns(acts, rounds=ROUNDS, warm_up=3)
    large = os.path.getsize(os.path.join(folder, "large_user_1.jsonl")) / 1e6
    for prefix, call in (("", "read_active"), ("open ", "Session(store, name).branch()")):
        floor, ours = taken[f"{prefix}small_user_1"], taken[f"{prefix}large_user_1"]
        yield Figure(
            group=GROUP,
            what=f"wake a {large:,.0f} MB log with a short active tail, `{call}`",
            workload=f"compacted; {TAIL_TURNS * 4} messages after the compaction",
            floor="the same for a 1 MB log with the same tail",
            goal="≤ 1.5 ×",
            ratio=ours.median / floor.median,
            limit=1.5,
            measured=compare(floor, ours),
        )
    memory = {name: peak_memory(_SCRIPT, folder, name) for name in sizes}
    yield Figure(
        group=GROUP,
        what=f"the most memory held while doing so, {large:,.0f} MB log",
        workload="a process that does `read_active` and ends",
        floor="the same for the 1 MB log",
        goal="flat (≤ 1.1 ×)",
        ratio=memory["large_user_1"] / memory["small_user_1"],
        limit=1.1,
        measured=f"{memory['large_user_1'] / 1e6:.1f} MB : {memory['small_user_1'] / 1e6:.1f} MB",
    )
