"""Results of MCP tool calls as outcomes for the model and the log, and progress lines.

Pure: it takes the result as the JSON object from the wire. Images and audio are passed on unchanged, and named in the
text at their place. Everything else that is not text is named with its kind, so that nothing is dropped silently.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec

from wakelog.decide.clip import storable
from wakelog.log.content import Audio, Image, Media
from wakelog.ports import Outcome
from wakelog.tools.mcp.declaring import one_line

_NOTHING = "[no output]"
_MEDIA: Mapping[str, type[Image | Audio]] = {"image": Image, "audio": Audio}


def outcome_of(result: Mapping[str, Any]) -> Outcome:
    """Return the outcome of a tool call; structured content is used if there is no text."""
    parts = [part for part in result.get("content") or () if isinstance(part, Mapping)]
    media = [_media(part) for part in parts]
    told = [_told(part, shown=found is not None) for part, found in zip(parts, media, strict=True)]
    structured = result.get("structuredContent")
    if structured is not None and not any(part.get("type") == "text" for part in parts):
        told.append(msgspec.json.encode(structured, order="deterministic").decode())
    return Outcome(
        storable("\n".join(told)) or _NOTHING,
        is_error=result.get("isError") is True,
        media=tuple(found for found in media if found is not None),
    )


def progress_line(done: float, total: float | None, message: str | None) -> str:
    """Return the progress of a call as a line of live output."""
    share = f"{done:g}/{total:g}" if total is not None else f"{done:g}"
    return f"[{share}] {one_line(message)}\n" if message else f"[{share}]\n"


def _media(part: Mapping[str, Any]) -> Media | None:
    """Return the image or audio of a part, also inside a resource; None if there is none that can be decoded."""
    match part:
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            return _decodable(kind, part.get("mimeType"), data)
        case {"type": "resource", "resource": {"mimeType": str(mime), "blob": str(data)}}:
            return _decodable(mime.partition("/")[0], mime, data)
    return None


def _decodable(kind: str, mime: Any, data: str) -> Media | None:
    made = _MEDIA.get(kind)
    try:
        is_something = bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return None
    return made(mime_type=storable(str(mime or "")), data=data) if made is not None and is_something else None


def _told(part: Mapping[str, Any], *, shown: bool) -> str:
    """Return one part of a result as text."""
    end = "" if shown else ", not shown"
    match part.get("type"):
        case "text":
            return str(part.get("text", ""))
        case "image" | "audio" as kind:
            return f"[{kind}: {part.get('mimeType')}, {_size(part.get('data'))}{end}]"
        case "resource":
            return _resource(part.get("resource") or {}, end)
        case "resource_link":
            return f"[link: {part.get('name')} {part.get('uri')}]"
        case kind:
            return f"[{kind}: not shown]"


def _resource(resource: Mapping[str, Any], end: str) -> str:
    head = f"[resource: {resource.get('uri')}"
    if isinstance(resource.get("text"), str):
        return f"{head}]\n{resource['text']}"
    return f"{head}, {resource.get('mimeType') or 'unknown'}, {_size(resource.get('blob'))}{end}]"


def _size(encoded: Any) -> str:
    """Return the decoded size of a base64 text, with its unit."""
    text = encoded if isinstance(encoded, str) else ""
    return f"{len(text) * 3 // 4 - text[-2:].count('='):,} bytes"
