"""The client that the conformance suite runs: it lists the tools of a server, and calls each once.

python -m tests.tools.mcp.conforming URL
"""

import asyncio
import sys

from tests.patience import PATIENCE_S
from wakelog.ports.runtime import ToolInvocation
from wakelog.tools.mcp import McpServer, ServerPool, mcp_tools

_SAMPLES = {"number": 2, "integer": 2, "string": "two", "boolean": True, "array": [], "object": {}}


def _arguments(schema):
    return {name: _SAMPLES[told.get("type", "string")] for name, told in schema.get("properties", {}).items()}


async def main(url):
    async with ServerPool() as servers:
        declared = await servers.list_tools(McpServer(name="suite", url=url, timeout_s=PATIENCE_S))
        for tool in mcp_tools(declared, servers).values():
            outcome = await tool.run(ToolInvocation("reply-1", "call-1", _arguments(tool.schema)))
            print(tool.name, outcome)
            assert not outcome.is_error, outcome


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
