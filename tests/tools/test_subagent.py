"""TREE-6: declarations of sub-agents in the log, and restoring them from it."""

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


def test_sub_agents_are_restored_from_their_declaration():
    """RUN-19: from the declaration alone; without sub-agents, the declaration of the tool is unchanged."""
    assert declared_profiles([{"name": "read"}, SubagentTool(OTHERS).declared()]) == OTHERS
    assert declared_profiles([SubagentTool().declared()]) == declared_profiles([]) == {}
    assert list(SubagentTool().declared()) == ["name", "description", "schema", "replay"]


def test_equal_sub_agents_have_equal_declarations():
    """Law 8: unchanged sub-agents do not change the declaration."""
    store = MemoryStore()
    assert store_declarations(store, [SubagentTool(OTHERS)]) == store_declarations(store, [SubagentTool(dict(OTHERS))])


@pytest.mark.parametrize("agents", [[], "all", {"a": 1}, {"a": {"tools": "read"}}])
def test_an_invalid_declaration_is_refused(agents):
    """Law 9: it is reported, not guessed."""
    with pytest.raises(Damaged, match="cannot be read"):
        declared_profiles([{"name": "agent", "agents": agents}])
