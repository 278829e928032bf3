"""MCP servers as tools: a server is described by a value, recorded in the log and started on first use.

Rule 1: what a server states about its tools is untrusted. Its hints set `replay` only if the user marked the server as
trusted; its names, descriptions and results are bounded and sanitized before they are used.
Rule 2: each declared tool carries the value of its server, so that a session wakes from its log alone. That value names
environment variables and never holds their contents.
Rule 3: a server that is missing, silent, faulty or dead gives an error outcome and never ends the agent.
Rule 4: the SDK is imported when a server is started, not before: it is an optional extra, and slow to import.
"""

from wakelog.tools.mcp.server import McpServer, server_of
from wakelog.tools.mcp.servers import Servers
from wakelog.tools.mcp.tool import McpTool, mcp_tools

__all__ = ["McpServer", "McpTool", "Servers", "mcp_tools", "server_of"]
