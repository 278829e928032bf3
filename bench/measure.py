"""Taking turns: floor and subjects are timed alternately, and their medians compared.

A ratio is taken between medians of the same number of interleaved runs. Both the smallest and the middle
value are kept: the smallest says what the machine can do, the median what it did.
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
# Not `ru_maxrss`: a child begins with what its parent held when it was started.
_PEAK = """
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


class Times(msgspec.Struct, frozen=True):
    """Seconds, as measured."""

    runs: tuple[float, ...]

    @property
    def least(self) -> float:
        return min(self.runs)

    @property
    def median(self) -> float:
        return statistics.median(self.runs)


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table. `ratio` is judged against `limit`, from below or (`at_least`) from above."""

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
        """met, missed, or a dash where there is no goal of its own."""
        if self.limit is None:
            return "–"
        met = self.ratio >= self.limit if self.at_least else self.ratio <= self.limit
        return "met" if met else "missed"


def take_turns(acts: Mapping[str, Callable[[], object]], *, rounds: int, warm_up: int = 1) -> dict[str, Times]:
    """Runs each act once a round, in an order that moves on with each round."""
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
    """An act that runs a program from its start to its end; what it says is shown if it failed."""

    def run() -> None:
        surroundings = {**os.environ, **(environment or {})}
        out, err = subprocess.DEVNULL, subprocess.PIPE
        done = subprocess.run(arguments, check=False, stdout=out, stderr=err, env=surroundings)
        if done.returncode:
            raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr.decode()}")

    return run


def python(*arguments: str, environment: Mapping[str, str] | None = None) -> Callable[[], None]:
    """An act that runs this Python."""
    return process([sys.executable, *arguments], environment)


def peak_memory(script: str, *arguments: str) -> int:
    """The most memory that a script in a process of its own ever held, in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", script + _PEAK, *arguments], check=True, capture_output=True, text=True
    )
    return int(done.stdout.split()[-1]) * 1024


def compare(floor: Times, ours: Times) -> str:
    """Both sides in words: median and least."""
    return f"{show(ours.median)} (min {show(ours.least)}) : {show(floor.median)} (min {show(floor.least)})"


def show(seconds: float) -> str:
    """A time as people read it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def cores() -> int:
    """How many processors this run may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
