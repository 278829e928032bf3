"""The `agents` hook: lists the agents that can be started as subagents, with a line about each."""

from typing import Self

import msgspec

from wakelog.decide.policy import HookTerms
from wakelog.errors import Damaged
from wakelog.ports import RunInfo


class Known(msgspec.Struct, frozen=True):
    """One agent in the list."""

    name: str
    description: str = ""


class AgentList:
    """See `ports.Hook`."""

    name = "agents"

    def __init__(self, known: tuple[Known, ...]) -> None:
        self._known = known

    @classmethod
    def of(cls, terms: HookTerms) -> Self:
        """Create the hook from its options in the log; `Damaged` if they cannot be read."""
        try:
            return cls(msgspec.convert(terms.options.get("agents", ()), tuple[Known, ...]))
        except msgspec.ValidationError as error:
            raise Damaged(f"the agents in the policy cannot be read: {error}") from None

    async def before_run(self, occasion: RunInfo) -> str:
        """See `ports.Hook`. The running agent itself is left out."""
        others = [known for known in self._known if known.name != occasion.agent]
        lines = [f"- {known.name}: {known.description}".removesuffix(": ") for known in others]
        return "\n".join(["<agents>", *lines, "</agents>"]) if lines else ""
