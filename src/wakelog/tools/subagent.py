"""The `agent` tool, which gives a task to a sub-agent: a session of its own, whose last reply is the result (TREE-6).

This module holds only the tool's declaration and the agents that can be started. The runtime runs the tool, because
that takes a session, a model and tools; the child's session is the receipt.
Rule (law 2, the log is the only state): the declaration in the log holds every agent that can be started, with all that
its session begins with. Waking a session starts them from there and reads no configuration.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from wakelog.decoding import convert
from wakelog.errors import Damaged
from wakelog.log.content import JsonObject, Value
from wakelog.log.entry import ReplayMode
from wakelog.ports.runtime import ReceiptAnswer, ToolInvocation, ToolOutcome

SUBAGENT_NAME = "agent"
_AGENT_PARAMETER = "Who is sent: an agent that has its own instructions and tools. Without it, one like yourself."


class SubagentProfile(Value, frozen=True, kw_only=True):
    """An agent that can be started: what its session begins with. `model` is PROVIDER:NAME; None: the parent's model.

    `servers` names MCP servers; of these the agent gets the tools that its parent has.
    """

    model: str | None = None
    system: str = ""
    tools: tuple[JsonObject, ...] = ()
    servers: tuple[str, ...] = ()
    params: JsonObject = {}
    policy: JsonObject = {}


class SubagentTool:
    """Starts a sub-agent with a prompt: one like the parent, or one of the `others`."""

    name = SUBAGENT_NAME
    description = (
        "Hands a task to a sub-agent that has the same tools and sees nothing of this conversation. "
        "Its last reply is the result, so say in the prompt everything it must know."
    )
    replay: ReplayMode = "receipt"

    def __init__(self, others: Mapping[str, SubagentProfile] | None = None) -> None:
        self._others = dict(others or {})
        agent_schema = {"type": "string", "enum": list(self._others), "description": _AGENT_PARAMETER}
        self.schema: Mapping[str, Any] = {
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "description": "The task, complete in itself."},
                **({"agent": agent_schema} if self._others else {}),
            },
            "required": ["prompt"],
            "additionalProperties": False,
        }

    def declared(self) -> dict[str, Any]:
        """Return the declaration for the model and the log; the model sees only the names of the others."""
        declaration = {"name": self.name, "description": self.description, "schema": self.schema, "replay": self.replay}
        return declaration | ({"agents": msgspec.to_builtins(self._others)} if self._others else {})

    async def prepare(self, call: ToolInvocation) -> Mapping[str, Any]:  # noqa: ARG002 - the port's signature
        """See `ports.Tool`."""
        return {}

    async def run(self, call: ToolInvocation) -> ToolOutcome:  # noqa: ARG002
        """See `ports.Tool`."""
        return ToolOutcome("A sub-agent can only be run inside a session.", is_error=True)

    async def receipt(self, call: ToolInvocation) -> ReceiptAnswer:  # noqa: ARG002
        """See `ports.Tool`."""
        return "cannot say"


def declared_profiles(declared: Sequence[Mapping[str, Any]]) -> dict[str, SubagentProfile]:
    """Return the agents that can be started, from the tools' declarations; `Damaged` if they cannot be read."""
    found = [tool.get("agents", {}) for tool in declared if tool.get("name") == SUBAGENT_NAME]
    try:
        return convert(found[0], dict[str, SubagentProfile]) if found else {}
    except msgspec.ValidationError as error:
        raise Damaged(f"the declared sub-agents cannot be read: {error}", hint="check the tools in force") from None
