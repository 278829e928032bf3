"""VIEW-7: the list of agents, from the log; nobody is told of itself."""

import asyncio

import pytest

from wakelog.decide.policy import HookSettings
from wakelog.errors import Damaged
from wakelog.hooks import open_hook
from wakelog.ports.runtime import HookContext


def said(agent, *known):
    hook = open_hook(HookSettings(name="agents", options={"agents": list(known)}), {}, None)
    return asyncio.run(hook.before_run(HookContext("s", "u", agent, "me", "", "Hi.", 0)))


def test_the_others():
    known = {"name": "reviewer", "description": "reads what was changed"}, {"name": "crab"}, {"name": "runner"}
    assert said("crab", *known) == "<agents>\n- reviewer: reads what was changed\n- runner\n</agents>"
    assert said("crab", {"name": "crab"}) == ""


def test_what_cannot_be_read():
    """Law 9: nobody guesses what was agreed."""
    with pytest.raises(Damaged, match="agents"):
        said("crab", {"description": "nameless"})
