"""Hooks: texts for the model that are generated before each run, by built-in hooks, commands or custom hooks.

Rule 1: the text of a hook is used in one run and never becomes history (VIEW-7). The log keeps the text as a blob that
the model call names, so that the request can be rebuilt.
Rule 2: the log says which hooks are in force, with everything that is needed to create them again (RUN-19).
Rule 3: a hook that fails does not stop the run: its text is then a note that it failed, for the model and in the log.
"""

from collections.abc import Mapping

from wakelog.decide.policy import HookSettings
from wakelog.errors import NotFound
from wakelog.hooks.builtin import AgentsHook, CommandHook, EnvironmentHook, MemoryHook, OpenCatalog
from wakelog.ports.runtime import Hook

HOOK_NAMES = ("environment", "memory", "agents")
__all__ = ["HOOK_NAMES", "OpenCatalog", "open_hook"]


def open_hook(settings: HookSettings, custom: Mapping[str, Hook], catalog: OpenCatalog | None) -> Hook:
    """Return the hook with these settings: one of `custom`, a command, or a built-in one; else raise `NotFound`."""
    if settings.name in custom:
        return custom[settings.name]
    if "command" in settings.options:
        return CommandHook.from_settings(settings)
    if settings.name == "environment":
        return EnvironmentHook()
    if settings.name == "agents":
        return AgentsHook.from_settings(settings)
    if settings.name == "memory" and catalog is not None:
        return MemoryHook(catalog)
    raise NotFound(
        f"the hook {settings.name!r} is not available here", hint="wake the session in a program that defines it"
    )
