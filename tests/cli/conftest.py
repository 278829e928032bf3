"""Ways to run the command line: in this process, as a real one, and on a real terminal."""

import asyncio
import json

import pytest

from tests.cli.running import Shell
from wakelog.errors import WakelogError
from wakelog.log.proof import prove
from wakelog.reading import read_log
from wakelog.replaying.verifying import replay
from wakelog.stores.jsonl import JsonlStore
from wakelog.testing.builders import Story


@pytest.fixture
def shell(tmp_path, monkeypatch, request):
    """A command line with a store, a cache and a folder of its own. What it made can be replayed at the end."""
    made = Shell(tmp_path, monkeypatch)
    yield made
    if made.store.exists() and request.node.get_closest_marker("meddled") is None:
        _everything_replays(JsonlStore(str(made.store)))


def _everything_replays(store):
    """Law 11, for every session that a test has made; what it damaged on purpose is no longer what was written."""
    for stat in list(store.sessions()):
        try:
            whole = not read_log(store, stat.name).damage and not prove(store.load(stat.name)).broken
        except WakelogError:
            continue
        again = asyncio.run(replay(store, stat.name)) if whole else None
        assert again is None or again.ok, (stat.name, again.reason, again.parted and again.parted.recorded)


@pytest.fixture
def store(shell):
    """The store that the command line uses."""
    opened = JsonlStore(str(shell.store))
    yield opened
    opened.close()


@pytest.fixture
def story(store):
    """A session `crab_user_1` to write into."""
    return Story(store)


@pytest.fixture
def script(shell):
    """Writes a script of replies; gives what to say for it as a model."""

    def write(*replies, name="script.jsonl"):
        path = shell.folder / name
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        return f"scripted:{path}"

    return write
