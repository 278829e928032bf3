"""An MCP server made with the SDK, on standard input and output or on a port of the loopback.

    python -m tests.tools.mcp.sdk_server FOLDER [MANNER]

It writes the port it was given by the system to FOLDER/port. Manners: `json` answers without streams, `stateless`
knows no sessions.
"""

import asyncio
import os
import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import ToolAnnotations

server = MCPServer("sdk", log_level="CRITICAL")
FOLDER = sys.argv[1]


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def wait(name: str) -> str:
    """Waits for ever, and takes down that it began and that it was stopped."""
    _touch(f"{name}-began")
    try:
        await asyncio.Event().wait()
    finally:
        _touch(f"{name}-stopped")
    return ""


@server.tool()
async def climb(steps: int, ctx: Context) -> str:
    """Says how far it has come, step by step."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps, f"step\n{step + 1}")
    return "there"


@server.tool()
def header(name: str, ctx: Context) -> str:
    """A header of this request."""
    return (ctx.headers or {}).get(name, "none")


@server.tool()
def huge(size: int) -> str:
    """Much."""
    return "x" * size


@server.tool()
def refuse() -> str:
    """Fails."""
    raise ValueError("no")


def _touch(name):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8"):
        pass


def main(manner=""):
    if manner == "stdio":
        server.run("stdio")
        return
    listening = socket.create_server(("127.0.0.1", 0))
    app = server.streamable_http_app(
        json_response=manner == "json",
        stateless_http=manner == "stateless",
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    with open(os.path.join(FOLDER, "port.new"), "w", encoding="utf-8") as file:
        file.write(str(listening.getsockname()[1]))
    os.rename(os.path.join(FOLDER, "port.new"), os.path.join(FOLDER, "port"))
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[2:])
