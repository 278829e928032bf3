"""The session log that AI agents wake from.

These names are the library; everything else is found in the room it belongs to. A test holds the list.
They are looked up when first used: the command line passes through here too, and a command that lists
sessions should not pay for what runs them.
"""

import importlib

# A type checker takes this name for true; importing `typing` for it would double the time of `--version`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from wakelog.errors import Conflict, LeaseLost, NotFound, StoreError, UsageError, WakelogError
    from wakelog.forking import fork
    from wakelog.log.content import Prompt, Reply, Text, Thinking, ToolCall, ToolResult, Usage
    from wakelog.log.entry import Entry, Message
    from wakelog.log.tree import Branch, Tree
    from wakelog.reading import Log, read_log
    from wakelog.session import Session, latest
    from wakelog.stores import open_store
    from wakelog.version import VERSION as __version__
    from wakelog.views.context import build_context
    from wakelog.views.overview import overview
    from wakelog.views.pending import pending
    from wakelog.views.transcript import transcript

_ROOMS = {
    "errors": ("Conflict", "LeaseLost", "NotFound", "StoreError", "UsageError", "WakelogError"),
    "forking": ("fork",),
    "log.content": ("Prompt", "Reply", "Text", "Thinking", "ToolCall", "ToolResult", "Usage"),
    "log.entry": ("Entry", "Message"),
    "log.tree": ("Branch", "Tree"),
    "reading": ("Log", "read_log"),
    "session": ("Session", "latest"),
    "stores": ("open_store",),
    "version": ("__version__",),
    "views.context": ("build_context",),
    "views.overview": ("overview",),
    "views.pending": ("pending",),
    "views.transcript": ("transcript",),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "Branch",
    "Conflict",
    "Entry",
    "LeaseLost",
    "Log",
    "Message",
    "NotFound",
    "Prompt",
    "Reply",
    "Session",
    "StoreError",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolResult",
    "Tree",
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
    "transcript",
]


def __getattr__(name: str) -> object:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'wakelog' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"wakelog.{_ROOM_OF[name]}"), "VERSION" if name == "__version__" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
