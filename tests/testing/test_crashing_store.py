"""`CrashingStore`: conforms to the suite until its crash (law 12), and refuses every call afterwards."""

import pytest

from wakelog.stores.memory import MemoryStore
from wakelog.testing.crashing_store import CrashingStore, SimulatedCrash
from wakelog.testing.store_rig import body, make
from wakelog.testing.store_suite import StoreSuite


class DyingRig:
    def __init__(self):
        self.now = 0.0
        self.under = MemoryStore(now=lambda: self.now)
        self.store = CrashingStore(self.under)

    def again(self):
        return CrashingStore(self.under)

    def advance(self, seconds):
        self.now += seconds

    def plant(self, session, raw):
        self.under.plant(session, raw)

    def files(self, session):
        return ()

    def corrupt(self, session, old, new):
        name = self.under.name(session)
        self.under.replace(session, name, b"".join(line.bytes for line in self.under.load(name)).replace(old, new))


class TestDyingStore(StoreSuite):
    @pytest.fixture
    def rig(self):
        return DyingRig()


@pytest.mark.parametrize(("after", "lines"), [(False, 1), (True, 2)])
def test_it_crashes_before_or_after_its_write(after, lines):
    """Law 4: a completed write stays, another one is not there, and the caller learns neither."""
    under = MemoryStore()
    store = CrashingStore(under, dies_at=1, after=after)
    make(store)
    with pytest.raises(SimulatedCrash):
        store.append("s", body("a"), after=0)
    assert len(list(under.load("s"))) == lines
    assert store.life.is_over


def test_every_call_after_the_crash_is_refused():
    """Reading and writing are refused; `close` does not close the inner store."""
    under = MemoryStore()
    store = CrashingStore(under)
    make(store)
    with pytest.raises(SimulatedCrash):
        store.life.end()
    for use in (
        lambda: store.load("s"),
        lambda: store.tail("s"),
        lambda: store.name("s"),
        lambda: store.held("s"),
        store.sessions,
        lambda: store.journals("s"),
        lambda: store.journal("s", "r", b"x"),
        lambda: store.drop("s", "r"),
        lambda: store.append("s", body("a"), after=0),
        lambda: store.blobs.put(b"x"),
        store.blobs.stored,
    ):
        with pytest.raises(SimulatedCrash):
            use()
    store.close()
    assert len(list(under.load("s"))) == 1


def test_a_simulated_crash_is_not_an_exception_of_the_outside_world():
    """Code that catches failures of the outside world does not catch it."""
    assert not issubclass(SimulatedCrash, Exception)
