"""VIEW-7: the list of agents, from the log; an agent is not in its own list."""

import asyncio

import pytest

from wakelog.decide.policy import HookSettings
from wakelog.errors import Damaged
from wakelog.hooks import open_hook
from wakelog.ports.runtime import HookContext


def said(agent, *known):
    hook = open_hook(HookSettings(name="agents", options={"agents": list(known)}), {}, None)
    return asyncio.run(hook.before_run(HookContext("s", "u", agent, "me", "", "Hi.", 0)))


def test_the_list_has_the_other_agents():
    known = {"name": "reviewer", "description": "reads what was changed"}, {"name": "crab"}, {"name": "runner"}
    assert said("crab", *known) == "<agents>\n- reviewer: reads what was changed\n- runner\n</agents>"
    assert said("crab", {"name": "crab"}) == ""


def test_an_unreadable_list_is_damage():
    """Law 9: no agents are guessed."""
    with pytest.raises(Damaged, match="agents"):
        said("crab", {"description": "nameless"})
