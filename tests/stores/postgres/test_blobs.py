"""Blobs in PostgreSQL pass the suite."""

import pytest

from tests.stores.postgres.rig import PostgresRig
from wakelog.log.ids import digest_of
from wakelog.testing.blob_suite import BlobSuite, digests


class BlobsRig:
    def __init__(self, rig):
        self._rig = rig
        self.blobs = rig.store.blobs

    def again(self):
        return self._rig.again().blobs

    def age(self, digest, seconds):
        words = "UPDATE wakelog.blobs SET put = put - %(by)s * interval '1 second' WHERE digest = %(digest)s"
        self._rig.run(words, digest=digest, by=seconds)

    def replace(self, digest, content):
        self._rig.run("UPDATE wakelog.blobs SET bytes = %(raw)s WHERE digest = %(digest)s", digest=digest, raw=content)


@pytest.fixture
def database(postgres_url):
    rig = PostgresRig(postgres_url)
    yield rig
    rig.close()


class TestPostgresBlobs(BlobSuite):
    @pytest.fixture
    def rig(self, database):
        return BlobsRig(database)


def test_reading_creates_nothing(database):
    """Law 9: reading blobs in an empty database, or collecting garbage, leaves it empty."""
    blobs = database.store.blobs
    assert digests(blobs) == []
    assert not blobs.remove(digest_of(b"x"), older_than_s=0)
    assert database.run("SELECT to_regnamespace('wakelog')") == [(None,)]


def test_a_listing_is_fetched_in_pieces(database, monkeypatch):
    """LOG-12: every blob is listed once, however many there are."""
    monkeypatch.setattr("wakelog.stores.postgres.tables._BLOBS_PAGE_MAX", 3)
    put = [database.store.blobs.put(b"%d" % number).digest for number in range(10)]
    assert digests(database.store.blobs) == sorted(put)


def test_putting_again_writes_only_the_time(database):
    """LOG-12: existing bytes are not stored a second time."""
    blobs = database.store.blobs
    blobs.put(bytes(range(256)) * 4_000)
    grown = "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE relname LIKE 'blobs\\__'"
    before = database.run(grown)
    for _ in range(5):
        blobs.put(bytes(range(256)) * 4_000)
    assert database.run(grown) == before
