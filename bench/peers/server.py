"""The PostgreSQL server that the peers are measured on: the one of the tests, with durability turned on."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence

from bench.peers.hand import Writer, count_kept_apart
from bench.peers.peer import Row
from bench.peers.table import Stop
from tests.servers.place import Place
from tests.servers.postgres import Server, own_server

# Messages of each peer before the server is stopped, and in all; no peer appends all of them before the stop.
_STOP_AFTER = 40
_EVERYTHING = 5_000


@contextlib.contextmanager
def durable_server() -> Iterator[Server]:
    """Start a server; it is removed at the end."""
    with own_server(Place(os.getpid())) as server:
        yield server


def version_of(server: Server) -> str:
    """Return the server's version."""
    with server.connect() as connection:
        (version,) = connection.execute("SHOW server_version").fetchone() or ("unknown",)
        return str(version)


def stop_amid(server: Server, rows: Sequence[Row]) -> Mapping[str, Stop]:
    """Stop the server while all peers append, start it again, and count the messages of each."""
    places = {row: server.new_database() for row in rows}
    writers = {row: Writer(row, place, _EVERYTHING) for row, place in places.items()}
    for writer in writers.values():
        writer.wait_until_open()
    for writer in writers.values():
        writer.start()
    for writer in writers.values():
        writer.wait_for(_STOP_AFTER)
    server.stop(immediate=True)
    # Some peers would try to reach the server for minutes.
    acknowledged = {row: writer.kill() for row, writer in writers.items()}
    server.start()
    return {row.name: _count(row, places[row], acknowledged[row]) for row in rows}


def _count(row: Row, place: str, acknowledged: int) -> Stop:
    return Stop(acknowledged, max(0, acknowledged - count_kept_apart(row, place, _EVERYTHING)))
