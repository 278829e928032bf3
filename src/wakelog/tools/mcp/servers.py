"""The servers of one wake: started when first asked, one process for equal values, ended when the wake is over.

Nothing here knows a protocol; that is `connection.py`, which is loaded with the SDK when the first server is needed.
"""

import asyncio
import importlib
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from wakelog.errors import UsageError
from wakelog.ports import Outcome
from wakelog.tools.mcp.declaring import declare
from wakelog.tools.mcp.server import McpServer


def _unheard(_: str) -> None:
    """What is left out when nobody asked to know."""


class Servers:
    """Every server that is asked for inside `async with`.

    `notice` is given a line for everything that a server offers and that cannot be used.
    """

    def __init__(self, *, notice: Callable[[str], None] = _unheard) -> None:
        self.notice = notice
        self._open = False
        self._alive: dict[bytes, Any] = {}
        self._begun: list[Any] = []

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        await asyncio.gather(*(connection.close() for connection in self._begun))
        self._alive.clear()
        self._begun.clear()

    async def list_tools(self, server: McpServer, cwd: str = "") -> list[dict[str, Any]]:
        """The tools of a server as they are declared to a model and to the log.

        A command is started in `cwd`, the folder of the session. `UsageError` if the server cannot be asked.
        """
        failures = _sdk()
        try:
            found = declare(server, await self._connection(server.at(cwd)).tools())
        except failures.Failure as failure:
            hint = "try its command by hand" if server.command else "see whether its url can be reached"
            raise UsageError(" ".join(str(failure).split()), hint=hint) from None
        for line in found.left_out:
            self.notice(line)
        return found.tools

    async def call(
        self,
        server: McpServer,
        tool: str,
        arguments: Mapping[str, Any],
        show: Callable[[str], None] = _unheard,
    ) -> Outcome:
        """Runs a tool; whatever goes wrong with the server is an outcome. `show` is told how far it has come."""
        try:
            return await self._called(server, tool, arguments, show)
        except UsageError as error:
            return Outcome(f"{error.message} ({error.hint})" if error.hint else error.message, is_error=True)

    async def _called(
        self, server: McpServer, tool: str, arguments: Mapping[str, Any], show: Callable[[str], None]
    ) -> Outcome:
        failures = _sdk()
        try:
            try:
                return await self._asked(server, tool, arguments, show)
            except failures.Stale:
                return await self._asked(server, tool, arguments, show)
        except failures.Failure as failure:
            return Outcome(str(failure), is_error=True)
        except failures.Stale:
            return Outcome(f"The MCP server {server.name} forgets every connection at once", is_error=True)

    async def _asked(
        self, server: McpServer, tool: str, arguments: Mapping[str, Any], show: Callable[[str], None]
    ) -> Outcome:
        outcome: Outcome = await self._connection(server).call(tool, arguments, show)
        return outcome

    def _connection(self, server: McpServer) -> Any:
        """The server, alive: the one that is, or a new one."""
        if not self._open:
            raise UsageError("MCP servers are used inside `async with Servers(…)`", hint="enter it around the wake")
        found = self._alive.get(server.key)
        if found is None or found.is_over:
            found = self._alive[server.key] = _sdk().Connection(server)
            self._begun.append(found)
        return found


def _sdk() -> Any:
    """The module that speaks the protocol, if what it needs is installed."""
    try:
        return importlib.import_module("wakelog.tools.mcp.connection")
    except ImportError as missing:
        raise UsageError(
            f"MCP needs a package that is not installed ({missing})", hint="pip install 'wakelog[mcp]'"
        ) from missing
