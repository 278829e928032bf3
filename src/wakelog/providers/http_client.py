"""HTTP client of the network providers: sends one prepared request and provides the response as it arrives.

Rule 1: it never retries. The runtime does, and the log records every attempt.
Rule 2 (law 14, secrets stay out): a redirect is followed only to the same scheme, host and port, because headers and
conversation would go with it. This machine is called without a proxy.
Rule 3: one client per reply; nothing is kept between two calls but the TLS context.
"""

import contextlib
import functools
import inspect
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import httpx2

from wakelog.errors import UsageError
from wakelog.providers import HttpRequest, PrepareRequest
from wakelog.providers.endpoints import is_loopback, parse_address
from wakelog.version import APP

# How long a stream may be silent. A reasoning model may send nothing for minutes.
IDLE_TIMEOUT_S = 600.0
_CONNECT_TIMEOUT_S = 15.0
_REDIRECTS_MAX = 5
# TLS failures in the middle of a stream are not wrapped by the HTTP client.
NETWORK_ERRORS = (httpx2.HTTPError, ssl.SSLError, anyio.EndOfStream)
# The SDKs of both vendors send these two also where a stream is expected, so every server accepts them.
DEFAULT_HEADERS = {"accept": "application/json", "content-type": "application/json", "user-agent": APP}


class PreparationFailed(Exception):
    """The function that prepares requests raised; its exception is the cause."""


def open_client(url: str, idle_timeout_s: float) -> httpx2.AsyncClient:
    """Return a client for requests to an address. `UsageError` for a proxy or certificates that cannot be used."""
    try:
        return httpx2.AsyncClient(
            verify=tls_context() if parse_address(url).scheme == "https" else _context_without_certificates(),
            # The environment names proxies. One of them would look for a loopback address on its own machine.
            trust_env=not is_loopback(url),
            timeout=httpx2.Timeout(idle_timeout_s, connect=_CONNECT_TIMEOUT_S),
        )
    except ImportError:
        raise UsageError("a SOCKS proxy needs the package socksio", hint="pip install socksio") from None
    except OSError as error:
        raise UsageError(
            f"the certificates cannot be read: {error}", hint="check SSL_CERT_FILE and SSL_CERT_DIR"
        ) from error
    except (ValueError, httpx2.InvalidURL):
        raise UsageError(
            "the environment names a proxy with an invalid address",
            hint="check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY",
        ) from None


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS context of this process, created once: that takes longer than all other work for a call.

    The certificates are those of the system, or of `SSL_CERT_FILE` or `SSL_CERT_DIR`.
    """
    return httpx2.create_ssl_context()


def _context_without_certificates() -> ssl.SSLContext:
    """Return a context that accepts no certificate, for addresses without TLS: reading certificates takes a while."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@functools.cache
def load_in_background() -> None:
    """Load the modules that connect in a daemon thread, once per process.

    `httpx2` imports them with its first client, which takes tens of milliseconds. A process that checks a model writes
    and syncs a session before it calls the model, and waits for the disk meanwhile.
    """
    threading.Thread(target=open_client, args=("http://127.0.0.1", IDLE_TIMEOUT_S), daemon=True).start()


async def prepare_request(prepare: PrepareRequest, request: HttpRequest) -> HttpRequest:
    """Return the request to send instead; `PreparationFailed` if the function of the caller raises."""
    try:
        prepared = prepare(request)
        return await prepared if inspect.isawaitable(prepared) else prepared
    except Exception as error:
        raise PreparationFailed(type(error).__name__) from error


@contextlib.asynccontextmanager
async def post(client: httpx2.AsyncClient, request: HttpRequest) -> AsyncIterator[httpx2.Response]:
    """Send a request and provide the response, whatever its status; the client is closed at the end."""
    async with client:
        response = await _send(
            client,
            client.build_request(
                "POST",
                request.url,
                headers=dict(request.headers),
                content=request.body,
                extensions={"trace": _keep_connection_alive},
            ),
        )
        try:
            yield response
        finally:
            await response.aclose()


async def _send(client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
    """Send a request, and follow redirects to the same origin; the response may be a redirect to another."""
    for _ in range(_REDIRECTS_MAX + 1):
        response = await client.send(request, stream=True)
        following = response.next_request
        if following is None or following.url.origin != request.url.origin:
            return response
        await response.aclose()
        request = following
    raise httpx2.TooManyRedirects(f"more than {_REDIRECTS_MAX} redirects", request=request)


_KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 60, "TCP_KEEPCNT": 5}


async def _keep_connection_alive(event: str, details: Mapping[str, Any]) -> None:
    """Turn TCP keep-alive on for a new connection: routers drop one that is silent while a model reasons."""
    if event != "connection.connect_tcp.complete":
        return
    connection = details["return_value"].get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEP_ALIVE.items():
        # Not every system has all of them.
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
