"""A relay before a server that can be switched: `on` passes bytes, `off` cuts connections, `frozen` passes nothing.

So one worker loses the server, in either way, while the server still serves all other clients.
"""

import contextlib
import select
import socket
import threading
from urllib.parse import urlsplit, urlunsplit

_LOOK_S = 0.02


class Switch:
    """Accepts connections to the server of a URL at another address, `url`."""

    def __init__(self, url):
        parts = urlsplit(url)
        self._server = (parts.hostname, parts.port)
        self._door = socket.create_server(("127.0.0.1", 0))
        where = f"{parts.username}:{parts.password}@127.0.0.1:{self._door.getsockname()[1]}"
        self.url = urlunsplit(parts._replace(netloc=where))
        self.mode = "on"
        self.applied = []
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.mode = "over"
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        for thread in self._threads:
            thread.join()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._door.accept()
                thread = threading.Thread(target=self._pass_on, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, client):
        with client, contextlib.suppress(OSError):
            self._wait_while_frozen(client)
            if self.mode != "on":
                self.applied.append("refused")
                return
            with socket.create_connection(self._server) as server:
                self._relay(client, server)

    def _relay(self, client, server):
        while self.mode in ("on", "frozen"):
            self._wait_while_frozen(client)
            for ready in select.select([client, server], [], [], _LOOK_S)[0]:
                if self.mode != "on":
                    break
                said = ready.recv(65_536)
                if not said:
                    return
                (server if ready is client else client).sendall(said)
        self.applied.append("cut")

    def _wait_while_frozen(self, client):
        """Hold a connection without passing bytes. A client that has sent a request gets no answer."""
        is_asked = False
        while self.mode == "frozen":
            if not is_asked and select.select([client], [], [], 0)[0]:
                is_asked = True
                self.applied.append("unanswered")
            select.select([], [], [], _LOOK_S)
