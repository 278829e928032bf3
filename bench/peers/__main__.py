"""`python -m bench.peers [--full] [--only NAME]`: measure the peers one by one.

Unless `--only` is given, their section of `docs/performance.md` is written. Each is measured in a process of its own.
A library that does not work is a line of the table that says so; without wakelog and the floors there is no table.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from bench.measure import show
from bench.peers.one import NOT_INSTALLED, Result
from bench.peers.peer import FLOORS, ROWS, Row
from bench.peers.server import durable_server, stop_amid, version_of
from bench.peers.table import Stop, growth, lasting, section
from bench.report import machine, with_peers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PATIENCE_S = 900


class Sizes(msgspec.Struct, frozen=True):
    """The number of messages that a peer is given, and how often its writer is killed."""

    count: int = 250
    rounds: int = 2


USUAL, LARGE = Sizes(), Sizes(count=1_000, rounds=10)


def measure(of: Row, folder: str, new_place: Callable[[], str], sizes: Sizes) -> Result | str:
    """Measure one peer in a process of its own; return its figures, or why there are none."""
    places = msgspec.json.encode([new_place() for _ in range(3 + sizes.rounds)]).decode()
    out = os.path.join(folder, f"{of.name}.json")
    command = [sys.executable, "-m", "bench.peers.one", of.name, places, out, str(sizes.count), str(sizes.rounds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return f"not done after {_PATIENCE_S} s"
    if done.returncode == NOT_INSTALLED:
        return f"not installed: {done.stderr.strip()}"
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
    with open(out, "rb") as file:
        return msgspec.json.decode(file.read(), type=Result)


def print_result(of: Row, result: Result | str, stop: Stop | None = None) -> None:
    """Print the figures of one peer, as soon as they are known."""
    if isinstance(result, str):
        print(f"  {of.name:26}  did not work here: {result}", flush=True)
        return
    ours, floor = result.append.median, result.floor_append.median
    load = result.load.median / result.floor_load.median
    print(f"  {of.name:26}  append {show(ours)} : {show(floor)} = {ours / floor:.2f} ({growth(result)})")
    print(
        f"  {'':26}  load × {load:.2f}, stored × {result.stored / result.content:.2f}; {lasting(result, stop)}",
        flush=True,
    )


def measure_all(
    folder: str, rows: Sequence[Row], sizes: Sizes
) -> tuple[dict[Row, Result | str], Mapping[str, Stop], str]:
    """Measure each of these peers; then stop the server under those that use it."""
    found: dict[Row, Result | str] = {}
    with durable_server() as server:
        for row in rows:
            if row.kind == "postgresql":
                found[row] = measure(row, folder, server.new_database, sizes)
            else:
                found[row] = measure(row, folder, lambda: tempfile.mkdtemp(dir=folder), sizes)
            print_result(row, found[row])
        working = [row for row, result in found.items() if row.kind == "postgresql" and isinstance(result, Result)]
        stops = stop_amid(server, working) if working else {}
        for name, stop in stops.items():
            print(f"  {name:26}  server stopped: {stop.lost} of {stop.acknowledged} acknowledged lost")
        return found, stops, version_of(server)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--full", action="store_true", help="longer conversations and more kills: many minutes")
    parser.add_argument(
        "--only", choices=[row.name for row in (*FLOORS.values(), *ROWS)], help="one; nothing is written"
    )
    asked = parser.parse_args()
    start, load = time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=ROOT) as folder:
        rows = [row for row in (*FLOORS.values(), *ROWS) if asked.only in (None, row.name)]
        found, stops, version = measure_all(folder, rows, LARGE if asked.full else USUAL)
        facts = machine(folder) | {"PostgreSQL": version, "load before the run": f"{load:.1f}"}
    failed = [f"{row.name} ({why})" for row, why in found.items() if row.is_ours and isinstance(why, str)]
    if failed:
        raise SystemExit(f"not measured, so nothing is written: {'; '.join(failed)}")
    if asked.only is None:
        write_section(section(found, stops, facts, full=asked.full))
    print(f"{len(found)} measured in {time.monotonic() - start:.0f} s")


def write_section(text: str) -> None:
    """Write the section in its place and leave the rest of the document alone."""
    path = os.path.join(ROOT, "docs", "performance.md")
    with open(path, encoding="utf-8") as file:
        document = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(with_peers(document, text))


if __name__ == "__main__":
    main()
