"""Forking into a session of its own: the same time at any size, and nothing is copied."""

import os
import statistics
from collections.abc import Callable, Iterator
from functools import partial

from bench.made import Words, talk, write_log
from bench.measure import Figure, show, take_turns
from wakelog.forking import fork
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore

GROUP = "Forking"
SIZES = (100, 1_000, 10_000)
ROUNDS = 9


def forking(folder: str, words: Words) -> Iterator[Figure]:
    """`fork` of an open session at three sizes, at its head."""
    store = JsonlStore(folder)
    acts: dict[str, Callable[[], Session]] = {}
    for size in SIZES:
        name = f"fork{size}_user_1"
        write_log(folder, name, talk(f"fork{size}", words, messages=size, size=300))
        acts[str(size)] = partial(fork, Session(store, name))
    taken = take_turns(acts, rounds=ROUNDS)
    children = [os.path.getsize(entry) for entry in os.scandir(folder) if entry.name.endswith(".jsonl")]
    times = ", ".join(f"{show(taken[str(size)].median)} at {size:,}" for size in SIZES)
    yield Figure(
        group=GROUP,
        what=f"`fork` of {SIZES[-1]:,} messages beside {SIZES[0]:,}",
        workload="a new session from the head; its file and folder are synced",
        floor=f"the same for {SIZES[0]:,} messages",
        goal="constant (≤ 1.5 ×)",
        ratio=taken[str(SIZES[-1])].median / taken[str(SIZES[0])].median,
        limit=1.5,
        measured=times,
    )
    yield Figure(
        group=GROUP,
        what="entries copied by a fork",
        workload="lines in the new log besides its first",
        floor="zero",
        goal="0",
        ratio=float(_copied(store)),
        limit=0.0,
        measured=f"{statistics.median(children):,.0f} bytes a new log",
    )


def _copied(store: JsonlStore) -> int:
    """Return the largest number of lines that any fork has besides its session header."""
    forks = [stat.name for stat in store.sessions() if stat.name.startswith("bench_user_")]
    return max(sum(1 for _ in store.load(name)) - 1 for name in forks)
