"""Settings and fixtures of all tests.

In CI, property tests draw the same examples in every run; elsewhere they explore. Every session that is woken in the
process of a test is replayed when the test is over (law 11). Real servers come from `tests/servers/fixtures.py`.
Signals that the shell ignores have their default effect in children of a test.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.replays import Woken
from tests.signals import let_children_begin_with_defaults
from wakelog.runtime.lease import hold_lease

pytest_plugins = ["tests.servers.fixtures", "tests.faults.figures", "tests.real_tools.options"]

let_children_begin_with_defaults()
# Without deadlines, and without the check that examples are made quickly: no result depends on how long something
# takes, and other work may run on the same machine.
_UNTIMED = settings(print_blob=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", _UNTIMED, derandomize=True)
settings.register_profile("home", _UNTIMED)
settings.load_profile("ci" if os.environ.get("CI") else "home")


def pytest_collection_modifyitems(items):
    """Start the longest tests first, so that the end of a run does not wait for one of them."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(autouse=True)
def _replay_woken_sessions(request, monkeypatch):
    # Tests of the laws draw hundreds of sessions each, and replay the ones they need.
    """Replay every session that the test woke: the same log must come out (law 11)."""
    if request.node.get_closest_marker("meddled") is not None or "tests/laws/" in str(request.node.path):
        yield
        return
    woken = Woken(hold_lease)
    monkeypatch.setattr("wakelog.runtime.wake.hold_lease", woken)
    yield
    woken.replay()
