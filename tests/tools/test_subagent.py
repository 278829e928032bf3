"""TREE-6: what a log says of those who can be sent out, and back."""

import pytest

from wakelog.decide.policy import Policy, stored_policy
from wakelog.errors import Damaged
from wakelog.runtime.context_entry import store_declarations
from wakelog.stores.memory import MemoryStore
from wakelog.tools.subagent import SubagentProfile, SubagentTool, declared_profiles

OTHERS = {
    "reviewer": SubagentProfile(
        model="demo",
        system="Be strict.",
        tools=({"name": "read"},),
        servers=("search",),
        params={"effort": "low"},
        policy=stored_policy(Policy(approval="deny")),
    ),
    "writer": SubagentProfile(),
}


def test_they_come_back_as_they_were_declared():
    """RUN-19: from the declaration alone; without any, the tool is declared as it always was."""
    assert declared_profiles([{"name": "read"}, SubagentTool(OTHERS).declared()]) == OTHERS
    assert declared_profiles([SubagentTool().declared()]) == declared_profiles([]) == {}
    assert list(SubagentTool().declared()) == ["name", "description", "schema", "replay"]


def test_the_same_agents_are_the_same_bytes():
    """Law 8: what did not change is no news."""
    store = MemoryStore()
    assert store_declarations(store, [SubagentTool(OTHERS)]) == store_declarations(store, [SubagentTool(dict(OTHERS))])


@pytest.mark.parametrize("agents", [[], "all", {"a": 1}, {"a": {"tools": "read"}}])
def test_what_cannot_be_read(agents):
    """Law 9: nobody guesses who was meant."""
    with pytest.raises(Damaged, match="cannot be read"):
        declared_profiles([{"name": "agent", "agents": agents}])
