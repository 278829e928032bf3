"""A real PostgreSQL server: its databases, its backends and, for an own server, starting and stopping it.

`Server` speaks to any server through psycopg. A `Cluster` is what makes one ours: a data folder in a place, and
the process that serves it. The shared server gives up durability for speed (fsync off); the one that `own_server`
makes gives up nothing, because tests stop and kill it. Both listen on 127.0.0.1 alone and ask for a password, as a
server in production does, so that no other user of the machine can walk in.
"""

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from tests.servers.binaries import programs
from tests.servers.place import Place, Unavailable, free_port

STARTS_MAX = 50
PATIENCE_S = 600
ALWAYS = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "200", "jit": "off"}
FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",  # it would hold databases that a test wants to copy
}
DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}


# Servers that this process started and leaves to the keeper.
_LASTING: list["Cluster"] = []


class Cluster:
    """One data folder and the server that runs on it. The port stays the same over every restart."""

    def __init__(self, place: Place, name: str) -> None:
        self.place = place
        self.data = place.path(name)
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._log = f"{self.data}.log"
        self._programs = programs(place)

    def make(self, settings: dict[str, str]) -> None:
        """Copy the prepared data folder, and start the server on a free port."""
        self.place.run("cp", "-a", self.place.path("fresh"), self.data)
        for _ in range(STARTS_MAX):
            self.port = free_port()
            self.configure(settings | {"port": str(self.port)})
            with contextlib.suppress(_PortTaken):
                return self.start()
        raise Unavailable("PostgreSQL found no free port on 127.0.0.1")

    def configure(self, settings: dict[str, str]) -> None:
        """Write the settings; they apply from the next start."""
        lines = [f"{name} = '{value}'" for name, value in (ALWAYS | settings).items()]
        self.place.write(os.path.join(self.data, "postgresql.auto.conf"), "\n".join(lines) + "\n")

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        for _ in range(STARTS_MAX):
            begun = os.path.getsize(self._log) if os.path.exists(self._log) else 0
            self.process = self.place.spawn(os.path.join(self._programs, "postgres"), "-D", self.data, log=self._log)
            if self._ready():
                return
            self._judge(self._said(begun))
        raise Unavailable(f"PostgreSQL does not start in {self.data}: its last backends do not end")

    def stop(self, *, immediate: bool = False) -> None:
        """Stop the server and wait for its end; an immediate stop leaves the state of a crash."""
        if self.running():
            assert self.process is not None
            self.process.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
            self.process.wait(PATIENCE_S)

    def running(self) -> bool:
        """Whether the server runs."""
        return self.process is not None and self.process.poll() is None

    def pid(self) -> int:
        """The pid of the postmaster."""
        assert self.process is not None
        return self.process.pid

    def _ready(self) -> bool:
        """Wait until the server accepts connections, or has ended."""
        for _ in range(int(PATIENCE_S / 0.01)):
            if not self.running():
                return False
            if self._status() == [str(self.pid()), "ready"]:
                return True
            select.select([], [], [], 0.01)
        raise Unavailable(f"PostgreSQL does not take connections in {self.data}")

    def _status(self) -> list[str]:
        """The first line of the server's pid file, which is its pid, and the last, which is its state."""
        with contextlib.suppress(FileNotFoundError), open(f"{self.data}/postmaster.pid", encoding="utf-8") as file:
            lines = file.read().split("\n")
            return [lines[0], lines[7].strip() if len(lines) > 7 else ""]
        return []

    def _judge(self, said: str) -> None:
        """Raise an error with a hint for a server that ended while it started, unless it should be started again."""
        if "Address already in use" in said:
            raise _PortTaken
        if "still in use" not in said:
            raise Unavailable(f"PostgreSQL does not start: {' '.join(said.split())}")
        select.select([], [], [], 0.5)  # backends of a killed server are still on their way out

    def _said(self, begun: int) -> str:
        with open(self._log, "rb") as file:
            file.seek(begun)
            return file.read().decode(errors="replace")


class _PortTaken(Exception):
    """The port was taken between the check and the start."""


class Server:
    """A server for databases. `cluster` is set when the tests may stop and kill it."""

    def __init__(self, url: str, cluster: Cluster | None = None) -> None:
        self._url = url
        self._cluster = cluster

    def url(self, database: str = "") -> str:
        """The URL of a database; without a name, of the administrative one."""
        parts = urlsplit(self._url)
        return urlunsplit(parts._replace(path=f"/{database}")) if database else self._url

    def connect(self) -> psycopg.Connection:
        """A connection for administration, in autocommit mode."""
        return psycopg.connect(self._url, autocommit=True)

    def new_database(self, template: str = "") -> str:
        """Create a database and return its URL: an empty one, or a copy of the one at the URL `template`.

        Nobody may be connected to a template while it is copied.
        """
        name = f"wakelog_{uuid.uuid4().hex}"
        words = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
            sql.Identifier(name), sql.Identifier(name_of(template) if template else "template0")
        )
        with self.connect() as connection:
            # Copying files is the faster way, known since PostgreSQL 15; before, it was the only one.
            strategy = sql.SQL(" STRATEGY file_copy" if connection.info.server_version >= 150000 else "")
            connection.execute(words + strategy)
        return self.url(name)

    def drop(self, url: str) -> None:
        """Drop the database at a URL, and close its connections."""
        with self.connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name_of(url))))

    def backends(self, url: str) -> list[int]:
        """The processes that serve the clients of the database at a URL, oldest first."""
        words = """SELECT pid FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'
            ORDER BY backend_start, pid"""
        with self.connect() as connection:
            return [pid for (pid,) in connection.execute(words, [name_of(url)])]

    def terminate(self, pid: int) -> None:
        """End one backend as an administrator would, and wait for its end; other clients are not affected."""
        with self.connect() as connection:
            connection.execute("SELECT pg_terminate_backend(%s, %s)", [pid, int(PATIENCE_S * 1000)])

    def kill(self, pid: int) -> None:
        """Kills one process of our own server with SIGKILL and waits for its end.

        After the death of a backend the server throws out every other client and recovers from its log: `wait`
        waits until it is back. After the death of `pid()` it is down until `start`.
        """
        self._own()
        process = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            if not select.select([process], [], [], PATIENCE_S)[0]:
                raise TimeoutError(f"process {pid} outlives SIGKILL")
        finally:
            os.close(process)

    def wait(self) -> None:
        """Waits until the server takes connections (again)."""
        for _ in range(int(PATIENCE_S / 0.02)):
            with contextlib.suppress(psycopg.OperationalError):
                return self.connect().close()
            select.select([], [], [], 0.02)
        raise TimeoutError("the server does not take connections")

    def start(self) -> None:
        """Starts our own server again, on the same data and the same port."""
        self._own().start()

    def stop(self, *, immediate: bool = False) -> None:
        """Stops our own server; `immediate` is what a crash of it looks like."""
        self._own().stop(immediate=immediate)

    def restart(self, *, immediate: bool = False) -> None:
        """Stops and starts."""
        self.stop(immediate=immediate)
        self.start()

    def running(self) -> bool:
        """Whether our own server runs."""
        return self._own().running()

    def pid(self) -> int:
        """The process at the head of our own server."""
        return self._own().pid()

    def _own(self) -> Cluster:
        if self._cluster is None:
            raise RuntimeError("this server is shared: a test that stops or kills one takes `own_postgres`")
        return self._cluster


def shared_server(place: Place) -> Server:
    """The server of a whole run: the one that WAKELOG_TEST_POSTGRES names, else one that the first caller starts."""
    given = os.environ.get("WAKELOG_TEST_POSTGRES")
    if given:
        return _answering(given)
    state = place.path("shared.json")
    with place.lock():
        if not os.path.exists(state):
            _prepare(place)
            cluster = Cluster(place, "shared")
            cluster.make(FAST)
            _LASTING.append(cluster)
            place.write("shared.json", json.dumps({"port": cluster.port}))
    with open(state, encoding="utf-8") as file:
        return Server(_url(place, json.load(file)["port"]))


@contextlib.contextmanager
def own_server(place: Place) -> Iterator[Server]:
    """A durable server with a data folder of its own, removed at the end."""
    with place.lock():
        _prepare(place)
    cluster = Cluster(place, f"own-{uuid.uuid4().hex[:12]}")
    try:
        cluster.make(DURABLE)
        yield Server(_url(place, cluster.port), cluster)
    finally:
        cluster.stop(immediate=True)
        shutil.rmtree(cluster.data, ignore_errors=True)


def name_of(url: str) -> str:
    """The database that a URL names."""
    return urlsplit(url).path.removeprefix("/")


def _answering(url: str) -> Server:
    server = Server(url)
    try:
        server.connect().close()
    except psycopg.Error as error:
        why = " ".join(str(error).split())
        raise Unavailable(f"the server that WAKELOG_TEST_POSTGRES names does not answer: {why}") from error
    return server


def _url(place: Place, port: int) -> str:
    with open(place.path("password"), encoding="utf-8") as file:
        return f"postgresql://postgres:{file.read()}@127.0.0.1:{port}/postgres"


def _prepare(place: Place) -> None:
    """Make, once per run, the data folder that every server starts from."""
    fresh, half = place.path("fresh"), place.path("fresh-half")
    if os.path.exists(fresh):
        return
    password = place.write("password", secrets.token_hex(8))
    initdb = os.path.join(programs(place), "initdb")
    # A locale that knows letters beyond ASCII, and exists everywhere: search and lower case work as at home.
    words = ("--locale=C.UTF-8", "--encoding=UTF8", "--auth=scram-sha-256", "--no-sync", "--no-instructions")
    place.run(initdb, "-D", half, "-U", "postgres", f"--pwfile={password}", *words)
    os.rename(half, fresh)
