"""The declared tools of a session as the decision table sees them, and the check of the names in `Policy.approvals`.

A misspelt name in `approvals` would leave the tool that was meant without its approval. So every name must be that of a
declared tool, or may be that of one which the session can still get:
- a tool of an MCP server that was configured and could not be reached (`absentServers` in the environment);
- a built-in tool that was not selected, where all declared tools are built in or of MCP servers.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wakelog.decide.policy import Policy
from wakelog.errors import UsageError
from wakelog.log.entry import ContextEntry
from wakelog.ports.stores import Blobs
from wakelog.runtime.context_entry import absent_servers
from wakelog.runtime.model_request import declared_tools
from wakelog.tools import BUILTIN_NAMES
from wakelog.tools.mcp.conversion import may_be_tool_of
from wakelog.tools.subagent import SUBAGENT_NAME

_SHIPPED_NAMES = frozenset((*BUILTIN_NAMES, SUBAGENT_NAME))
_NAMES_SHOWN = 20
_NAME_CHARS = 64


class ToolDeclarations:
    """The tool declarations of the `context` entry in force, read from their blob when they are first needed."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._read: tuple[ContextEntry | None, list[Mapping[str, Any]]] | None = None

    def of(self, context: ContextEntry | None) -> Sequence[Mapping[str, Any]]:
        """Return the declarations of a `context` entry."""
        if self._read is None or self._read[0] is not context:
            declared = declared_tools(self._blobs, context.tools, context.id) if context is not None else []
            self._read = context, declared
        return self._read[1]

    def accepts_marks(self, context: ContextEntry | None, tool: str) -> bool:
        """See `DeclaredTools`."""
        return any(each.get("name") == tool and each.get("acceptsMarks") is True for each in self.of(context))

    def approvals_fault(self, context: ContextEntry | None, policy: Policy) -> str:
        """See `DeclaredTools`."""
        error = self.approvals_error(context, policy)
        return f"{error.message}: {error.hint}" if error is not None else ""

    def approvals_error(self, context: ContextEntry | None, policy: Policy) -> UsageError | None:
        """Return why approvals cannot be applied to the tools of a `context` entry; None if they can."""
        if not policy.approvals:
            return None
        return approvals_error(policy, self.of(context), absent_servers(context.environment if context else {}))


def approvals_error(
    policy: Policy, declared: Sequence[Mapping[str, Any]], absent: Iterable[Mapping[str, Any]]
) -> UsageError | None:
    """Return the error for the first name in `approvals` that is no tool; None if every name is known."""
    names = [str(tool.get("name", "")) for tool in declared]
    known = {*names} | (_SHIPPED_NAMES if all(map(_is_shipped, declared)) else frozenset())
    servers = [str(server.get("name", "")) for server in absent]
    for name in policy.approvals:
        if name not in known and not any(may_be_tool_of(server, name) for server in servers):
            return UsageError(
                f"approvals names a tool {name[:_NAME_CHARS]!r} that does not exist", hint=_hint(name, names)
            )
    return None


def _is_shipped(declared: Mapping[str, Any]) -> bool:
    origin = declared.get("from")
    return declared.get("name") in _SHIPPED_NAMES or (isinstance(origin, Mapping) and "mcp" in origin)


def _hint(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name[:_NAME_CHARS], names, 1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"the tools are {', '.join(names[:_NAMES_SHOWN])}" if names else "the agent has no tools"
