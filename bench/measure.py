"""Alternating measurements: floor and subjects are timed in turns, and their medians compared.

A ratio is taken between medians of the same number of interleaved runs. Both the minimum and the median are kept: the
minimum says what the machine can do, the median what it did.
"""

import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

# The program as it was installed beside this Python, which is what people run.
COMMAND = os.path.join(os.path.dirname(sys.executable), "wakelog")
# Not `ru_maxrss`: a child begins with the value of its parent at the time of the fork.
_PEAK = """
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


class Times(msgspec.Struct, frozen=True):
    """Measured seconds."""

    runs: tuple[float, ...]

    @property
    def least(self) -> float:
        return min(self.runs)

    @property
    def median(self) -> float:
        return statistics.median(self.runs)


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table. `ratio` is compared with `limit`: at most, or (`at_least`) at least."""

    group: str
    what: str
    workload: str
    floor: str
    goal: str
    ratio: float
    limit: float | None
    at_least: bool = False
    measured: str = ""
    command: str = ""

    @property
    def verdict(self) -> str:
        """`met`, `missed`, or a dash without a goal."""
        if self.limit is None:
            return "–"
        met = self.ratio >= self.limit if self.at_least else self.ratio <= self.limit
        return "met" if met else "missed"


def take_turns(acts: Mapping[str, Callable[[], object]], *, rounds: int, warm_up: int = 1) -> dict[str, Times]:
    """Run each act once a round, in an order that rotates with each round."""
    taken: dict[str, list[float]] = {name: [] for name in acts}
    names = list(acts)
    for turn in range(-warm_up, rounds):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            gc.collect(0)
            start = time.perf_counter()
            acts[name]()
            spent = time.perf_counter() - start
            if turn >= 0:
                taken[name].append(spent)
    return {name: Times(tuple(runs)) for name, runs in taken.items()}


def process(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Callable[[], None]:
    """Return an act that runs a program from start to end; its stderr is shown if it fails."""

    def run() -> None:
        surroundings = {**os.environ, **(environment or {})}
        out, err = subprocess.DEVNULL, subprocess.PIPE
        done = subprocess.run(arguments, check=False, stdout=out, stderr=err, env=surroundings)
        if done.returncode:
            raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr.decode()}")

    return run


def python(*arguments: str, environment: Mapping[str, str] | None = None) -> Callable[[], None]:
    """Return an act that runs this Python."""
    return process([sys.executable, *arguments], environment)


def peak_memory(script: str, *arguments: str) -> int:
    """Return the peak memory of a script in a process of its own, in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", script + _PEAK, *arguments], check=True, capture_output=True, text=True
    )
    return int(done.stdout.split()[-1]) * 1024


def compare(floor: Times, ours: Times) -> str:
    """Return both sides as text: median and minimum."""
    return f"{show(ours.median)} (min {show(ours.least)}) : {show(floor.median)} (min {show(floor.least)})"


def show(seconds: float) -> str:
    """Return a time with its unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def cores() -> int:
    """Return the number of processors that this run may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
