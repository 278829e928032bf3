"""Fixtures with real servers: `postgres`, `postgres_url`, `own_postgres`, `pgbouncer`, `pgbouncer_url`.

Nothing starts before the first test that asks. The workers of one run share one server; whatever a test stops or
kills is its own. A server that cannot be had fails the test with one line.
"""

import os
from collections.abc import Iterator

import pytest

from tests.servers.pgbouncer import Pgbouncer, pooling
from tests.servers.place import Place, Unavailable
from tests.servers.postgres import Server, own_server, shared_server


@pytest.fixture(scope="session")
def servers(request) -> Place:
    """The server folder of this run: it belongs to the process that collects the results, not to one of its workers."""
    try:
        return Place(os.getppid() if hasattr(request.config, "workerinput") else os.getpid())
    except Unavailable as why:
        pytest.fail(str(why), pytrace=False)


@pytest.fixture(scope="session")
def postgres(servers) -> Server:
    """The server of the whole run, shared by its workers: for databases, not for stopping."""
    try:
        return shared_server(servers)
    except Unavailable as why:
        pytest.fail(str(why), pytrace=False)


@pytest.fixture
def postgres_url(postgres) -> Iterator[str]:
    """The URL of an empty database, dropped after the test."""
    url = postgres.new_database()
    yield url
    postgres.drop(url)


@pytest.fixture
def own_postgres(servers) -> Iterator[Server]:
    """A durable server for this test alone, which may be stopped, started and killed."""
    try:
        with own_server(servers) as server:
            yield server
    except Unavailable as why:
        pytest.fail(str(why), pytrace=False)


@pytest.fixture(scope="session")
def pgbouncer(servers, postgres) -> Iterator[Pgbouncer]:
    """A pgbouncer in transaction mode in front of `postgres`, one per worker."""
    try:
        with pooling(servers, postgres.url()) as pool:
            yield pool
    except Unavailable as why:
        pytest.fail(str(why), pytrace=False)


@pytest.fixture
def pgbouncer_url(pgbouncer, postgres_url) -> str:
    """The database of `postgres_url`, through pgbouncer."""
    return str(pgbouncer.url(postgres_url))
