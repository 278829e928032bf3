"""Fixtures of catalogs: stores whose catalog is in their own database."""

import pytest

from tests.stores.catalog.own_catalogs import InPostgres, InSqlite
from tests.stores.postgres.rig import PostgresRig
from tests.stores.sqlite.test_store import SqliteRig
from wakelog.testing.catalog_rig import CatalogFixture


@pytest.fixture
def in_sqlite(tmp_path):
    """A store whose catalog is in its SQLite file."""
    shelf = CatalogFixture(InSqlite(SqliteRig(tmp_path / "store.db"), f"sqlite:{tmp_path}/store.db"))
    yield shelf
    shelf.store.close()


@pytest.fixture
def in_postgres(postgres_url):
    """A store whose catalog is in its PostgreSQL database."""
    rig = InPostgres(PostgresRig(postgres_url), postgres_url)
    yield CatalogFixture(rig)
    rig.close()


@pytest.fixture(params=["in_sqlite", "in_postgres"])
def own(request):
    """Each of them."""
    return request.getfixturevalue(request.param)
