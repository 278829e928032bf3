"""Laws 3 and 4: group commit keeps the order of each session, answers each caller, and limits the number of waiters."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from wakelog.errors import Conflict, NotFound, StoreError, UsageError
from wakelog.log.seal import find_seq, unseal
from wakelog.ports.stores import SealedLine, Store
from wakelog.stores.group_commit import GroupCommit
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.memory import MemoryStore
from wakelog.stores.sqlite import SqliteStore
from wakelog.testing.store_rig import body, make


class Gate(MemoryStore):
    """A store whose commits wait until the test lets them through, and that records its groups."""

    def __init__(self):
        super().__init__()
        self.groups = []
        self.begun = threading.Semaphore(0)
        self.open = threading.Semaphore(0)

    def append_all(self, appends):
        self.groups.append([append.session for append in appends])
        self.begun.release()
        self.open.acquire()
        return super().append_all(appends)


@pytest.fixture(params=["memory", "files", "sqlite"])
def store(request, tmp_path):
    opens: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "files": lambda: JsonlStore(str(tmp_path / "store")),
        "sqlite": lambda: SqliteStore(str(tmp_path / "store.db")),
    }
    made = opens[request.param]()
    yield made
    made.close()


def test_every_task_gets_its_own_entry(store):
    """Law 3, LOG-10: 64 tasks; each acknowledged entry exists once, in its session, without a gap."""
    for number in range(64):
        make(store, f"s{number}")

    async def write(group, number):
        after = 0
        for step in range(5):
            sealed = await group.append(f"s{number}", body(f"m{number}-{step}"), after=after)
            assert unseal(sealed.line.raw) == body(f"m{number}-{step}")
            after = sealed.seq

    async def run():
        async with GroupCommit(store) as group:
            await asyncio.gather(*(write(group, number) for number in range(64)))

    asyncio.run(run())
    for number in range(64):
        assert [find_seq(line.raw) for line in store.load(f"s{number}")] == [0, 1, 2, 3, 4, 5]


def test_one_session_keeps_its_order(store):
    """Law 3: appends to one session are written in the order of the calls, without waiting in between."""
    make(store)

    async def run():
        async with GroupCommit(store) as group:
            return await asyncio.gather(*(group.append("s", body(f"m{at}"), after=at) for at in range(20)))

    assert [sealed.seq for sealed in asyncio.run(run())] == list(range(1, 21))


def test_errors_go_to_their_caller(store):
    """LOG-10: a conflict and a missing session affect no other caller."""
    for name in ("a", "b"):
        make(store, name)

    async def run():
        async with GroupCommit(store) as group:
            wanted = [("a", 0), ("a", 7), ("nobody", 0), ("b", 0)]
            tasks = [
                asyncio.create_task(group.append(name, body(f"m-{name}-{after}"), after=after))
                for name, after in wanted
            ]
            await asyncio.wait(tasks)
            return tasks

    first, stale, missing, other = asyncio.run(run())
    assert (first.result().seq, other.result().seq) == (1, 1)
    assert isinstance(stale.exception(), Conflict)
    assert isinstance(missing.exception(), NotFound)


def test_appends_during_a_commit_share_the_next_one():
    """Law 3: the next group gathers while one is being committed."""
    store = Gate()
    for name in "abcd":
        make(store, name)

    async def run():
        async with GroupCommit(store) as group:
            first = asyncio.create_task(group.append("a", body("m1"), after=0))
            await asyncio.to_thread(store.begun.acquire)
            rest = [asyncio.create_task(group.append(name, body("m1"), after=0)) for name in "bcd"]
            await asyncio.sleep(0)
            store.open.release(2)
            await asyncio.gather(first, *rest)

    asyncio.run(run())
    assert store.groups == [["a"], ["b", "c", "d"]]


def test_the_number_of_waiting_appends_is_limited():
    """Back-pressure: with two places, further callers wait until there is room."""
    store = Gate()
    for number in range(9):
        make(store, f"s{number}")

    async def run():
        async with GroupCommit(store, waiting_max=2, group_max=2) as group:
            tasks = [asyncio.create_task(group.append(f"s{number}", body("m1"), after=0)) for number in range(9)]
            await asyncio.to_thread(store.begun.acquire)
            waiting = len(group._waiting)
            store.open.release(9)
            return waiting, await asyncio.gather(*tasks)

    waiting, answers = asyncio.run(run())
    # The first group was at the gate, two waited behind it, the rest could not even ask.
    assert waiting == 2
    assert [sealed.seq for sealed in answers] == [1] * 9
    assert all(len(group) <= 2 for group in store.groups)


def test_a_cancelled_append_is_not_written():
    """A task that is cancelled before the commit has begun; the others are not affected."""
    store = Gate()
    for name in "abc":
        make(store, name)

    async def run():
        async with GroupCommit(store) as group:
            first = asyncio.create_task(group.append("a", body("m1"), after=0))
            await asyncio.to_thread(store.begun.acquire)
            left, stays = (asyncio.create_task(group.append(name, body("m1"), after=0)) for name in "bc")
            await asyncio.sleep(0)
            left.cancel()
            store.open.release(2)
            assert isinstance(await first, SealedLine)
            assert isinstance(await stays, SealedLine)

    asyncio.run(run())
    assert store.groups == [["a"], ["c"]]
    assert len(list(store.load("b"))) == 1


def test_a_failing_commit_raises_in_every_caller():
    """Law 4: whatever happens to a commit, no caller waits for ever, and the next group is tried."""

    class Broken(MemoryStore):
        failures = [StoreError("the disk is on fire"), RuntimeError("a bug"), None]

        def append_all(self, appends):
            if not self.failures:
                return super().append_all(appends)
            failure = self.failures.pop(0)
            if failure is not None:
                raise failure
            # Or it answers fewer than have asked.
            return []

    store = Broken()
    make(store)

    async def run():
        async with GroupCommit(store) as group:
            for error in (StoreError, RuntimeError, ValueError):
                with pytest.raises(error):
                    await group.append("s", body("m1"), after=0)
            return await group.append("s", body("m1"), after=0)

    assert asyncio.run(run()).seq == 1


def test_an_append_outside_of_the_block_is_refused():
    """With an error of one line, instead of a task that never ends."""
    group = GroupCommit(MemoryStore())
    with pytest.raises(UsageError, match="is not open"):
        asyncio.run(group.append("s", body("m1"), after=0))


def test_leaving_the_block_waits_for_all_appends():
    """Law 4."""
    store = MemoryStore()
    make(store)

    async def run():
        async with GroupCommit(store) as group:
            task = asyncio.create_task(group.append("s", body("m1"), after=0))
            await asyncio.sleep(0)
        return task.done()

    assert asyncio.run(run())


def _commit_threads():
    return [thread for thread in threading.enumerate() if thread.name == "wakelog-commit"]


def test_a_cancelled_exit_leaves_no_thread():
    """Law 4: a task that is cancelled while it leaves the block ends the thread when its group is done."""
    store = Gate()
    make(store)

    async def run():
        async with GroupCommit(store) as group:
            asyncio.create_task(group.append("s", body("m1"), after=0))  # noqa: RUF006 - it is not awaited
            await asyncio.to_thread(store.begun.acquire)
            asyncio.current_task().cancel()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    (thread,) = _commit_threads()
    store.open.release()
    thread.join(60)
    assert not thread.is_alive()


def test_waiting_appends_complete_though_the_block_is_cancelled():
    """Law 4: the task that holds the block is cancelled; its appends are written and acknowledged all the same."""
    store = Gate()
    for name in "ab":
        make(store, name)
    handed_in = []

    async def hold():
        async with GroupCommit(store) as group:
            handed_in.append(asyncio.create_task(group.append("a", body("m1"), after=0)))
            await asyncio.to_thread(store.begun.acquire)
            handed_in.append(asyncio.create_task(group.append("b", body("m1"), after=0)))
            await asyncio.sleep(0)
            asyncio.current_task().cancel()

    async def run():
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(hold())
        (thread,) = _commit_threads()
        store.open.release(2)
        answers = await asyncio.gather(*handed_in)
        await asyncio.to_thread(thread.join, 60)
        return answers, thread.is_alive()

    answers, is_alive = asyncio.run(run())
    assert [sealed.seq for sealed in answers] == [1, 1]
    assert not is_alive
