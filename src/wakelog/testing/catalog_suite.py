"""The suite every catalog must pass. A store's own test file is a class with one fixture, `rig` (see `catalog_rig`).

    class TestMyCatalog(CatalogSuite):
        @pytest.fixture
        def rig(self): ...

Each test names the law or requirement it defends. What is derived is judged by what building it anew gives, so a
catalog can only be wrong by being out of date, and then it says so by reading.
"""

from collections.abc import Iterator

import pytest

from wakelog.testing.catalog_rig import CatalogRig, Shelf
from wakelog.testing.listing_suite import ListingSuite
from wakelog.testing.searching_suite import SearchingSuite


class CatalogSuite(ListingSuite, SearchingSuite):
    """Subclass it and give it a `rig` fixture."""

    @pytest.fixture
    def shelf(self, rig: CatalogRig) -> Iterator[Shelf]:
        """A store with its catalog."""
        made = Shelf(rig)
        yield made
        made.catalog.close()
        rig.store.close()
