"""MCP servers as tools: described by a value, named in the log, started when first needed.

Rule 1: what a server says of its tools is a claim. Its hints give the replay word only if the user marked the server
as trusted; its names, descriptions and results are bounded and made harmless before anybody sees them.
Rule 2: each declared tool carries the value of its server, so that a session wakes from its log alone. That value
names variables and never holds what is in them.
Rule 3: a server that is missing, silent, mad or dead is an outcome that says so, never the end of the agent.
Rule 4: the SDK is loaded when a server is started and not before: it is an extra, and it is slow to load.
"""

from wakelog.tools.mcp.server import McpServer, server_of
from wakelog.tools.mcp.servers import Servers
from wakelog.tools.mcp.tool import McpTool, mcp_tools

__all__ = ["McpServer", "McpTool", "Servers", "mcp_tools", "server_of"]
