"""Fixtures of the tests with real tools."""

import datetime as dt

import pytest

from tests.loopback import ModelServer
from tests.real_tools import crash_comparison
from tests.real_tools.options import MARK
from tests.real_tools.pinned import PINNED
from tests.real_tools.running import HeldCommand, RealTool

CRASHES = pytest.StashKey[list[crash_comparison.Crash]]()


@pytest.fixture
def record_crash(pytestconfig):
    """Keep the record of a kill for the document."""
    return pytestconfig.stash.setdefault(CRASHES, []).append


def pytest_sessionfinish(session):
    """Write the crash comparison if it was asked for."""
    crashes = session.config.stash.get(CRASHES, [])
    if crashes and session.config.getoption("--write-comparison"):
        crash_comparison.write(crashes, dt.datetime.now(dt.UTC).date())


@pytest.fixture
def pinned(request):
    """The tool that the mark of the test names."""
    return PINNED[request.node.get_closest_marker(MARK).args[0]]


@pytest.fixture
def server(pinned):
    """A scripted model."""
    with ModelServer(without_tools=not pinned.has_tools) as running:
        yield running


@pytest.fixture
def tool(pinned, server, tmp_path):
    """The tool in its own folders; what it started is ended after the test."""
    real = RealTool(pinned, tmp_path / pinned.name, server.url)
    yield real
    real.close()


@pytest.fixture
def held_command(tmp_path):
    """A command that runs until the test lets it end."""
    command = HeldCommand(tmp_path)
    yield command
    command.close()
