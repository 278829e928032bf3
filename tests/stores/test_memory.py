"""The memory store, the reference: it passes the suites of stores, blobs and catalogs.

A rig gives a suite what a store cannot do itself: time that passes, a second store on the same data, damage.
"""

import pytest

from wakelog.stores import open_catalog
from wakelog.stores.memory import MemoryStore
from wakelog.testing.blob_suite import BlobSuite
from wakelog.testing.catalog_suite import CatalogSuite
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

    def catalog(self, store):
        return open_catalog("memory:", store)

    def corrupt(self, session, old, new):
        name = self.store.name(session)
        self.store.replace(session, name, b"".join(line.bytes for line in self.store.load(name)).replace(old, new))


class TestMemoryStore(StoreSuite):
    @pytest.fixture
    def rig(self):
        return MemoryRig()


class MemoryBlobRig:
    def __init__(self):
        self.blobs = MemoryStore().blobs

    def again(self):
        return self.blobs

    def age(self, digest, seconds):
        self.blobs._kept[digest].put_at -= seconds

    def replace(self, digest, content):
        self.blobs._kept[digest].content = content


class TestMemoryBlobs(BlobSuite):
    @pytest.fixture
    def rig(self):
        return MemoryBlobRig()


class TestMemoryCatalog(CatalogSuite):
    @pytest.fixture
    def rig(self):
        return MemoryRig()
