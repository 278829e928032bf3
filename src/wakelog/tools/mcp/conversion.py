"""Conversion between MCP's JSON and wakelog's values: tool listings, declarations and results.

Pure. A listing comes from outside: names are made valid for every provider, descriptions are cut, and a tool that
cannot be declared is left out with a reason. The same listing gives the same declarations in any order, so that
each request is a prefix of the next (law 8).
In a result, images and audio are passed on unchanged, and named in the text at their place. Everything else that is
not text is named with its kind, so that nothing is dropped silently.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from wakelog.decide.wording import clip, valid_utf8
from wakelog.errors import UsageError
from wakelog.log.content import Audio, Image, Media
from wakelog.log.entry import ReplayMode
from wakelog.ports.runtime import ToolOutcome
from wakelog.tools.mcp.server import McpServer, parse_server

_NAME_CHARS = 64
_DIGEST_CHARS = 8
_DESCRIPTION_BYTES = 8 * 1024
_SCHEMA_BYTES = 64 * 1024
_TOOLS_MAX = 512
_NOTICES_MAX = 10
_INVALID_NAME_CHARS = re.compile(r"[^A-Za-z0-9_-]")
_CONTROL_CHARS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")


class ListedTool(msgspec.Struct, frozen=True):
    """A tool as its server lists it; `hints` are its annotations as JSON.

    `fault` says why it cannot be read; empty if it can.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    hints: Mapping[str, Any] = {}
    fault: str = ""


class ToolSource(msgspec.Struct, frozen=True):
    """Origin of a declared tool: its server, and its name there."""

    server: McpServer
    tool: str


class Declarations(msgspec.Struct, frozen=True):
    """The tools of one server as declared to the model, and lines about those that were left out."""

    tools: list[dict[str, Any]]
    left_out: list[str]


# ── from a listing to declarations ───────────────────────────────────────────────────────────────


def declare_tools(server: McpServer, listed: Iterable[ListedTool]) -> Declarations:
    """Return every tool that can be declared, sorted by name."""
    declarations = Declarations([], [])
    names: set[str] = set()
    for tool in sorted(listed, key=lambda one: one.name):
        name = tool_name(server.name, tool.name)
        why_not = _reason_to_leave_out(tool, name, names)
        if why_not:
            shown = one_line(tool.name)
            declarations.left_out.append(f"the tool {shown!r} of the MCP server {server.name} is left out: {why_not}")
            continue
        names.add(name)
        declarations.tools.append(_declaration(server, tool, name))
    more = len(declarations.left_out) - _NOTICES_MAX
    if more > 0:
        declarations.left_out[_NOTICES_MAX:] = [f"more tools of the MCP server {server.name} are left out: {more}"]
    return declarations


def _reason_to_leave_out(tool: ListedTool, name: str, taken: set[str]) -> str:
    if tool.fault:
        return tool.fault
    if len(taken) >= _TOOLS_MAX:
        return f"the server has more than {_TOOLS_MAX}"
    if name in taken:
        return "another one has the same name"
    if valid_utf8(tool.name) != tool.name:
        return "its name is not valid UTF-8"
    if tool.schema.get("type", "object") != "object":
        return "its arguments are not an object"
    if not _is_valid_schema(tool.schema):
        return "its schema is malformed"
    try:
        size = len(msgspec.json.encode(tool.schema))
    except (TypeError, ValueError, RecursionError):
        return "its schema cannot be written as JSON"
    return "its schema is too large" if size > _SCHEMA_BYTES else ""


def _is_valid_schema(schema: Mapping[str, Any]) -> bool:
    """Return whether a provider can read the outermost layer; if not, it would refuse the whole request."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    return (
        isinstance(properties, Mapping)
        and all(isinstance(each, Mapping | bool) for each in properties.values())
        and isinstance(required, list | tuple)
        and all(isinstance(each, str) for each in required)
    )


def _declaration(server: McpServer, tool: ListedTool, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": sanitize_description(tool.description),
        "schema": {"type": "object", "properties": {}, **tool.schema},
        "replay": replay_of(server, tool.hints),
        "from": {"mcp": {**server.value, "tool": tool.name}},
    }


def tool_name(server: str, tool: str) -> str:
    """Return `mcp__SERVER__TOOL` in a form that every provider accepts. A name that had to be changed gets a digest."""
    plain = f"mcp__{server}__{tool}"
    # The first double underscore after `mcp__` must be the one that ends the server, or the name is ambiguous.
    is_clear = f"{server}__".find("__") == len(server)
    if is_clear and len(plain) <= _NAME_CHARS and not _INVALID_NAME_CHARS.search(plain):
        return plain
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "backslashreplace")).hexdigest()[:_DIGEST_CHARS]
    return f"{_INVALID_NAME_CHARS.sub('_', plain)[: _NAME_CHARS - _DIGEST_CHARS - 1]}_{digest}"


def may_be_tool_of(server: str, name: str) -> bool:
    """Return whether a tool of a server could have this name, as `tool_name` makes it."""
    return name.startswith(_INVALID_NAME_CHARS.sub("_", f"mcp__{server}__")[: _NAME_CHARS - _DIGEST_CHARS - 1])


def replay_of(server: McpServer, hints: Mapping[str, Any]) -> ReplayMode:
    """Return the `replay` value of a tool: hints count only from trusted servers."""
    is_safe_hint = hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True
    return "safe" if server.trusted and is_safe_hint else "never"


def sanitize_description(text: str) -> str:
    """Return a description without control and invisible characters, cut to a bound."""
    return clip(_CONTROL_CHARS.sub("", valid_utf8(text)), _DESCRIPTION_BYTES)[0]


def one_line(text: str, chars: int = 300) -> str:
    """Return foreign text as part of one line, without control characters, cut to a bound."""
    line = " ".join(_CONTROL_CHARS.sub(" ", valid_utf8(text)).split())
    return line if len(line) <= chars else f"{line[:chars]}…"


# ── from a declaration to its server ─────────────────────────────────────────────────────────────


def parse_source(declared: Mapping[str, Any]) -> ToolSource | None:
    """Return the origin of a declared tool; None if it is not an MCP tool, `UsageError` if it cannot be read."""
    origin = declared.get("from")
    if not isinstance(origin, Mapping) or "mcp" not in origin:
        return None
    value, shown = origin["mcp"], one_line(str(declared.get("name")))
    if not isinstance(value, Mapping) or not isinstance(value.get("tool"), str):
        raise UsageError(f"the declaration of the tool {shown!r} has no valid MCP server")
    source = ToolSource(parse_server({key: part for key, part in value.items() if key != "tool"}), value["tool"])
    if declared.get("name") != tool_name(source.server.name, source.tool):
        # A person who approves a tool sees only its name.
        raise UsageError(
            f"the tool {shown!r} of the MCP server {source.server.name} has a name that does not match its origin"
        )
    return source


_NO_OUTPUT = "[no output]"
_MEDIA_TYPES: Mapping[str, type[Image | Audio]] = {"image": Image, "audio": Audio}


def outcome_of(result: Mapping[str, Any]) -> ToolOutcome:
    """Return the outcome of a tool call; structured content is used if there is no text."""
    parts = [part for part in result.get("content") or () if isinstance(part, Mapping)]
    media = [_media_part(part) for part in parts]
    texts = [_part_text(part, shown=found is not None) for part, found in zip(parts, media, strict=True)]
    structured = result.get("structuredContent")
    if structured is not None and not any(part.get("type") == "text" for part in parts):
        texts.append(msgspec.json.encode(structured, order="deterministic").decode())
    return ToolOutcome(
        valid_utf8("\n".join(texts)) or _NO_OUTPUT,
        is_error=result.get("isError") is True,
        media=tuple(found for found in media if found is not None),
    )


def progress_line(done: float, total: float | None, message: str | None) -> str:
    """Return the progress of a call as a line of live output."""
    share = f"{done:g}/{total:g}" if total is not None else f"{done:g}"
    return f"[{share}] {one_line(message)}\n" if message else f"[{share}]\n"


def _media_part(part: Mapping[str, Any]) -> Media | None:
    """Return the image or audio of a part, also inside a resource; None if there is none that can be decoded."""
    match part:
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            return _decodable_media(kind, part.get("mimeType"), data)
        case {"type": "resource", "resource": {"mimeType": str(mime), "blob": str(data)}}:
            return _decodable_media(mime.partition("/")[0], mime, data)
    return None


def _decodable_media(kind: str, mime: Any, data: str) -> Media | None:
    media_type = _MEDIA_TYPES.get(kind)
    try:
        has_content = bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return None
    return (
        media_type(mime_type=valid_utf8(str(mime or "")), data=data) if media_type is not None and has_content else None
    )


def _part_text(part: Mapping[str, Any], *, shown: bool) -> str:
    """Return one part of a result as text."""
    end = "" if shown else ", not shown"
    match part.get("type"):
        case "text":
            return str(part.get("text", ""))
        case "image" | "audio" as kind:
            return f"[{kind}: {part.get('mimeType')}, {_decoded_size(part.get('data'))}{end}]"
        case "resource":
            return _resource_text(part.get("resource") or {}, end)
        case "resource_link":
            return f"[link: {part.get('name')} {part.get('uri')}]"
        case kind:
            return f"[{kind}: not shown]"


def _resource_text(resource: Mapping[str, Any], end: str) -> str:
    head = f"[resource: {resource.get('uri')}"
    if isinstance(resource.get("text"), str):
        return f"{head}]\n{resource['text']}"
    return f"{head}, {resource.get('mimeType') or 'unknown'}, {_decoded_size(resource.get('blob'))}{end}]"


def _decoded_size(encoded: Any) -> str:
    """Return the decoded size of a base64 text, with its unit."""
    text = encoded if isinstance(encoded, str) else ""
    return f"{len(text) * 3 // 4 - text[-2:].count('='):,} bytes"
