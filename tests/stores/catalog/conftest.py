"""Fixtures of catalogs: stores whose catalog is in their own database, and rigs of the index."""

import pytest

from tests.stores.catalog.own_catalogs import InPostgres, InSqlite
from tests.stores.catalog.rigs import Rig
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


@pytest.fixture
def index_rig(tmp_path):
    """A rig of its own for each test."""
    made = Rig(tmp_path)
    yield made
    made.index.close()


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder for examples that make their own folders in it: hypothesis runs many in one test."""
    return tmp_path_factory.mktemp("index")
