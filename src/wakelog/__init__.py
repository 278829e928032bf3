"""wakelog: a durable, append-only session log and crash-safe runtime for AI agents.

The names in `__all__` are the public API; `tests/test_public_names.py` checks the list. They are imported on first use,
because the command line imports this package too, and listing sessions should not load the runtime.
"""

import importlib

# Type checkers treat this name as true; importing `typing` for it would double the time of `--version`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from wakelog.app.agent import Agent
    from wakelog.app.agent_run import Restarted, RunResult, ToolFinished, ToolStarted
    from wakelog.decide.policy import Policy
    from wakelog.errors import Conflict, LeaseLost, NotFound, OpenToolCalls, StoreError, UsageError, WakelogError
    from wakelog.log.content import (
        Audio,
        Faulted,
        Finished,
        Image,
        Prompt,
        Reply,
        Text,
        TextDelta,
        Thinking,
        ThinkingDelta,
        ToolCall,
        ToolCallDelta,
        ToolResult,
        Usage,
    )
    from wakelog.log.entry import Entry
    from wakelog.ports.runtime import Channel, Hook, HookContext, ModelRequest, Provider, ToolInvocation, ToolOutcome
    from wakelog.ports.stores import Store
    from wakelog.questions import Question
    from wakelog.runtime.replay.verification import replay
    from wakelog.session import Session
    from wakelog.stores import open_store
    from wakelog.tools import tool
    from wakelog.version import VERSION as __version__

_EXPORTS = {
    "app.agent": ("Agent",),
    "app.agent_run": (
        "Restarted",
        "RunResult",
        "ToolFinished",
        "ToolStarted",
    ),
    "decide.policy": ("Policy",),
    "errors": (
        "Conflict",
        "LeaseLost",
        "NotFound",
        "OpenToolCalls",
        "StoreError",
        "UsageError",
        "WakelogError",
    ),
    "log.content": (
        *("Audio", "Faulted", "Finished", "Image", "Prompt", "Reply", "Text", "TextDelta", "Thinking", "ThinkingDelta"),
        *("ToolCall", "ToolCallDelta", "ToolResult", "Usage"),
    ),
    "log.entry": ("Entry",),
    "ports.runtime": (
        "Channel",
        "Hook",
        "HookContext",
        "ModelRequest",
        "Provider",
        "ToolInvocation",
        "ToolOutcome",
    ),
    "ports.stores": ("Store",),
    "questions": ("Question",),
    "runtime.replay.verification": ("replay",),
    "session": ("Session",),
    "stores": ("open_store",),
    "tools": ("tool",),
    "version": ("__version__",),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = [
    "Agent",
    "Audio",
    "Channel",
    "Conflict",
    "Entry",
    "Faulted",
    "Finished",
    "Hook",
    "HookContext",
    "Image",
    "LeaseLost",
    "ModelRequest",
    "NotFound",
    "OpenToolCalls",
    "Policy",
    "Prompt",
    "Provider",
    "Question",
    "Reply",
    "Restarted",
    "RunResult",
    "Session",
    "Store",
    "StoreError",
    "Text",
    "TextDelta",
    "Thinking",
    "ThinkingDelta",
    "ToolCall",
    "ToolCallDelta",
    "ToolFinished",
    "ToolInvocation",
    "ToolOutcome",
    "ToolResult",
    "ToolStarted",
    "Usage",
    "UsageError",
    "WakelogError",
    "__version__",
    "open_store",
    "replay",
    "tool",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'wakelog' has no attribute {name!r}")
    value = getattr(
        importlib.import_module(f"wakelog.{_MODULE_OF[name]}"), "VERSION" if name == "__version__" else name
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
