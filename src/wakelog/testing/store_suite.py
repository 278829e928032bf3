"""Conformance suite for stores. Subclass it in a test class with one fixture, `rig` (see `store_rig.Rig`).

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def rig(self): ...

Each test names the law or requirement it covers. Power loss, killed processes and full disks are covered by separate
tests of each store.
"""

from collections.abc import Iterator

import pytest

from wakelog.ports import Store
from wakelog.testing.custody_suite import CustodySuite
from wakelog.testing.ending_suite import EndingSuite
from wakelog.testing.history_suite import HistorySuite
from wakelog.testing.identity_suite import IdentitySuite
from wakelog.testing.lease_suite import LeaseSuite
from wakelog.testing.log_suite import LogSuite
from wakelog.testing.moving_suite import MovingSuite
from wakelog.testing.store_rig import Rig, body, make

__all__ = ["StoreSuite", "body", "make"]


class StoreSuite(LogSuite, IdentitySuite, LeaseSuite, EndingSuite, MovingSuite, HistorySuite, CustodySuite):
    """Subclass it and provide a `rig` fixture."""

    @pytest.fixture
    def store(self, rig: Rig) -> Iterator[Store]:
        """The store under test."""
        yield rig.store
        rig.store.close()
