"""What an agent can do: functions made into tools, and the six that ship.

Rule 1: a tool raises nothing for what it meets outside; it answers an `Outcome`. Exceptions are for the
author's mistakes, and say so before the tool is begun.
Rule 2: every tool says what may happen if nobody knows whether it ran (`replay`), and the default is the
careful word, `never`.
Rule 3: tools know the ports and nothing of sessions, stores or turns. Whoever runs them keeps the log.
"""

from wakelog.tools.builtin import BUILTIN_NAMES, builtin_tools
from wakelog.tools.function_tool import FunctionTool, as_tools, by_name, tool
from wakelog.tools.subagent import SubAgentTool

__all__ = ["BUILTIN_NAMES", "FunctionTool", "SubAgentTool", "as_tools", "builtin_tools", "by_name", "tool"]
