"""Fixtures of the tests of the index."""

import pytest

from tests.stores.catalog.rigs import Rig


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
