"""`python -m bench.peers [--full] [--only NAME]`: measures the peers one by one.

Unless `--only` is given, their section of `docs/performance.md` is written. Each is measured in a process of its own.
One that does not work is a line of the table that says so.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping

import msgspec

from bench.measure import show
from bench.peers.one import Result
from bench.peers.peer import FLOORS, ROWS, Row
from bench.peers.server import durable_server, stop_amid, version_of
from bench.peers.table import Stop, growth, lasting, section
from bench.report import machine, with_peers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PATIENCE_S = 900


def measure(of: Row, folder: str, new_place: Callable[[], str], *, full: bool) -> Result | str:
    """One peer in a process of its own: its figures, or why there are none."""
    count, rounds = (1_000, 10) if full else (250, 2)
    places = msgspec.json.encode([new_place() for _ in range(3 + rounds)]).decode()
    out = os.path.join(folder, f"{of.name}.json")
    command = [sys.executable, "-m", "bench.peers.one", of.name, places, out, str(count), str(rounds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return f"not done after {_PATIENCE_S} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
    with open(out, "rb") as file:
        return msgspec.json.decode(file.read(), type=Result)


def print_result(of: Row, result: Result | str, stop: Stop | None = None) -> None:
    """One peer, as soon as it is known."""
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
    folder: str, only: str | None, *, full: bool
) -> tuple[dict[Row, Result | str], Mapping[str, Stop], str]:
    """Every peer, the floors before them; then the server is stopped under those that use it."""
    rows = [row for row in (*FLOORS.values(), *ROWS) if only in (None, row.name)]
    found: dict[Row, Result | str] = {}
    with durable_server() as server:
        for row in rows:
            if row.kind == "postgresql":
                found[row] = measure(row, folder, server.new_database, full=full)
            else:
                found[row] = measure(row, folder, lambda: tempfile.mkdtemp(dir=folder), full=full)
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
        found, stops, version = measure_all(folder, asked.only, full=asked.full)
        facts = machine(folder) | {"PostgreSQL": version, "load before the run": f"{load:.1f}"}
    if asked.only is None:
        write_section(section(found, stops, facts, full=asked.full))
    print(f"{len(found)} measured in {time.monotonic() - start:.0f} s")


def write_section(text: str) -> None:
    """Puts the section in its place and leaves the rest of the document alone."""
    path = os.path.join(ROOT, "docs", "performance.md")
    with open(path, encoding="utf-8") as file:
        document = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(with_peers(document, text))


if __name__ == "__main__":
    main()
