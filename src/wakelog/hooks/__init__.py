"""What is said to the model before a run, made fresh each time: hooks, the four that ship and anybody's own.

Rule 1: what a hook says is shown in one run and never becomes history (VIEW-7). The log keeps which text it was, as
a blob that the call names, so that the request can be told again.
Rule 2: which hooks are in force stands in the log, with all that is needed to make them anew (RUN-19).
Rule 3: a hook that fails does not stop the run: the model is told that it failed, and so is whoever reads the log.
"""

from collections.abc import Mapping

from wakelog.decide.policy import HookTerms
from wakelog.errors import NotFound
from wakelog.hooks.agents import AgentList
from wakelog.hooks.command import CommandHook
from wakelog.hooks.environment import Environment
from wakelog.hooks.recall import OpenCatalog, Recall
from wakelog.ports import Hook

HOOK_NAMES = ("environment", "memory", "agents")
__all__ = ["HOOK_NAMES", "OpenCatalog", "open_hook"]


def open_hook(terms: HookTerms, given: Mapping[str, Hook], catalog: OpenCatalog | None) -> Hook:
    """The hook that was agreed on: one that was handed in, one that ships, or a command."""
    if terms.name in given:
        return given[terms.name]
    if "command" in terms.options:
        return CommandHook.of(terms)
    if terms.name == "environment":
        return Environment()
    if terms.name == "agents":
        return AgentList.of(terms)
    if terms.name == "memory" and catalog is not None:
        return Recall(catalog)
    raise NotFound(f"the hook {terms.name!r} is not at hand here", hint="wake the session where that hook is")
