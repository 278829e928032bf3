"""`python -m bench.peers.one NAME PLACES OUT COUNT ROUNDS`: one peer, in a process that loads no other.

Appends and loads alternate with the floor of the same kind. All figures go to the file OUT as JSON. PLACES is a JSON
list of empty places: for the peer, for its floor, for the watched appends, and one for each kill.
"""

import gc
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version

import msgspec

from bench.measure import Times
from bench.peers.hand import Writer, count_kept
from bench.peers.peer import FLOORS, Peer, Row, make, row
from bench.peers.tracing import trace
from bench.peers.watching import watch
from bench.peers.work import messages, stored

_WATCHED = 25
_FORKS = 5
_LOADS = 15
# The number of acknowledgements before the kill: at least so many, and up to so many more.
_KILL_AFTER = 10
_KILL_WITHIN = 30
# The exit status when the peer's library is missing; its name is on standard error.
NOT_INSTALLED = 69


class Lasting(msgspec.Struct, frozen=True):
    """The observed durability of a peer. `lost` counts acknowledged messages that were gone after kill -9."""

    syncs: float
    unit: str
    verdict: str
    settings: str
    rounds: int
    acknowledged: int
    lost: int


class Branching(msgspec.Struct, frozen=True):
    """A branch from the middle with one message: the time, and the bytes that it added to the storage."""

    seconds: float
    bytes: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one peer. Runs are in the order they were taken."""

    name: str
    versions: str
    call: str
    objects: str
    forks: str
    append: Times
    floor_append: Times
    load: Times
    floor_load: Times
    content: int
    stored: int
    fork: Branching | None
    lasting: Lasting


def measure(of: Row, places: Sequence[str], count: int, rounds: int) -> Result:
    """Measure one peer."""
    place, floor_place, watched, *killed = places
    texts = messages(count)
    peer, floor = make(of), make(FLOORS[of.kind])
    peer.open(place)
    floor.open(floor_place)
    empty = stored(of.kind, place)
    append, floor_append = _in_turns(texts, peer.append, floor.append)
    size = stored(of.kind, place)
    load, floor_load = _load(of, place, floor, texts)
    floor.close()
    fork = _fork(peer, of, place, size) if peer.forks else None
    peer.close()
    return Result(
        name=of.name,
        versions=", ".join(f"{package} {version(package)}" for package in peer.packages),
        call=peer.call,
        objects=peer.objects,
        forks=peer.forks,
        append=append,
        floor_append=floor_append,
        load=load,
        floor_load=floor_load,
        content=sum(len(text.encode()) for text in texts),
        stored=size - empty,
        fork=fork,
        lasting=_last(of, watched, killed[:rounds]),
    )


def _in_turns(texts: Sequence[str], *acts: Callable[[str], object]) -> tuple[Times, ...]:
    """Run every act with every text, in an order that rotates."""
    taken: list[list[float]] = [[] for _ in acts]
    for number, text in enumerate(texts):
        for step in range(len(acts)):
            which = (number + step) % len(acts)
            start = time.perf_counter()
            acts[which](text)
            taken[which].append(time.perf_counter() - start)
    return tuple(Times(tuple(runs)) for runs in taken)


def _fork(peer: Peer, of: Row, place: str, size: int) -> Branching:
    runs = _in_turns(["another way"] * _FORKS, peer.fork)[0]
    return Branching(runs.median, (stored(of.kind, place) - size) / _FORKS)


def _load(of: Row, place: str, floor: Peer, texts: Sequence[str]) -> tuple[Times, ...]:
    """Time loads by a peer that was opened again and has nothing in memory."""
    peer = make(of)
    peer.open(place)
    if peer.texts(peer.load()) != list(texts):
        raise AssertionError("what was read back is not what was said")
    gc.collect()
    taken = _in_turns([""] * _LOADS, lambda _: peer.load(), lambda _: floor.load())
    peer.close()
    return taken


def _last(of: Row, watched: str, killed: Sequence[str]) -> Lasting:
    """Return the observed durability: watched at each append, and after kill -9."""
    if of.kind == "postgresql":
        peer = make(of)
        peer.open(watched)
        settings = peer.settings()
        seen = watch(peer, watched, messages(_WATCHED))
        peer.close()
        found = (seen.transactions, "transaction", seen.verdict)
    else:
        traced = trace(of, watched, _WATCHED)
        peer = make(of)
        peer.open(watched)
        settings = peer.settings()
        peer.close()
        found = (traced.syncs, "sync", traced.verdict)
    outcomes = [_kill(of, place) for place in killed]
    acknowledged, lost = (sum(column) for column in zip(*outcomes, strict=True)) if outcomes else (0, 0)
    return Lasting(*found, settings, len(outcomes), acknowledged, lost)


def _kill(of: Row, place: str) -> tuple[int, int]:
    """Kill a writer during its appends; return how many messages it acknowledged, and how many are gone."""
    everything = 2_000
    writer = Writer(of, place, everything)
    writer.start()
    writer.wait_for(_KILL_AFTER + random.randrange(_KILL_WITHIN))
    acknowledged = writer.kill()
    return acknowledged, max(0, acknowledged - count_kept(of, place, everything))


if __name__ == "__main__":
    _, name, places, out, count, rounds = sys.argv
    try:
        result = measure(row(name), msgspec.json.decode(places), int(count), int(rounds))
    except ModuleNotFoundError as missing:
        print(missing.name, file=sys.stderr)
        sys.exit(NOT_INSTALLED)
    with open(f"{out}.new", "wb") as file:
        file.write(msgspec.json.encode(result))
    os.rename(f"{out}.new", out)
