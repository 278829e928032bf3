"""Pool of MCP servers, and MCP tools as implementations of the `Tool` port.

Rule 1: users enter and leave the pool with `async with`: a wake, its sub-agents, a chat around all its wakes. A
server is started on first use, shared by equal values, and ended with the last user.
Rule 2: a server that has died is started again only by the next request to it.
Rule 3: a tool is made from its declaration alone, so the log is enough to wake a session whose agent has been
configured differently since.
This module knows no protocol; `connection.py` does, and is imported with the SDK when the first server is needed.
"""

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from wakelog.errors import UsageError
from wakelog.log.entry import ReplayMode
from wakelog.ports.runtime import ReceiptAnswer, Tool, ToolInvocation, ToolOutcome
from wakelog.tools.mcp.conversion import ToolSource, declare_tools, parse_source
from wakelog.tools.mcp.server import McpServer, ServerFailure, StaleConnection


def _ignore_line(_: str) -> None:
    """Ignore a line; the default callback."""


class ServerPool:
    """All servers used inside `async with`, which may be entered concurrently and repeatedly.

    `notice` gets a line for everything that a server offers and that cannot be used, each line once.
    """

    def __init__(self, *, notice: Callable[[str], None] = _ignore_line) -> None:
        self._notice = notice
        self._reported: set[str] = set()
        self._users = 0
        self._alive: dict[bytes, Any] = {}
        self._started: list[Any] = []

    async def __aenter__(self) -> Self:
        self._users += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._users -= 1
        if self._users:
            return
        # A user that enters while these end starts with none.
        ending, self._started, self._alive = self._started, [], {}
        await _wait_despite_cancellation(asyncio.gather(*(connection.close() for connection in ending)))

    def notice(self, line: str) -> None:
        """Report something that cannot be used, once: the same log is read again at every step."""
        if line not in self._reported:
            self._reported.add(line)
            self._notice(line)

    async def list_tools(self, server: McpServer, cwd: str = "") -> list[dict[str, Any]]:
        """Return the tools of a server as they are declared to a model and to the log.

        A command is started in `cwd`, the folder of the session. `UsageError` if the server cannot be queried.
        """
        try:
            found = declare_tools(server, await self._request(server.in_folder(cwd), lambda alive: alive.tools()))
        except ServerFailure as failure:
            hint = "run its command by hand" if server.command else "check that its url can be reached"
            raise UsageError(" ".join(str(failure).split()), hint=hint) from None
        except asyncio.CancelledError:
            await self._wait_until_gone(server.in_folder(cwd))
            raise
        for line in found.left_out:
            self.notice(line)
        return found.tools

    async def call(
        self,
        server: McpServer,
        tool: str,
        arguments: Mapping[str, Any],
        show: Callable[[str], None] = _ignore_line,
    ) -> ToolOutcome:
        """Run a tool; every failure of the server is an error outcome. `show` gets progress lines."""
        try:
            outcome: ToolOutcome = await self._request(server, lambda alive: alive.call(tool, arguments, show))
        except ServerFailure as failure:
            return ToolOutcome(str(failure), is_error=True)
        except UsageError as error:
            return ToolOutcome(f"{error.message} ({error.hint})", is_error=True)
        return outcome

    async def _request(self, server: McpServer, ask: Callable[[Any], Awaitable[Any]]) -> Any:
        """Send a request. A server that has forgotten the connection did nothing: it is repeated once on a new one."""
        # Importing the SDK is slow; in a thread it does not block the event loop.
        await asyncio.to_thread(_load_connection_module)
        for _ in range(2):
            try:
                return await ask(self._connection(server))
            except StaleConnection:
                continue
        raise ServerFailure(f"The MCP server {server.name} forgets every connection at once")

    async def _wait_until_gone(self, server: McpServer) -> None:
        """Wait until a server that is ending is gone."""
        found = self._alive.get(server.key)
        if found is not None and found.is_over:
            await _wait_despite_cancellation(asyncio.ensure_future(found.close()))

    def _connection(self, server: McpServer) -> Any:
        """Return the live connection to the server, or start a new one."""
        if not self._users:
            raise UsageError("ServerPool is used outside of its `async with`", hint="enter it around the wake")
        found = self._alive.get(server.key)
        if found is None or found.is_over:
            found = self._alive[server.key] = _load_connection_module().Connection(server)
            self._started = [*(each for each in self._started if not each.is_gone), found]
        return found


async def _wait_despite_cancellation(closing: "asyncio.Future[Any]") -> None:
    """Wait until the servers have ended, even if cancelled; a cancellation is raised afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not closing.done():
        try:
            await asyncio.wait({closing})
        except asyncio.CancelledError as error:
            cancelled = error
    closing.result()
    if cancelled is not None:
        raise cancelled


def _load_connection_module() -> Any:
    """Import the module that implements the protocol; `UsageError` if its packages are not installed."""
    try:
        return importlib.import_module("wakelog.tools.mcp.connection")
    except ImportError as missing:
        raise UsageError(
            f"MCP needs a package that is not installed ({missing})", hint="pip install 'wakelog[mcp]'"
        ) from missing


class McpTool:
    """One tool of one server."""

    def __init__(self, declared: Mapping[str, Any], source: ToolSource, servers: ServerPool) -> None:
        self.name: str = declared["name"]
        self.description: str = declared.get("description", "")
        self.schema: Mapping[str, Any] = declared.get("schema", {})
        # `replay` was set when the tool was declared; without a trusted server it is always `never`.
        self.replay: ReplayMode = "safe" if source.server.trusted and declared.get("replay") == "safe" else "never"
        self._declared = dict(declared)
        self._source = source
        self._servers = servers

    def declared(self) -> dict[str, Any]:
        """Return the declaration for the model and the log, with the tool's origin."""
        return dict(self._declared)

    async def prepare(self, call: ToolInvocation) -> Mapping[str, Any]:  # noqa: ARG002 - the port's signature
        """See `ports.Tool`."""
        return {}

    async def run(self, call: ToolInvocation) -> ToolOutcome:
        """See `ports.Tool`."""
        return await self._servers.call(self._source.server, self._source.tool, call.arguments, call.show)

    async def receipt(self, call: ToolInvocation) -> ReceiptAnswer:  # noqa: ARG002
        """Return "cannot say": the protocol has no way to ask what became of a call."""
        return "cannot say"


def mcp_tools(declared: Sequence[Mapping[str, Any]], servers: ServerPool, cwd: str = "") -> Mapping[str, Tool]:
    """Return the declared tools that come from MCP servers, by name; unreadable ones are reported and left out.

    Commands are started in `cwd`, the folder of the session.
    """
    found: dict[str, Tool] = {}
    for one in declared:
        try:
            source = parse_source(one)
        except UsageError as error:
            servers.notice(error.message)
            continue
        if source is not None:
            found[one["name"]] = McpTool(one, ToolSource(source.server.in_folder(cwd), source.tool), servers)
    return found
