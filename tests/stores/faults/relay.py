"""A relay in front of a server that cuts a connection at a chosen word: before the server gets it, or after it acted.

So the two cases that a client cannot tell apart are made on purpose and counted: a request that was lost, and a
request that was carried out and whose answer was lost. Bytes pass as they are; nothing of the protocol is known here
but that a server answers when it is done.
"""

import contextlib
import select
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

Loss = Literal["request", "answer"]
Losses = Mapping[bytes, Sequence[Loss]]


class Relay:
    """Passes bytes, and cuts the connection as planned for each word. `lost` records the cuts."""

    def __init__(self, url: str, losses: Losses) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname, parts.port)
        self._losses = {word: list(loss) for word, loss in losses.items()}
        self._door = socket.create_server(("127.0.0.1", 0))
        self.lost: list[tuple[bytes, Loss]] = []
        where = f"{parts.username}:{parts.password}@127.0.0.1:{self._door.getsockname()[1]}"
        self.url = urlunsplit(parts._replace(netloc=where))

    def serve(self) -> None:
        """Accept connections until the relay is closed."""
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._door.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        # Closing alone would not end a blocked accept.
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._server) as server, contextlib.suppress(OSError):
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    said = ready.recv(65_536)
                    loss = self._loss(said) if ready is client else None
                    if not said or loss == "request":
                        return
                    (server if ready is client else client).sendall(said)
                    if loss == "answer":
                        server.recv(65_536)
                        return

    def _loss(self, said: bytes) -> Loss | None:
        for word, left in self._losses.items():
            if left and word in said:
                self.lost.append((word, left[0]))
                return left.pop(0)
        return None


@contextlib.contextmanager
def relaying(url: str, losses: Losses) -> Iterator[Relay]:
    """A relay at work in front of the server of a URL."""
    relay = Relay(url, losses)
    thread = threading.Thread(target=relay.serve)
    thread.start()
    try:
        yield relay
    finally:
        relay.close()
        thread.join()
