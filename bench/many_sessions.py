"""Many sessions of one process at once, beside one: appends of threads, and runs of an agent in threads.

Each thread waits for its own entry before it appends the next. What threads can gain is limited by the work that needs
the interpreter, so the CPU time of an entry is given too: threads cannot be faster than that.
"""

import asyncio
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from bench.drivers import Driver
from bench.made import Words
from bench.measure import Figure, show, take_turns
from wakelog.app.agent import Agent
from wakelog.log.content import Reply, Text
from wakelog.log.entry import Message
from wakelog.ports.stores import Store
from wakelog.providers.scripted import ScriptedProvider
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore

SIZE = 1_000
RATES = 5
COUNTS = (8, 64)
MOST = 64
ENTRIES = 640
# How many times the rate of one session 64 sessions at once must reach; for SQLite the second one where a sync is slow.
GOALS = {"files": (3.0, 3.0), "SQLite": (5.0, 8.0), "PostgreSQL": (4.0, 4.0)}
SLOW_SYNC_S = 0.0005
# The bytes that an entry adds to its text: id, parent, time, seal.
ENVELOPE = 320


def appending(name: str, store: Store, bare: Driver, words: Words) -> Iterator[Figure]:
    """Durable appends through `Session.append`, a thread a session.

    Beside the 64 stands what the bare driver makes of as many lines at once, without threads that wait.
    """
    sessions = [Session.create(store, agent="many", sender=f"many{number}") for number in range(MOST)]
    acts = [_append(session, words.text(SIZE)) for session in sessions]
    rates: dict[int, list[tuple[float, float]]] = {count: [] for count in (1, *COUNTS)}
    of_bare: list[tuple[float, float]] = []
    for turn in range(RATES):
        for count, rate in rates.items():
            rate.append(a_second(acts[:count], each=max(10, ENTRIES // count if count > 1 else ENTRIES // 8)))
        of_bare.append(_bare(bare, words.text(SIZE), first=10 * turn))
    one = statistics.median(rate for rate, _ in rates[1])
    bare_many, bare_one = (statistics.median(rate) for rate in zip(*of_bare, strict=True))
    for count in COUNTS:
        beside = f"; bare: {bare_many:,.0f} : {bare_one:,.0f}, {bare_many / bare_one:.1f}" if count == MOST else ""
        limit = GOALS[name][1 / bare_one >= SLOW_SYNC_S] if count == MOST else None
        yield _appended(name, count, rates[count], one, beside, limit)


def appending_by_filesystem(folder: str, words: Words) -> Figure:
    """64 sessions as files, and one sync of the whole file system for all of them."""
    store = JsonlStore(os.path.join(folder, "whole"), sync="filesystem")
    acts = [_append(Session.create(store, agent=f"w{at}"), words.text(SIZE)) for at in range(MOST)]
    alone: list[float] = []
    many: list[tuple[float, float]] = []
    for _ in range(RATES):
        alone.append(a_second(acts[:1], each=ENTRIES // 8)[0])
        many.append(a_second(acts, each=ENTRIES // MOST))
    store.close()
    beside = '; with `sync="filesystem"`'
    return _appended("files", MOST, many, statistics.median(alone), beside, GOALS["files"][0])


def _appended(
    name: str, count: int, rates: Sequence[tuple[float, float]], one: float, beside: str, limit: float | None
) -> Figure:
    many, cpu = (statistics.median(rate) for rate in zip(*rates, strict=True))
    return Figure(
        group=f"Stores: {name}",
        what=f"{count} sessions appending at once",
        workload="a thread a session, durable appends through `Session.append`",
        floor="one session, one thread",
        goal=f"≥ {limit:g} ×" if limit else "",
        ratio=many / one,
        limit=limit,
        at_least=True,
        measured=f"{many:,.0f} : {one:,.0f} entries a second ({show(cpu)} CPU an entry{beside})",
    )


def running(name: str, store: Store, words: Words) -> Figure:
    """Turns of an agent with a scripted model: 64 sessions in threads, in one event loop, and one after the other."""
    replies = [{"text": words.text(SIZE), "deltaChars": SIZE} for _ in range(4 * RATES + 10)]
    agent = Agent(model="scripted:many", name="many-runs", provider=ScriptedProvider(replies))
    sessions = [agent.begin(store, sender=f"runs{number}").name for number in range(MOST)]
    acts = [_run(agent, store, session) for session in sessions]
    in_loop: list[float] = []
    alone: list[float] = []

    async def tasks() -> None:
        await asyncio.gather(*(agent.run(store, "And now?", session=session) for session in sessions))

    def one_by_one() -> None:
        for act in acts:
            act()

    many: list[tuple[float, float]] = []
    for _ in range(RATES):
        many.append(a_second(acts, each=1))
        taken = take_turns({"loop": lambda: asyncio.run(tasks()), "one": one_by_one}, rounds=1, warm_up=0)
        in_loop.append(MOST / taken["loop"].median)
        alone.append(MOST / taken["one"].median)
    rate, cpu = (statistics.median(values) for values in zip(*many, strict=True))
    loop, one = statistics.median(in_loop), statistics.median(alone)
    return Figure(
        group=f"Stores: {name}",
        what=f"{MOST} sessions running at once",
        workload="a thread a session, turns with a scripted model through `agent.run_sync`",
        floor="the same turns as tasks of one event loop",
        goal="",
        ratio=rate / loop,
        limit=None,
        at_least=True,
        measured=f"{rate:,.0f} : {loop:,.0f} turns a second ({show(cpu)} CPU a turn; one after the other: {one:,.0f})",
    )


def _append(session: Session, text: str) -> Callable[[], object]:
    body = Message(message=Reply(content=(Text(text=text),)))
    return lambda: session.append(body)


def _run(agent: Agent, store: Store, session: str) -> Callable[[], object]:
    return lambda: agent.run_sync(store, "And now?", session=session)


def _bare(bare: Driver, text: str, *, first: int) -> tuple[float, float]:
    """Return the rates of the driver with a line of each session at once, and with one line after the other."""
    line = text.encode() + b" " * ENVELOPE + b"\n"
    start = time.perf_counter()
    for seq in range(first, first + 10):
        bare.append_all([(f"many{number}", seq, line) for number in range(MOST)])
    together = time.perf_counter()
    for number in range(MOST):
        bare.append("alone", first * MOST + number, line)
    end = time.perf_counter()
    return 10 * MOST / (together - start), MOST / (end - together)


def a_second(acts: Sequence[Callable[[], object]], *, each: int) -> tuple[float, float]:
    """Return how often per second the acts are done, each in a thread of its own, and the CPU time of one."""
    gate = threading.Barrier(len(acts) + 1)
    failed: list[BaseException] = []

    def work(act: Callable[[], object]) -> None:
        gate.wait()
        try:
            for _ in range(each):
                act()
        except Exception as error:  # noqa: BLE001 - raised below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    gate.wait()
    start, used = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    count = len(acts) * each
    return count / (time.perf_counter() - start), (time.process_time() - used) / count
