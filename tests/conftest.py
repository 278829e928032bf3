"""What holds for all tests: in CI the random ones draw the same examples every time; at home they explore.

And every session that is woken in the process of a test is replayed when the test is over (law 11).
Real servers come from `tests/servers/fixtures.py`. Signals that the shell ignores are default in children of a test.
"""

import os

import pytest
from hypothesis import settings

from tests.replays import Woken
from tests.signals import let_children_begin_with_defaults
from wakelog.runtime.lease import hold_lease

pytest_plugins = ["tests.servers.fixtures", "tests.faults.figures"]

let_children_begin_with_defaults()
# Without deadlines: how long something takes is no matter of right or wrong, and other work may run beside it.
settings.register_profile("ci", derandomize=True, print_blob=True, deadline=None)
settings.register_profile("home", print_blob=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "home")


def pytest_collection_modifyitems(items):
    """The longest tests begin first: then the end of a run does not wait for one of them."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(autouse=True)
def _what_was_written_can_be_written_again(request, monkeypatch):
    # The laws draw hundreds of sessions for one test, and replay those they mean to.
    if request.node.get_closest_marker("meddled") is not None or "tests/laws/" in str(request.node.path):
        yield
        return
    woken = Woken(hold_lease)
    monkeypatch.setattr("wakelog.runtime.wake.hold_lease", woken)
    yield
    woken.replay()
