"""Transports to MCP servers: a guarded process or a URL, through the SDK's transports with added bounds.

Rule 1: a server process gets the few variables that every program needs and those that its value names. A named
variable that is not set is an error before anything is started.
Rule 2: nothing that a server sends grows without bound: a message has at most `guard.LINE_BYTES`. Its standard
error never reaches the terminal; it is read as it arrives, and only its end is kept, for failure messages.
Rule 3: the spawn of a process is not cancelled. `asyncio` would kill the guard with SIGKILL, and neither the guard
nor the SDK could end the server; a cancellation takes effect when the spawn is over and the SDK can end the
process.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from io import TextIOWrapper

import anyio
import httpx2
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from wakelog.errors import UsageError
from wakelog.tools.mcp import guard
from wakelog.tools.mcp.conversion import one_line
from wakelog.tools.mcp.server import McpServer

_KEPT_BYTES = 8 * 1024
_KEPT_LINES = 8
_BLOCK_BYTES = 64 * 1024


class StderrTail:
    """Keeps the last lines read from a descriptor or added with `note`."""

    def __init__(self) -> None:
        self._kept = b""
        self._incoming: int | None = None

    def open_pipe(self) -> TextIOWrapper:
        """Return the file for a server's standard error; close it once the server has it."""
        self.close()
        self._incoming, outgoing = os.pipe()
        os.set_blocking(self._incoming, False)
        asyncio.get_running_loop().add_reader(self._incoming, self._take)
        return os.fdopen(outgoing, "w")

    def note(self, line: str) -> None:
        """Add a line of the connection's own."""
        self._keep(f"{line}\n".encode("utf-8", "backslashreplace"))

    def clear(self) -> None:
        """Drop everything kept so far."""
        self._kept = b""

    def text(self) -> str:
        """Return the last lines."""
        lines = self._kept.decode("utf-8", "replace").splitlines()
        return "\n".join([one_line(line) for line in lines if line.strip()][-_KEPT_LINES:])

    def close(self) -> None:
        """Read what is left, and close the descriptor."""
        if self._incoming is None:
            return
        while self._incoming is not None and self._take():
            pass
        self._close_pipe()

    def _take(self) -> bool:
        """Read what is available; return False if there is nothing."""
        assert self._incoming is not None
        with contextlib.suppress(BlockingIOError):
            piece = os.read(self._incoming, _BLOCK_BYTES)
            self._keep(piece)
            if not piece:
                self._close_pipe()
            return bool(piece)
        return False

    def _keep(self, piece: bytes) -> None:
        self._kept = (self._kept + piece)[-_KEPT_BYTES:]

    def _close_pipe(self) -> None:
        if self._incoming is not None:
            asyncio.get_running_loop().remove_reader(self._incoming)
            os.close(self._incoming)
            self._incoming = None


_CONNECT_S = 30.0


class SpawnScope:
    """A cancel scope whose cancellation is deferred while a process is being spawned inside it."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self._spawning = False
        self._cancelled = False

    def cancel(self) -> None:
        """Cancel what runs in the scope: at once, or when a spawn in progress is over."""
        self._cancelled = True
        if not self._spawning:
            self.scope.cancel()

    @contextlib.contextmanager
    def spawning(self) -> Iterator[None]:
        """Defer cancellation. A shielded cancel scope cannot do this: the SDK enters a scope and stays in it."""
        self._spawning = True
        try:
            yield
        finally:
            self._spawning = False
            if self._cancelled:
                self.scope.cancel()


@contextlib.asynccontextmanager
async def open_streams(
    server: McpServer,
    stderr: StderrTail,
    scope: SpawnScope,
    on_message: Callable[[object], None],
    on_end: Callable[[], None],
) -> AsyncIterator[tuple[object, object]]:
    """Yield the two streams of a server, as the SDK expects them.

    `scope` is the one that this runs in; `on_message` gets each message before the SDK does; `on_end` is called
    when the server sends no more.
    """
    async with contextlib.AsyncExitStack() as stack:
        if server.command:
            with stderr.open_pipe() as stderr_file, scope.spawning():
                streams = await stack.enter_async_context(stdio_client(_process_parameters(server), stderr_file))
        else:
            client = await stack.enter_async_context(_http_client(server, stderr))
            bounded = streamable_http_client(server.url, http_client=client, max_sse_event_size=guard.LINE_BYTES)
            streams = await stack.enter_async_context(bounded)
        incoming, outgoing = streams
        yield _ObservedStream(incoming, on_message, on_end), outgoing


class _ObservedStream:
    """The incoming stream; passes each message to `on_message`, and calls `on_end` at its end."""

    def __init__(self, stream: object, on_message: Callable[[object], None], on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._on_message = on_message
        self._on_end = on_end

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def __aiter__(self) -> "_ObservedStream":
        return self

    async def __anext__(self) -> object:
        try:
            message: object = await self._stream.__anext__()  # type: ignore[attr-defined]
        except StopAsyncIteration:
            self._on_end()
            raise
        self._on_message(message)
        return message

    async def __aenter__(self) -> "_ObservedStream":
        await self._stream.__aenter__()  # type: ignore[attr-defined]
        return self

    async def __aexit__(self, *details: object) -> bool | None:
        return await self._stream.__aexit__(*details)  # type: ignore[attr-defined,no-any-return]


# ── process ──────────────────────────────────────────────────────────────────────────────────────


def _process_parameters(server: McpServer) -> StdioServerParameters:
    place = os.path.abspath(os.path.expanduser(server.cwd))
    if not os.path.isdir(place):
        raise UsageError(f"there is no folder {place}")
    return StdioServerParameters(
        command=sys.executable,
        args=["-I", "-S", guard.__file__, str(os.getpid()), *server.command],
        env={name: _environment_variable(name) for name in server.env},
        cwd=place,
        # Invalid UTF-8 makes an invalid message; it must not end the connection.
        encoding_error_handler="replace",
    )


def _environment_variable(name: str) -> str:
    found = os.environ.get(name)
    if found is None:
        raise UsageError(f"the variable {name} is not set")
    return found


# ── URL ──────────────────────────────────────────────────────────────────────────────────────────


def _http_client(server: McpServer, stderr: StderrTail) -> httpx2.AsyncClient:
    headers = {header: _header_value(name) for header, name in server.headers_from.items()}
    if server.bearer_env:
        headers["Authorization"] = f"Bearer {_header_value(server.bearer_env)}"

    async def inspect(response: httpx2.Response) -> None:
        if response.status_code >= 400 and response.request.method == "POST":
            stderr.note(f"[HTTP {response.status_code}]")
        if response.headers.get("content-type", "").startswith("application/json"):
            response.stream = _BoundedBody(response)

    # The caller limits the duration of a call; these limits are only for connecting and sending.
    timeout = httpx2.Timeout(_CONNECT_S, read=None)
    # A compressed response could exceed the bound after decompression.
    plain = {"Accept-Encoding": "identity", **headers}
    return httpx2.AsyncClient(headers=plain, timeout=timeout, event_hooks={"response": [inspect]})


def _header_value(name: str) -> str:
    """Return a variable's value for a header. The HTTP client would refuse invalid characters and quote the secret."""
    found = _environment_variable(name).strip()
    if not (found.isascii() and found.isprintable()):
        raise UsageError(f"the variable {name} holds what no header can")
    return found


class _BoundedBody(httpx2.AsyncByteStream):
    """A response body that fails if it is longer than the bound, or compressed."""

    def __init__(self, response: httpx2.Response) -> None:
        self._stream = response.stream
        self._packed = response.headers.get("content-encoding", "identity") != "identity"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._packed:
            raise httpx2.StreamError("the answer is compressed, which was not asked for")
        size = 0
        assert isinstance(self._stream, httpx2.AsyncByteStream)
        async for piece in self._stream:
            size += len(piece)
            if size > guard.LINE_BYTES:
                raise httpx2.StreamError(f"the answer has more than {guard.LINE_BYTES:,} bytes")
            yield piece

    async def aclose(self) -> None:
        """See `httpx2.AsyncByteStream`."""
        assert isinstance(self._stream, httpx2.AsyncByteStream)
        await self._stream.aclose()
