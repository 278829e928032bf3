"""MCP tools as implementations of the `Tool` port.

A tool is made from its declaration alone, so the log is enough to wake a session whose agent has been configured
differently since. Its server is started by the first call.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from wakelog.errors import UsageError
from wakelog.log.entry import Replay
from wakelog.ports import Answer, Invocation, Outcome, Tool
from wakelog.tools.mcp.declaring import Source, source_of
from wakelog.tools.mcp.servers import Servers


class McpTool:
    """One tool of one server."""

    def __init__(self, declared: Mapping[str, Any], source: Source, servers: Servers) -> None:
        self.name: str = declared["name"]
        self.description: str = declared.get("description", "")
        self.schema: Mapping[str, Any] = declared.get("schema", {})
        # `replay` was set when the tool was declared; without a trusted server it is always `never`.
        self.replay: Replay = "safe" if source.server.trusted and declared.get("replay") == "safe" else "never"
        self._declared = dict(declared)
        self._source = source
        self._servers = servers

    def declared(self) -> dict[str, Any]:
        """Return the declaration for the model and the log, with the tool's origin."""
        return dict(self._declared)

    async def prepare(self, call: Invocation) -> Mapping[str, Any]:  # noqa: ARG002 - the port's signature
        """See `ports.Tool`."""
        return {}

    async def run(self, call: Invocation) -> Outcome:
        """See `ports.Tool`."""
        return await self._servers.call(self._source.server, self._source.tool, call.arguments, call.show)

    async def receipt(self, call: Invocation) -> Answer:  # noqa: ARG002
        """Return "cannot say": the protocol has no way to ask what became of a call."""
        return "cannot say"


def mcp_tools(declared: Sequence[Mapping[str, Any]], servers: Servers, cwd: str = "") -> Mapping[str, Tool]:
    """Return the declared tools that come from MCP servers, by name; unreadable ones are reported and left out.

    Commands are started in `cwd`, the folder of the session.
    """
    found: dict[str, Tool] = {}
    for one in declared:
        try:
            source = source_of(one)
        except UsageError as error:
            servers.notice(error.message)
            continue
        if source is not None:
            found[one["name"]] = McpTool(one, Source(source.server.at(cwd), source.tool), servers)
    return found
