"""Conformance suite for catalogs. Subclass it in a test class with one fixture, `rig` (see `catalog_rig`).

    class TestMyCatalog(CatalogSuite):
        @pytest.fixture
        def rig(self): ...

Each test names the law or requirement it covers. The derived data is compared with a newly built index after each
refresh.
"""

from collections.abc import Iterator

import pytest

from wakelog.testing.catalog_rig import CatalogFixture, CatalogRig
from wakelog.testing.listing_suite import ListingSuite
from wakelog.testing.searching_suite import SearchingSuite


class CatalogSuite(ListingSuite, SearchingSuite):
    """Subclass it and provide a `rig` fixture."""

    @pytest.fixture
    def shelf(self, rig: CatalogRig) -> Iterator[CatalogFixture]:
        """A store with its catalog."""
        made = CatalogFixture(rig)
        yield made
        made.catalog.close()
        rig.store.close()
