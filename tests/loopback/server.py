"""The loopback server: a thread per connection, one answer per request, in the given order."""

import json
import ssl
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

_PATIENCE_S = 600
CERTIFICATE = Path(__file__).parent / "localhost.pem"
"""Self-signed certificate of 127.0.0.1, with its key; no client trusts it by default."""


class Cut:
    """The connection is closed here, whatever the headers promised."""


CUT = Cut()


class Hold(NamedTuple):
    """Nothing more is sent until the test opens the gate; `reached` is set when the stream has come here."""

    gate: threading.Event
    reached: threading.Event | None = None


Act: TypeAlias = bytes | Hold | Cut


class Answer(NamedTuple):
    """What is sent for one request: a status, headers, and the body act by act."""

    acts: Sequence[Act]
    status: int = 200
    headers: Mapping[str, str] = {"content-type": "text/event-stream"}


class Asked(NamedTuple):
    """One received request."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


def events(*told: Mapping[str, Any], named: bool = True) -> list[bytes]:
    """Server-sent events, one act each: named by their own `type`, or with the data alone."""
    return [
        (f"event: {one['type']}\n" if named else "").encode() + b"data: " + json.dumps(one).encode() + b"\n\n"
        for one in told
    ]


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        # Whoever asked may go at any time, also between two requests, and may not trust the certificate.
        if not isinstance(sys.exc_info()[1], ConnectionError | ssl.SSLError):
            super().handle_error(request, client_address)


class Loopback:
    """A server at `url` for the duration of the `with` block. A request without an answer gets a 500."""

    def __init__(self, answer: Callable[[Asked], Answer] | None = None, *, tls: bool = False) -> None:
        self.asked: list[Asked] = []
        self._answers: deque[Answer] = deque()
        self._answer = answer
        self._turn = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._scheme = "https" if tls else "http"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def play(self, *answers: Answer) -> None:
        """Set the answers to the next requests."""
        self._answers.extend(answers)

    def _next(self, asked: Asked) -> Answer:
        with self._turn:
            self.asked.append(asked)
            if self._answer is not None:
                return self._answer(asked)
            nothing = Answer([b'{"error":{"type":"api_error","message":"no answer was told"}}'], 500, {})
            return self._answers.popleft() if self._answers else nothing

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self._read_body()
                headers = {name.lower(): value for name, value in self.headers.items()}
                self._send(loopback._next(Asked(self.path, headers, body)))

            do_GET = do_POST  # noqa: N815 - the port's own name
            do_HEAD = do_POST  # noqa: N815 - the port's own name

            def _read_body(self) -> bytes:
                if "chunked" not in self.headers.get("transfer-encoding", ""):
                    return self.rfile.read(int(self.headers.get("content-length", "0")))
                pieces: list[bytes] = []
                while size := int(self.rfile.readline().partition(b";")[0], 16):
                    pieces.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(pieces)

            def _send(self, answer: Answer) -> None:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                if self.command == "HEAD":
                    return
                try:
                    self._play(answer.acts)
                except (BrokenPipeError, ConnectionResetError):
                    # Whoever asked has gone.
                    self.close_connection = True

            def _play(self, acts: Sequence[Act]) -> None:
                for act in acts:
                    if isinstance(act, Cut):
                        self.close_connection = True
                        return
                    if isinstance(act, Hold):
                        self._hold(act)
                    elif act:
                        self.wfile.write(b"%x\r\n%b\r\n" % (len(act), act))
                        self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

            def _hold(self, act: Hold) -> None:
                if act.reached is not None:
                    act.reached.set()
                assert act.gate.wait(_PATIENCE_S), "nobody opened the gate"

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the port's own name
                """Print nothing."""

        return Handler
