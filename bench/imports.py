"""Importing sessions of other agents: its speed beside a bare script, a second import, and the most memory held."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

from bench.bare_import import import_bare
from bench.foreign_logs import TOOLS, write_logs
from bench.made import Words
from bench.measure import Figure, Times, compare, show, take_turns
from bench.memory import LIMIT_BYTES, peak_of_command
from wakelog.exchange.sync import import_files
from wakelog.exchange.sync_index import SyncIndex
from wakelog.stores.jsonl import JsonlStore

GROUP = "Importing sessions of other agents"
GOAL = 0.5
# Fewer rounds for more megabytes: (megabytes, rounds).
ROUNDS = ((100, 5), (10_000, 1))


class _Syncs:
    """Counts the syncs of imports and the time that they take, which depends on the disk and on what else uses it."""

    def __init__(self) -> None:
        self._runs = self._count = 0
        self._seconds = 0.0
        self._patch = patch.multiple(os, fsync=self._timed(os.fsync), fdatasync=self._timed(os.fdatasync))

    def __enter__(self) -> None:
        self._runs += 1
        self._patch.start()

    def __exit__(self, *_: object) -> None:
        self._patch.stop()

    def _timed(self, sync: Callable[[Any], None]) -> Callable[[Any], None]:
        def timed(file: Any) -> None:
            start = time.perf_counter()
            sync(file)
            self._count += 1
            self._seconds += time.perf_counter() - start

        return timed

    def __str__(self) -> str:
        return f"{self._count // self._runs:,} syncs took {show(self._seconds / self._runs)} of it"


def imports(folder: str, words: Words, *, files: int, megabytes: int) -> Iterator[Figure]:
    """Import so many generated files of each tool."""
    for tool, make in TOOLS.items():
        place = os.path.join(folder, tool.replace(" ", "-"))
        paths = write_logs(place, words, make, files=files, megabytes=megabytes)
        size = sum(map(os.path.getsize, paths))
        workload = f"{tool}: {files:,} files, {size / 1e6:,.0f} MB"
        yield from _speed(folder, paths, workload, size)
        yield _memory(folder, place, workload)
        shutil.rmtree(place)


def _speed(folder: str, paths: list[str], workload: str, size: int) -> Iterator[Figure]:
    """Measure the first import and the second one, which finds nothing new."""
    bare, store = os.path.join(folder, "bare"), os.path.join(folder, "store")
    cache = os.path.join(folder, "cache")

    syncs = _Syncs()

    def first() -> None:
        for each in (store, cache):
            shutil.rmtree(each, ignore_errors=True)
        with syncs:
            again()

    def again() -> None:
        with SyncIndex(cache, "bench") as index:
            opened = JsonlStore(store)
            failed = [done.path for done in import_files(opened, paths, index) if done.error is not None]
            opened.close()
        if failed:
            raise SystemExit(f"{failed[0]} was not imported")

    def floor() -> None:
        shutil.rmtree(bare, ignore_errors=True)
        import_bare(paths, bare)

    rounds = next(count for most, count in ROUNDS if size <= most * 1_000_000)
    taken = take_turns({"floor": floor, "first": first}, rounds=rounds, warm_up=int(rounds > 1))
    written = f"{_size_of(store) / 1e6:,.0f} : {_size_of(bare) / 1e6:,.0f} MB written"
    yield Figure(
        group=GROUP,
        what="speed of an import, `import_files`",
        workload=workload,
        floor="a bare script: decodes, looks for secrets, encodes, hashes and writes each line, without a sync",
        goal=f"≥ {GOAL:g} ×",
        ratio=taken["floor"].median / taken["first"].median,
        limit=GOAL,
        at_least=True,
        measured=f"{compare(taken['floor'], taken['first'])}; {_rate(size, taken['first'])}; {written}; {syncs}",
    )
    second = take_turns({"again": again}, rounds=rounds, warm_up=0)["again"]
    yield Figure(
        group=GROUP,
        what="a second import, which finds nothing new",
        workload=workload,
        floor="the first import",
        goal="",
        ratio=second.median / taken["first"].median,
        limit=None,
        measured=compare(taken["first"], second),
    )
    for each in (bare, store, cache):
        shutil.rmtree(each)


def _memory(folder: str, place: str, workload: str) -> Figure:
    """Measure the most memory that the command holds, in a process of its own."""
    store, cache = os.path.join(folder, "store"), os.path.join(folder, "cache")
    peak = peak_of_command(store, ("import", place), cache)
    for each in (store, cache):
        shutil.rmtree(each)
    return Figure(
        group=GROUP,
        what="the most memory held, `wakelog import`",
        workload=workload,
        floor=f"{LIMIT_BYTES // 1_000_000} MB",
        goal=f"≤ {LIMIT_BYTES // 1_000_000} MB",
        ratio=peak / LIMIT_BYTES,
        limit=1.0,
        measured=f"{peak / 1e6:,.0f} MB",
    )


def _size_of(folder: str) -> int:
    """Return the bytes of all files below a folder."""
    return sum(os.lstat(os.path.join(at, name)).st_size for at, _, names in os.walk(folder) for name in names)


def _rate(size: int, taken: Times) -> str:
    return f"{size / 1e6 / taken.median:,.0f} MB a second"
