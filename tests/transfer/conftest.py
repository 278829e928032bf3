"""Stores for the tests of copying."""

import pytest

from tests.transfer.rigs import Stores


@pytest.fixture
def stores(tmp_path, request):
    """Makes empty stores of any kind."""
    made = Stores(tmp_path, request)
    yield made
    made.close()
