"""The memory store, the reference, passes the suite."""

import pytest

from wakelog.stores.memory import MemoryStore
from wakelog.testing.store_suite import StoreSuite


class MemoryRig:
    def __init__(self):
        self.now = 0.0
        self.store = MemoryStore(now=lambda: self.now)

    def again(self):
        return self.store

    def advance(self, seconds):
        self.now += seconds

    def plant(self, session, raw):
        self.store.plant(session, raw)

    def files(self, session):
        return ()

    def corrupt(self, session, old, new):
        name = self.store.name(session)
        self.store.replace(session, name, b"".join(line.bytes for line in self.store.load(name)).replace(old, new))


class TestMemoryStore(StoreSuite):
    @pytest.fixture
    def rig(self):
        return MemoryRig()
