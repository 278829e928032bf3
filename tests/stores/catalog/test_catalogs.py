"""The catalogs of files, SQLite and PostgreSQL pass the suite; the tests below it are about a single store.

Laws 2 and 12, ST-4, ST-5. The catalog of the memory store is in `tests/stores/test_memory.py`.
"""

import pytest

from tests.stores.jsonl.test_store import JsonlRig
from tests.stores.postgres.rig import PostgresRig
from tests.stores.sqlite.test_store import SqliteRig
from wakelog.stores import open_catalog
from wakelog.testing.catalog_suite import CatalogSuite


class Cataloged:
    """A rig of a store, with its catalog."""

    def __init__(self, rig, url):
        self.rig = rig
        self.url = url

    def catalog(self, store):
        return open_catalog(self.url, store)

    def __getattr__(self, name):
        return getattr(self.rig, name)


class TestOfFiles(CatalogSuite):
    @pytest.fixture
    def rig(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        return Cataloged(JsonlRig(tmp_path / "store"), str(tmp_path / "store"))


class TestOfSqlite(CatalogSuite):
    @pytest.fixture
    def rig(self, tmp_path):
        return Cataloged(SqliteRig(tmp_path / "store.db"), f"sqlite:{tmp_path}/store.db")


class TestOfPostgres(CatalogSuite):
    @pytest.fixture
    def rig(self, postgres_url):
        rig = PostgresRig(postgres_url)
        yield Cataloged(rig, postgres_url)
        rig.close()


class TestThroughAPooler(CatalogSuite):
    """Settings that one transaction leaves in a connection may be met by another client."""

    @pytest.fixture
    def rig(self, pgbouncer_url, postgres_url):
        url = f"{pgbouncer_url}?pooler=transaction"
        rig = PostgresRig(url, direct=postgres_url)
        yield Cataloged(rig, url)
        rig.close()
