"""Tools for agents: the `tool` decorator, the six built-in tools and the sub-agent tool.

Rule 1: a tool raises nothing for external failures; it returns an `Outcome`. Exceptions report mistakes of the tool's
author, before the tool starts.
Rule 2: every tool declares with `replay` what may happen to a call whose outcome is unknown; the default is the safest
value, `never`.
Rule 3: tools depend on the ports only and know nothing of sessions, stores or turns. The runtime writes the log.
"""

from wakelog.tools.builtin import BUILTIN_NAMES, builtin_tools
from wakelog.tools.function_tool import FunctionTool, as_tools, by_name, tool
from wakelog.tools.subagent import SubAgentTool

__all__ = ["BUILTIN_NAMES", "FunctionTool", "SubAgentTool", "as_tools", "builtin_tools", "by_name", "tool"]
