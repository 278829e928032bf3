"""The tool that hands work to a sub-agent: a session of its own, whose last reply is the result (TREE-6).

Only what the model is told of it lives here. It is run by whoever runs the session, because it needs a
session, a model and tools, and tools know nothing of those; the child's session is its receipt.
"""

from collections.abc import Mapping
from typing import Any

from wakelog.log.entry import Replay
from wakelog.ports import Answer, Invocation, Outcome

SUBAGENT_NAME = "agent"


class SubAgentTool:
    """Begins a sub-agent with a prompt."""

    name = SUBAGENT_NAME
    description = (
        "Hands a task to a sub-agent that has the same tools and sees nothing of this conversation. "
        "Its last reply is the result, so say in the prompt everything it must know."
    )
    schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {"prompt": {"type": "string", "description": "The task, complete in itself."}},
        "required": ["prompt"],
        "additionalProperties": False,
    }
    replay: Replay = "receipt"

    async def prepare(self, call: Invocation) -> Mapping[str, Any]:  # noqa: ARG002 - the port's signature
        """See `ports.Tool`."""
        return {}

    async def run(self, call: Invocation) -> Outcome:  # noqa: ARG002
        """See `ports.Tool`."""
        return Outcome("A sub-agent can only be run inside a session.", is_error=True)

    async def receipt(self, call: Invocation) -> Answer:  # noqa: ARG002
        """See `ports.Tool`."""
        return "cannot say"
