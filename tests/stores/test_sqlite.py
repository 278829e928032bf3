"""The SQLite store passes the suites; what is its own (one file, its modes, its schema) is shown below them."""

import re

import pytest

from wakelog.stores.sqlite import SqliteStore
from wakelog.testing.blob_suite import BlobSuite
from wakelog.testing.store_suite import StoreSuite


class SqliteRig:
    def __init__(self, path):
        self.now = 1000.0
        self.path = str(path)
        self.store = self.again()

    def again(self):
        return SqliteStore(self.path, now=lambda: self.now)

    def advance(self, seconds):
        self.now += seconds

    def plant(self, session, raw):
        """Rows as a stranger would add them: bytes and nothing derived."""
        with self.store.file.writing() as db:
            key, rows, size = db.execute("SELECT key, rows, size FROM logs WHERE id = ?", (session,)).fetchone()
            for line in re.findall(rb"[^\n]*\n|[^\n]+", raw):
                rows, size = rows + 1, size + len(line)
                db.execute(
                    "INSERT INTO lines (session, number, size, bytes) VALUES (?, ?, ?, ?)", (key, rows, size, line)
                )
            db.execute("UPDATE logs SET rows = ?, size = ? WHERE key = ?", (rows, size, key))

    def hurt(self, session, old, new):
        with self.store.file.writing() as db:
            for key, raw in db.execute("SELECT key, bytes FROM lines").fetchall():
                db.execute("UPDATE lines SET bytes = ? WHERE key = ?", (raw.replace(old, new), key))


class TestSqliteStore(StoreSuite):
    @pytest.fixture
    def rig(self, tmp_path):
        return SqliteRig(tmp_path / "store.db")


class SqliteBlobRig:
    def __init__(self, path):
        self.path = str(path)
        self.store = SqliteStore(self.path)
        self.blobs = self.store.blobs

    def again(self):
        return SqliteStore(self.path).blobs

    def age(self, digest, seconds):
        with self.store.file.writing() as db:
            db.execute("UPDATE blobs SET put_s = put_s - ? WHERE digest = ?", (seconds, digest))

    def replace(self, digest, content):
        with self.store.file.writing() as db:
            db.execute("UPDATE blobs SET bytes = ? WHERE digest = ?", (content, digest))


class TestSqliteBlobs(BlobSuite):
    @pytest.fixture
    def rig(self, tmp_path):
        return SqliteBlobRig(tmp_path / "store.db")
