"""A store of each kind, and a session in it."""

import pytest

from wakelog.session import Session
from wakelog.stores import open_store


@pytest.fixture(params=["memory", "files", "sqlite", "postgresql"])
def store(request, tmp_path):
    """An empty store of each kind."""
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    else:
        url = {"memory": "memory:", "files": f"{tmp_path}/sessions", "sqlite": f"sqlite:{tmp_path}/s.db"}[request.param]
    opened = open_store(url)
    yield opened
    opened.close()


@pytest.fixture
def session(store):
    """A new session of the agent `bot` and the sender `ada`."""
    with Session.open(store, agent="bot", sender="ada") as opened:
        yield opened
