"""A real pgbouncer in transaction mode: between two transactions a client may get another server connection.

The pool of each database is smaller than the number of clients that tests have, so that connections do change
hands; who waits for one too long fails instead of hanging. Everything else is pgbouncer's default, as a store
would find it.
"""

import contextlib
import os
import select
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit, urlunsplit

from tests.servers.place import Place, Unavailable, free_port

POOL_SIZE = 2
STARTS_MAX = 20
PATIENCE_S = 600
SEARCHED = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
CONFIGURATION = """
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = {auth}
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {pool}
query_wait_timeout = 120
pidfile = {folder}/pgbouncer.pid
"""


class Pgbouncer:
    """A running pgbouncer."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port

    def url(self, url: str) -> str:
        """The same database as at this URL, through the pool."""
        parts = urlsplit(url)
        who = parts.netloc.rpartition("@")[0]
        return urlunsplit(parts._replace(netloc=f"{who}@127.0.0.1:{self.port}", query=""))

    def answers(self) -> bool:
        """Whether it accepts connections."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def stop(self) -> None:
        """End it at once. It stores nothing, and SIGKILL is the one signal that it cannot have inherited as ignored."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def pooling(place: Place, url: str) -> Iterator[Pgbouncer]:
    """A pgbouncer in front of the server at a URL."""
    program = shutil.which("pgbouncer", path=SEARCHED)
    if program is None:
        raise Unavailable("no pgbouncer: run `make system`, or install the package `pgbouncer`")
    folder = place.path(f"pool-{uuid.uuid4().hex[:12]}")
    os.mkdir(folder, 0o700)
    place.give(folder)
    pool = _started(place, program, folder, url)
    try:
        yield pool
    finally:
        pool.stop()


def _started(place: Place, program: str, folder: str, url: str) -> Pgbouncer:
    for _ in range(STARTS_MAX):
        port = free_port()
        file = _configured(place, folder, port, url)
        pool = Pgbouncer(place.spawn(program, "-q", file, log=f"{folder}/log"), port)
        if _listens(pool):
            return pool
    with open(f"{folder}/log", encoding="utf-8", errors="replace") as said:
        raise Unavailable(f"pgbouncer does not start: {' '.join(said.read()[-500:].split())}")


def _listens(pool: Pgbouncer) -> bool:
    """Wait until it listens, or has ended because its port was taken."""
    for _ in range(int(PATIENCE_S / 0.01)):
        if pool.process.poll() is not None:
            return False
        if pool.answers():
            return True
        select.select([], [], [], 0.01)
    raise Unavailable("pgbouncer runs and does not listen")


def _configured(place: Place, folder: str, port: int, url: str) -> str:
    parts = urlsplit(url)
    user, password = unquote(parts.username or "postgres"), unquote(parts.password or "")
    place.write(f"{folder}/users", f'"{user}" "{password}"\n')
    text = CONFIGURATION.format(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 5432,
        listen=port,
        auth="scram-sha-256" if password else "trust",
        folder=folder,
        pool=POOL_SIZE,
    )
    return place.write(f"{folder}/ini", text)
