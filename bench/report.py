"""The figures as a table: on the terminal, and as `docs/performance.md`.

One section of that document, between two marks, is written by `bench.peers`; each of them keeps what the other wrote.
"""

import os
import platform
import sqlite3
import tempfile
from collections.abc import Sequence

from bench.measure import Figure, cores, show, take_turns

_HEAD = """# Performance

Written by `make bench{full}` and never by hand. Each figure is a ratio to a floor measured in the same run, on
the same disk, floor and subject taking turns; times are medians, the smallest in brackets. A goal that is
missed stays in the table as missed. Ratios travel between machines better than times do; both move a little
from run to run. What many sessions at once gain over one is the syncs they share, so it grows with what a sync
takes. The last column runs one row again: `python -m bench --only NAME`{also}.

| | |
|---|---|
{machine}
"""
_COLUMNS = ("what", "workload", "floor", "wakelog : floor", "ratio", "goal", "", "command")

_PEERS_BEGIN = "<!-- peers: begin -->"
_PEERS_END = "<!-- peers: end -->"


def machine(folder: str) -> dict[str, str]:
    """Return the properties of the machine that matter: cores, memory, the disk, Python."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": str(cores()),
        "memory": f"{pages / 2**30:.0f} GB",
        "file system": file_system(folder),
        "a sync of 4 KB": show(sync_s(folder)),
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
    }


def sync_s(folder: str) -> float:
    """Return the time that it takes to make a small write durable."""
    with tempfile.TemporaryFile(dir=folder) as file:

        def write() -> None:
            os.write(file.fileno(), b"x" * 4_096)
            os.fdatasync(file.fileno())

        return take_turns({"sync": write}, rounds=200)["sync"].median


def file_system(folder: str) -> str:
    """Return the type of the file system of a folder: that of the longest mount point above it."""
    best = ("", "unknown")
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        for _, point, kind, *_ in map(str.split, mounts):
            if os.path.commonpath([folder, point]) == point and len(point) >= len(best[0]):
                best = (point, kind)
    return best[1]


def print_figure(figure: Figure) -> None:
    """Print one figure, as soon as it is known."""
    ratio = f"{figure.ratio:.2f}"
    print(f"  {figure.verdict:6}  {ratio:>8}  goal {figure.goal:20}  {figure.what}")
    print(f"          {figure.measured}", flush=True)


def page(figures: Sequence[Figure], folder: str, *, full: bool) -> str:
    """Return the whole document."""
    facts = "\n".join(f"| {name} | {value} |" for name, value in machine(folder).items())
    parts = [_HEAD.format(full=" FULL=1" if full else "", also=", with `--full`" if full else "", machine=facts)]
    for group in dict.fromkeys(figure.group for figure in figures):
        rows = [_row(figure) for figure in figures if figure.group == group]
        head = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}\n"
        parts.append(f"## {group}\n\n{head}" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _row(figure: Figure) -> str:
    verdict = "**missed**" if figure.verdict == "missed" else figure.verdict
    cells = (
        figure.what,
        figure.workload,
        figure.floor,
        figure.measured,
        f"{figure.ratio:.2f}",
        figure.goal,
        verdict,
        f"`{figure.command}`",
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def peers_section(document: str) -> str:
    """Return the text between the marks in a document; empty, if it has none."""
    _, begin, rest = document.partition(_PEERS_BEGIN)
    section, end, _ = rest.partition(_PEERS_END)
    return section.strip() if begin and end else ""


def with_peers(document: str, section: str) -> str:
    """Return the document with this section between the marks, at its end."""
    before, begin, rest = document.partition(_PEERS_BEGIN)
    after = rest.partition(_PEERS_END)[2] if begin else ""
    rest_of_it = (before.rstrip() + "\n" + after.rstrip()).rstrip()
    return f"{rest_of_it}\n\n{_PEERS_BEGIN}\n{section}\n{_PEERS_END}\n" if section else f"{rest_of_it}\n"
