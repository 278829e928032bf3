"""TREE-6: what a log says of those who can be sent out, and back."""

import pytest

from wakelog.agent import store_declarations
from wakelog.decide.policy import Policy, policy_written
from wakelog.errors import Damaged
from wakelog.stores.memory import MemoryStore
from wakelog.tools.subagent import SubagentProfile, SubAgentTool, others_in

OTHERS = {
    "reviewer": SubagentProfile(
        model="demo",
        system="Be strict.",
        tools=({"name": "read"},),
        servers=("search",),
        params={"effort": "low"},
        policy=policy_written(Policy(approval="deny")),
    ),
    "writer": SubagentProfile(),
}


def test_they_come_back_as_they_were_declared():
    """RUN-19: from the declaration alone; without any, the tool is declared as it always was."""
    assert others_in([{"name": "read"}, SubAgentTool(OTHERS).declared()]) == OTHERS
    assert others_in([SubAgentTool().declared()]) == others_in([]) == {}
    assert list(SubAgentTool().declared()) == ["name", "description", "schema", "replay"]


def test_the_same_agents_are_the_same_bytes():
    """Law 8: what did not change is no news."""
    store = MemoryStore()
    assert store_declarations(store, [SubAgentTool(OTHERS)]) == store_declarations(store, [SubAgentTool(dict(OTHERS))])


@pytest.mark.parametrize("agents", [[], "all", {"a": 1}, {"a": {"tools": "read"}}])
def test_what_cannot_be_read(agents):
    """Law 9: nobody guesses who was meant."""
    with pytest.raises(Damaged, match="cannot be read"):
        others_in([{"name": "agent", "agents": agents}])
