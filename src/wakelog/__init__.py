"""wakelog: a durable, append-only session log and crash-safe runtime for AI agents.

The names in `__all__` are the public API; `tests/test_public_names.py` checks the list. They are imported on first use,
because the command line imports this package too, and listing sessions should not load the runtime.
"""

import importlib

# Type checkers treat this name as true; importing `typing` for it would double the time of `--version`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from wakelog.app.agent import Agent
    from wakelog.decide.policy import Policy
    from wakelog.errors import Conflict, LeaseLost, NotFound, OpenToolCalls, StoreError, UsageError, WakelogError
    from wakelog.forking import fork
    from wakelog.identity import latest
    from wakelog.log.content import Audio, Image, Prompt, Reply, Text, Thinking, ToolCall, ToolResult, Usage
    from wakelog.log.entry import Entry, Message
    from wakelog.projections.context import build_context
    from wakelog.projections.overview import overview
    from wakelog.projections.pending import pending
    from wakelog.projections.transcript import transcript
    from wakelog.reading import read_log
    from wakelog.runtime.live import LiveRuntime
    from wakelog.runtime.replay.verification import replay
    from wakelog.runtime.wake import wake
    from wakelog.session import Session
    from wakelog.stores import open_store
    from wakelog.tools import tool
    from wakelog.version import VERSION as __version__

_EXPORTS = {
    "app.agent": ("Agent",),
    "errors": ("Conflict", "LeaseLost", "NotFound", "OpenToolCalls", "StoreError", "UsageError", "WakelogError"),
    "forking": ("fork",),
    "identity": ("latest",),
    "runtime.live": ("LiveRuntime",),
    "log.content": ("Audio", "Image", "Prompt", "Reply", "Text", "Thinking", "ToolCall", "ToolResult", "Usage"),
    "log.entry": ("Entry", "Message"),
    "reading": ("read_log",),
    "runtime.replay.verification": ("replay",),
    "session": ("Session",),
    "stores": ("open_store",),
    "tools": ("tool",),
    "decide.policy": ("Policy",),
    "version": ("__version__",),
    "projections.context": ("build_context",),
    "projections.overview": ("overview",),
    "projections.pending": ("pending",),
    "projections.transcript": ("transcript",),
    "runtime.wake": ("wake",),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = [
    "Agent",
    "Audio",
    "Conflict",
    "Entry",
    "Image",
    "LeaseLost",
    "LiveRuntime",
    "Message",
    "NotFound",
    "OpenToolCalls",
    "Policy",
    "Prompt",
    "Reply",
    "Session",
    "StoreError",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolResult",
    "Usage",
    "UsageError",
    "WakelogError",
    "__version__",
    "build_context",
    "fork",
    "latest",
    "open_store",
    "overview",
    "pending",
    "read_log",
    "replay",
    "tool",
    "transcript",
    "wake",
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
