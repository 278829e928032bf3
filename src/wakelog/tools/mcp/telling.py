"""The result of a call in text: what the model reads, and what the log keeps; and what is told on the way there.

Pure: it takes the result as the JSON object it was on the wire. Whatever is not text is named with its kind and size,
so that nothing is lost in silence.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from wakelog.ports import Outcome
from wakelog.tools.clip import storable
from wakelog.tools.mcp.declaring import one_line

_NOTHING = "[no output]"


def outcome_of(result: Mapping[str, Any]) -> Outcome:
    """What a tool answered; structured content speaks where there is no text."""
    parts = [part for part in result.get("content") or () if isinstance(part, Mapping)]
    told = [_told(part) for part in parts]
    structured = result.get("structuredContent")
    if structured is not None and not any(part.get("type") == "text" for part in parts):
        told.append(msgspec.json.encode(structured, order="deterministic").decode())
    return Outcome(storable("\n".join(told)) or _NOTHING, is_error=result.get("isError") is True)


def progress_line(done: float, total: float | None, message: str | None) -> str:
    """How far a call has come, as a line of live output."""
    share = f"{done:g}/{total:g}" if total is not None else f"{done:g}"
    return f"[{share}] {one_line(message)}\n" if message else f"[{share}]\n"


def _told(part: Mapping[str, Any]) -> str:
    """One part of a result."""
    match part.get("type"):
        case "text":
            return str(part.get("text", ""))
        case "image" | "audio" as kind:
            return f"[{kind}: {part.get('mimeType')}, {_size(part.get('data'))}, not shown]"
        case "resource":
            return _resource(part.get("resource") or {})
        case "resource_link":
            return f"[link: {part.get('name')} {part.get('uri')}]"
        case kind:
            return f"[{kind}: not shown]"


def _resource(resource: Mapping[str, Any]) -> str:
    head = f"[resource: {resource.get('uri')}"
    if isinstance(resource.get("text"), str):
        return f"{head}]\n{resource['text']}"
    return f"{head}, {resource.get('mimeType') or 'unknown'}, {_size(resource.get('blob'))}, not shown]"


def _size(encoded: Any) -> str:
    """How many bytes a base64 text stands for."""
    text = encoded if isinstance(encoded, str) else ""
    return f"{len(text) * 3 // 4 - text[-2:].count('='):,} bytes"
