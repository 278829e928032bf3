"""MCP servers as tools: a server is described by a value, recorded in the log and started on first use.

Rule 1: what a server states about its tools is untrusted. Its hints set `replay` only if the user marked the server
as trusted; its names, descriptions and results are bounded and sanitized before they are used.
Rule 2: each declared tool carries the value of its server, so that a session wakes from its log alone. That value
names environment variables and never holds their contents.
Rule 3: a server that is missing, silent, faulty or dead gives an error outcome and never ends the agent.
Rule 4: the SDK is imported when a server is started, not before: it is an optional extra, and slow to import.

Read in this order: `server` (the value), `conversion` (listings, declarations, results), `pool` (tools, and the
servers that run), then with the SDK `connection`, `transport`, and `guard` (the program around a server process).
"""

from wakelog.tools.mcp.pool import McpTool, ServerPool, mcp_tools
from wakelog.tools.mcp.server import McpServer, parse_server

__all__ = ["McpServer", "McpTool", "ServerPool", "mcp_tools", "parse_server"]
