"""The memory blobs, the reference, pass the suite."""

import pytest

from wakelog.stores.memory import MemoryStore
from wakelog.testing.blob_suite import BlobSuite


class MemoryRig:
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
        return MemoryRig()
