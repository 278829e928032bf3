"""`python -m bench [--full] [--only NAME]`: measure, print, and (unless `--only`) write `docs/performance.md`.

The data is made in a folder inside the checkout, so that it is on the same disk, and removed at the end. `--full` adds
the large workloads: a log of 1 GB, 100,000 sessions, 1,000,000 messages, 10,000 files of another agent.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from bench.appends import one_writer, to_database
from bench.commands import listing, searching
from bench.first_request import first_request
from bench.forks import forking
from bench.imports import imports
from bench.loads import load
from bench.made import Words
from bench.measure import Figure
from bench.memory import memory
from bench.picks import picks
from bench.redaction import redaction
from bench.report import machine, page, peers_section, print_figure, with_peers
from bench.sizes import stored
from bench.startup import startup
from bench.steps import steps
from bench.stores import files, postgres, sqlite, stores
from bench.tails import wake


class Sizes(msgspec.Struct, frozen=True):
    """Sizes of the workloads that take long."""

    megabytes: tuple[int, ...] = (64,)
    listed: tuple[int, ...] = (2_000,)
    searched: tuple[int, ...] = (50_000,)
    picked: int = 10_000
    held: tuple[int, ...] = (50_000,)
    imported: tuple[tuple[int, int], ...] = ((200, 20),)
    """Files and megabytes."""


USUAL = Sizes()
LARGE = Sizes(
    megabytes=(64, 1_000),
    listed=(2_000, 10_000, 100_000),
    searched=(50_000, 1_000_000),
    held=(50_000, 850_000),
    imported=((200, 20), (10_000, 1_000)),
)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
Concern = Callable[[str, Words], Iterator[Figure]]


def concerns(sizes: Sizes = USUAL) -> Iterator[tuple[str, Concern]]:
    """Yield everything that is measured, by name, in the order of the document."""
    yield "append", one_writer
    for opening in (sqlite, postgres):
        yield "append", partial(to_database, opening=opening)
    for opening in (files, sqlite, postgres):
        yield opening.__name__, partial(stores, opening=opening)
    yield "load", load
    for megabytes in sizes.megabytes:
        yield "wake", partial(wake, megabytes=megabytes)
    for sessions in sizes.listed:
        yield "ls", partial(listing, sessions=sessions)
    for messages in sizes.searched:
        yield "search", partial(searching, messages=messages)
    yield "pick", partial(picks, sessions=sizes.picked)
    for messages in sizes.held:
        yield "memory", partial(memory, messages=messages)
    yield "startup", startup
    yield "request", first_request
    yield "step", steps
    yield "redaction", redaction
    yield "fork", forking
    for files_imported, megabytes in sizes.imported:
        yield "import", partial(imports, files=files_imported, megabytes=megabytes)
    yield "size", stored


def measure(place: str, sizes: Sizes, *, only: str | None) -> list[Figure]:
    """Return every figure; each concern has its own folder, which is removed afterwards."""
    words, figures, group = Words(), [], ""
    for number, (name, concern) in enumerate(concerns(sizes)):
        if only not in (None, name):
            continue
        folder = os.path.join(place, str(number))
        os.mkdir(folder)
        for figure in concern(folder, words):
            if figure.group != group:
                group = figure.group
                print(f"\n{group}")
            print_figure(figure)
            figures.append(msgspec.structs.replace(figure, command=f"--only {name}"))
        shutil.rmtree(folder)
    return figures


def cache_bytecode(folder: str) -> None:
    """Let every measured process find its modules compiled, as they are after an installation."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = folder


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--full", action="store_true", help="the large workloads too: minutes, and some gigabytes")
    parser.add_argument("--only", choices=dict(concerns()), help="one concern; no document is written")
    asked = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=ROOT) as place:
        cache_bytecode(os.path.join(place, "bytecode"))
        print(", ".join(f"{name} {value}" for name, value in machine(place).items()))
        figures = measure(place, LARGE if asked.full else USUAL, only=asked.only)
        if asked.only is None:
            write_page(os.path.join(ROOT, "docs", "performance.md"), page(figures, place, full=asked.full))
    missed = sum(figure.verdict == "missed" for figure in figures)
    print(f"\n{len(figures)} figures, {missed} missed, in {time.monotonic() - start:.0f} s")


def write_page(path: str, text: str) -> None:
    """Write the document, and keep the section of the peers as it is."""
    with open(path, encoding="utf-8") as file:
        section = peers_section(file.read())
    with open(path, "w", encoding="utf-8") as file:
        file.write(with_peers(text, section))


if __name__ == "__main__":
    main()
