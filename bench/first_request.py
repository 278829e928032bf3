"""How long a cold `wakelog run` takes until the first byte of its request reaches a model server."""

import json
import os
import queue
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from bench.made import Words
from bench.measure import COMMAND, Figure, Times, compare

GROUP = "Start-up"
ROUNDS = 25
LIMIT = 1.5
BARE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bare_request.py")
_PATIENCE_S = 60
_REPLY = b"""event: message_start
data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],\
"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hi"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":1}}

event: message_stop
data: {"type":"message_stop"}

"""


class ModelServer:
    """Server on the loopback that notes when the first byte of each request arrives, and sends a short reply."""

    def __init__(self) -> None:
        self.arrivals: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> "ModelServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # A shutdown ends the `accept` of the thread; closing alone would not.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        request = connection.recv(65_536)
        arrived = time.perf_counter()
        while not _is_complete(request):
            request += connection.recv(65_536)
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(_REPLY)}\r\n\r\n"
        connection.sendall(head.encode() + _REPLY)
        self.arrivals.put((arrived, request))


def _is_complete(request: bytes) -> bool:
    head, blank, body = request.partition(b"\r\n\r\n")
    return bool(blank) and len(body) >= int(_headers(head).get("content-length", "0"))


def _headers(head: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in head.decode().split("\r\n")[1:])
    return {name.lower(): value.strip() for name, _, value in lines}


def first_request(folder: str, words: Words) -> Iterator[Figure]:  # noqa: ARG001 - every bench gets words
    """`wakelog run` beside a bare script with the same HTTP client that sends the same request."""
    with ModelServer() as server:
        place = _Place(folder, server)
        ours = [COMMAND, "run", "--model", "anthropic:m", "Hello."]
        place.seconds_to_first_byte(ours)
        place.keep_store()
        _, request = place.seconds_to_first_byte(ours)
        floor = [sys.executable, BARE, f"{server.url}/v1/messages", _recorded(folder, request)]
        taken: dict[str, list[float]] = {"ours": [], "floor": []}
        for turn in range(-1, ROUNDS):
            for name, command in [("ours", ours), ("floor", floor)][:: 1 if turn % 2 else -1]:
                place.restore_store()
                seconds, sent = place.seconds_to_first_byte(command)
                assert sent.partition(b"\r\n\r\n")[2] == request.partition(b"\r\n\r\n")[2], "another body was sent"
                if turn >= 0:
                    taken[name].append(seconds)
    times = {name: Times(tuple(runs)) for name, runs in taken.items()}
    yield Figure(
        group=GROUP,
        what="`wakelog run`, first byte sent to a model",
        workload="a new process and session, to the first byte at a loopback server; the store has one session",
        floor="a bare httpx2 script that sends the same request",
        goal=f"≤ {LIMIT:g} ×",
        ratio=times["ours"].median / times["floor"].median,
        limit=LIMIT,
        measured=compare(times["floor"], times["ours"]),
    )


class _Place:
    """The folder that commands run in, with a store that is the same before each of them."""

    def __init__(self, folder: str, server: ModelServer) -> None:
        self._server = server
        self._store = os.path.join(folder, "store")
        self._kept = os.path.join(folder, "kept")
        homes = {name: os.path.join(folder, name) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
        named = {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": server.url, "WAKELOG_STORE": self._store}
        self._environment = {**os.environ, **homes, **named}

    def keep_store(self) -> None:
        """Keep a copy of the store as it is now."""
        shutil.copytree(self._store, self._kept, symlinks=True)

    def restore_store(self) -> None:
        """Replace the store by the kept copy: earlier sessions are part of a request."""
        shutil.rmtree(self._store)
        shutil.copytree(self._kept, self._store, symlinks=True)

    def seconds_to_first_byte(self, command: Sequence[str]) -> tuple[float, bytes]:
        """Run a program to its end; return the time from its start to the first byte, and the request."""
        out, err = subprocess.DEVNULL, subprocess.PIPE
        start = time.perf_counter()
        with subprocess.Popen(command, stdout=out, stderr=err, env=self._environment) as running:
            _, errors = running.communicate(timeout=_PATIENCE_S)
        if running.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{errors.decode()}")
        arrived, request = self._server.arrivals.get(timeout=_PATIENCE_S)
        return arrived - start, request


def _recorded(folder: str, request: bytes) -> str:
    """Write the headers and the body of a request for the bare script; return the path."""
    head, _, body = request.partition(b"\r\n\r\n")
    own = {name: value for name, value in _headers(head).items() if name not in ("host", "content-length")}
    path = os.path.join(folder, "request.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"headers": own, "body": body.decode()}, file)
    return path
