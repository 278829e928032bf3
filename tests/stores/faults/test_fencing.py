"""Law 6, LOG-12: a worker that is stopped past the end of its lease and continued cannot append.

It appends without a pause and is stopped wherever it happens to be. A stopped process is alive, so that its lease
ends by the store's clock alone. Whoever takes the lease then is the only one whose entries stand behind it.
"""

import fcntl
import os
import random
import signal

import pytest

from tests.faults.figures import Figure, store_name
from tests.faults.processes import Child
from tests.stores.faults.children import MODULE
from tests.stores.faults.logs import append_under, made, stale, standing, take, until
from wakelog.ports.stores import Lease, Store
from wakelog.stores import open_store

ROUNDS = 100
UNFENCED_ROUNDS = 5
TTL_S = "0.05"


@pytest.fixture
def store(url):
    """A store with a session."""
    opened = open_store(made(url, "s"))
    yield opened
    opened.close()


def stop_between_appends(worker: Child, lock: str) -> None:
    """Stop a worker where it does not hold the append lock, which others would wait for."""
    worker.stop()
    while lock and not is_free(lock):
        # Stopped again at once, it might never get as far as to let the lock go.
        worker.signal(signal.SIGCONT)
        until(lambda: is_free(lock))
        worker.stop()


def is_free(lock: str) -> bool:
    """Whether the lock of this file is free."""
    descriptor = os.open(lock, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def append_lock(url: str, name: str) -> str:
    """The file that writers lock; none where the server orders them."""
    kind, _, place = url.partition(":")
    return {"jsonl": f"{place}/.locks/{name}.lock", "sqlite": f"{place}-lock"}.get(kind, "")


def overtake(store: Store, worker: Child, lock: str, chance: random.Random) -> Lease:
    """The worker takes the lease and appends, is stopped, loses the lease, and is continued. Return the new lease."""
    worker.tell("take")
    assert worker.hear().startswith("holds")
    for _ in range(chance.randint(1, 4)):
        assert worker.hear().startswith("kept"), "a lease in force must be good for something"
    stop_between_appends(worker, lock)
    until(lambda: store.held("s") is None)
    lease = take(store, "s", "second", ttl_s=600)
    append_under(store, lease, lease.fence)
    worker.signal(signal.SIGCONT)
    return lease


def figure(url: str, planned: int, applied: int, late: int, control: str = "") -> Figure:
    """The figures of a number of rounds."""
    tries, found = (applied, "appends under the old lease"), (late, "stale entries")
    return Figure("worker stopped past the end of its lease", store_name(url), planned, applied, tries, found, control)


def test_a_stopped_worker_cannot_append_one_more_entry(url, store, record):
    """Law 6: 100 rounds of SIGSTOP past the end of the lease and SIGCONT, and not one stale entry."""
    chance, lock = random.Random(4), append_lock(url, store.name("s"))
    overtaken = 0
    with Child("hold", url, "s", TTL_S, module=MODULE) as worker:
        for _ in range(ROUNDS):
            lease = overtake(store, worker, lock, chance)
            # What it had begun before it was stopped may only now be told; nothing it begins now is kept.
            while (said := worker.hear()) != "lost":
                assert int(said.removeprefix("kept ")) < lease.fence
            append_under(store, lease, lease.fence)
            store.release(lease)
            overtaken += 1
    places = standing(url, "s")
    record(figure(url, ROUNDS, overtaken, len(stale(places))))
    taken = [entry.split("-")[0] for entry, _ in places if not entry.startswith("under-")]
    assert taken == ["first", "second"] * ROUNDS
    assert len(places) >= (2 + 1 + 2) * ROUNDS


def test_control_without_the_fence_it_appends(url, store, record):
    """The test above can fail: without the fence, the same worker appends after its successor every time."""
    chance, lock = random.Random(4), append_lock(url, store.name("s"))
    for _ in range(UNFENCED_ROUNDS):
        with Child("hold_unfenced", url, "s", TTL_S, module=MODULE) as worker:
            lease = overtake(store, worker, lock, chance)
            while int(worker.hear().removeprefix("kept ")) < lease.fence:
                pass
            # Killed inside an append it would leave a torn line, behind which `take` cannot append.
            stop_between_appends(worker, lock)
            worker.kill()
            store.release(lease)
    places = standing(url, "s")
    late = {entry.split("-")[1] for entry, _ in stale(places)}
    assert len(late) == UNFENCED_ROUNDS
    record(figure(url, UNFENCED_ROUNDS, UNFENCED_ROUNDS, len(late), control="no fence check"))
