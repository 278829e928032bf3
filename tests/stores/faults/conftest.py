"""The stores under test, each as a URL at which nothing exists yet."""

import pytest

KINDS = ("files", "sqlite", "postgresql")


@pytest.fixture(params=KINDS)
def url(request, tmp_path) -> str:
    """A store of each persistent kind. It is empty; the first writer creates it."""
    if request.param == "postgresql":
        found: str = request.getfixturevalue("postgres_url")
        return found
    return f"jsonl:{tmp_path}/store" if request.param == "files" else f"sqlite:{tmp_path}/store.db"


@pytest.fixture
def sqlite_url(tmp_path) -> str:
    """A SQLite store of its own."""
    return f"sqlite:{tmp_path}/store.db"
