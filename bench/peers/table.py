"""The peers' section of `docs/performance.md`: each line has version, workload and observed durability."""

import statistics
from collections.abc import Mapping, Sequence

import msgspec

from bench.measure import Times, show
from bench.peers.one import Result
from bench.peers.peer import KINDS, Kind, Row

_HEAD = """## Beside other libraries

Written by `make bench-peers{full}` and never by hand. Every library gets the same messages of 1,000 characters in one
conversation, one at a time, each acknowledged before the next, through the public call that the line names and with
its own defaults; each takes turns with the floor of its kind. A floor keeps the message as JSON and nothing else:

{floors}

A floor's own row is the floor beside itself: its distance from 1 is noise. Rows are measured one after another, so
that times of different rows compare less well than ratios, and ratios only as far as that noise allows.
The libraries do more than a floor, and not all the same: wakelog seals every entry into a hash chain and keeps a tree,
LangGraph keeps a checkpoint a step with all messages so far in it, ADK keeps state beside its events.

Durability is what was seen. No power was cut: «survives a power cut» says that everything was synced in time. Files
and SQLite: system calls were traced, and a file that was written to and not synced before the acknowledgement would
be named. PostgreSQL: the server was asked after each append whether everything was committed and flushed. «kill -9»:
the writer was killed in the midst of its appends and the conversation read again by the same library; «stop»: the
server was stopped at once, without a checkpoint, while all of them appended.

{machine}
"""
_APPEND = (
    "who",
    "workload",
    "an append : floor",
    "ratio",
    "a second",
    "ratio, first tenth → last",
    "durability really given",
)
_LOAD = (
    "who",
    "load : floor",
    "ratio",
    "into",
    "stored with indexes / content",
    "branch from the middle, with one message",
)
_FLOORS: dict[Kind, str] = {
    "files": "`os.write` + `os.fdatasync`",
    "sqlite": "sqlite3 with WAL and synchronous=FULL, `INSERT` and commit",
    "postgresql": "psycopg, a prepared `INSERT` and commit",
}


class Stop(msgspec.Struct, frozen=True):
    """How many messages a peer had acknowledged when its server was stopped, and how many of those were gone."""

    acknowledged: int
    lost: int


def section(
    found: Mapping[Row, Result | str], stops: Mapping[str, Stop], machine: Mapping[str, str], *, full: bool
) -> str:
    """Return the whole section."""
    floors = "\n".join(f"- {KINDS[kind]}: {said}." for kind, said in _FLOORS.items())
    facts = ", ".join(f"{name} {value}" for name, value in machine.items())
    parts = [_HEAD.format(full=" FULL=1" if full else "", floors=floors, machine=f"{facts[0].upper()}{facts[1:]}.")]
    for kind in KINDS:
        mine = {row: result for row, result in found.items() if row.kind == kind}
        if mine:
            parts.append(f"### {KINDS[kind]}\n")
            parts.append(_rows(_APPEND, [_append(row, result, stops) for row, result in mine.items()]))
            parts.append(_rows(_LOAD, [_load(row, result) for row, result in mine.items()]))
    return "\n".join(parts).rstrip()


def _rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in (columns, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]]) + "\n"


def _append(row: Row, result: Result | str, stops: Mapping[str, Stop]) -> tuple[str, ...]:
    if isinstance(result, str):
        return (row.title, f"did not work here: {result}", *["–"] * 5)
    ours, floor = result.append, result.floor_append
    return (
        _who(row, result),
        f"{len(ours.runs):,} messages, {result.call}",
        _times(ours, floor),
        f"{ours.median / floor.median:.2f}",
        f"{1 / ours.median:,.0f}",
        growth(result),
        lasting(result, stops.get(row.name)),
    )


def _load(row: Row, result: Result | str) -> tuple[str, ...]:
    if isinstance(result, str):
        return (row.title, f"did not work here: {result}", *["–"] * 4)
    return (
        _who(row, result),
        _times(result.load, result.floor_load),
        f"{result.load.median / result.floor_load.median:.2f}",
        f"{len(result.append.runs):,} messages as {result.objects}",
        f"{result.stored / result.content:.2f}",
        _fork(result),
    )


def _who(row: Row, result: Result) -> str:
    return f"{row.title} ({result.versions})" if result.versions else f"floor: {row.title}"


def _times(ours: Times, floor: Times) -> str:
    return f"{show(ours.median)} : {show(floor.median)}"


def growth(result: Result) -> str:
    """Return the ratio to the floor in the first and last tenth of the appends: the cost of a long conversation."""
    tenth = max(1, len(result.append.runs) // 10)
    parts = (slice(None, tenth), slice(-tenth, None))
    ratios = (
        statistics.median(result.append.runs[part]) / statistics.median(result.floor_append.runs[part])
        for part in parts
    )
    return " → ".join(f"{ratio:.2f}" for ratio in ratios)


def lasting(result: Result, stop: Stop | None) -> str:
    """Return the observed durability in one cell."""
    seen = result.lasting
    said = [f"{seen.verdict} ({seen.syncs:g} {seen.unit}{'s' if seen.syncs != 1 else ''} an append"]
    said[0] += f"; {seen.settings})" if seen.settings else ")"
    if seen.rounds:
        said.append(f"kill -9, {seen.rounds} times: {seen.lost} of {seen.acknowledged} acknowledged lost")
    if stop is not None:
        said.append(f"stop: {stop.lost} of {stop.acknowledged} lost")
    return "; ".join(said)


def _fork(result: Result) -> str:
    if result.fork is None:
        return "it has none"
    return f"{show(result.fork.seconds)}, {result.fork.bytes:,.0f} bytes more; {result.forks}"
