"""Declarations of MCP tools: from a server's listing to the model's tools, and from the log back to the server.

Pure. A listing comes from outside: names are made valid for every provider, descriptions are cut, and a tool that
cannot be declared is left out with a reason. The same listing gives the same declarations in any order, so that the
beginning of the context stays the same (law 8: each request is a prefix of the next).
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from wakelog.decide.clip import clip, storable
from wakelog.errors import UsageError
from wakelog.log.entry import Replay
from wakelog.tools.mcp.server import McpServer, server_of

_NAME_CHARS = 64
_DIGEST_CHARS = 8
_DESCRIPTION_BYTES = 8 * 1024
_SCHEMA_BYTES = 64 * 1024
_TOOLS = 512
_LINES = 10
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")


class Listed(msgspec.Struct, frozen=True):
    """A tool as its server lists it; `hints` are its annotations as JSON.

    `fault` says why it cannot be read; empty if it can.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    hints: Mapping[str, Any] = {}
    fault: str = ""


class Source(msgspec.Struct, frozen=True):
    """Origin of a declared tool: its server, and its name there."""

    server: McpServer
    tool: str


class Declarations(msgspec.Struct, frozen=True):
    """The tools of one server as declared to the model, and lines about those that were left out."""

    tools: list[dict[str, Any]]
    left_out: list[str]


# ── from a listing to declarations ───────────────────────────────────────────────────────────────


def declare(server: McpServer, listed: Iterable[Listed]) -> Declarations:
    """Return every tool that can be declared, sorted by name."""
    found = Declarations([], [])
    names: set[str] = set()
    for tool in sorted(listed, key=lambda one: one.name):
        name = tool_name(server.name, tool.name)
        why_not = _why_not(tool, name, names)
        if why_not:
            shown = one_line(tool.name)
            found.left_out.append(f"the tool {shown!r} of the MCP server {server.name} is left out: {why_not}")
            continue
        names.add(name)
        found.tools.append(_declared(server, tool, name))
    more = len(found.left_out) - _LINES
    if more > 0:
        found.left_out[_LINES:] = [f"more tools of the MCP server {server.name} are left out: {more}"]
    return found


def _why_not(tool: Listed, name: str, taken: set[str]) -> str:
    if tool.fault:
        return tool.fault
    if len(taken) >= _TOOLS:
        return f"the server has more than {_TOOLS}"
    if name in taken:
        return "another one has the same name"
    if storable(tool.name) != tool.name:
        return "its name is no text"
    if tool.schema.get("type", "object") != "object":
        return "its arguments are no object"
    if not _is_sound(tool.schema):
        return "its schema is malformed"
    try:
        size = len(msgspec.json.encode(tool.schema))
    except (TypeError, ValueError, RecursionError):
        return "its schema cannot be written as JSON"
    return "its schema is too large" if size > _SCHEMA_BYTES else ""


def _is_sound(schema: Mapping[str, Any]) -> bool:
    """Return whether a provider can read the outermost layer; if not, it would refuse the whole request."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    return (
        isinstance(properties, Mapping)
        and all(isinstance(each, Mapping | bool) for each in properties.values())
        and isinstance(required, list | tuple)
        and all(isinstance(each, str) for each in required)
    )


def _declared(server: McpServer, tool: Listed, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": harmless(tool.description),
        "schema": {"type": "object", "properties": {}, **tool.schema},
        "replay": replay_of(server, tool.hints),
        "from": {"mcp": {**server.value, "tool": tool.name}},
    }


def tool_name(server: str, tool: str) -> str:
    """Return `mcp__SERVER__TOOL` in a form that every provider accepts. A name that had to be changed gets a digest."""
    plain = f"mcp__{server}__{tool}"
    # The first double underscore after `mcp__` must be the one that ends the server, or the name is ambiguous.
    is_clear = f"{server}__".find("__") == len(server)
    if is_clear and len(plain) <= _NAME_CHARS and not _UNFIT.search(plain):
        return plain
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "backslashreplace")).hexdigest()[:_DIGEST_CHARS]
    return f"{_UNFIT.sub('_', plain)[: _NAME_CHARS - _DIGEST_CHARS - 1]}_{digest}"


def replay_of(server: McpServer, hints: Mapping[str, Any]) -> Replay:
    """Return the `replay` value of a tool: hints count only from trusted servers."""
    says_so = hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True
    return "safe" if server.trusted and says_so else "never"


def harmless(text: str) -> str:
    """Return a description without control and invisible characters, cut to a bound."""
    return clip(_CONTROL.sub("", storable(text)), _DESCRIPTION_BYTES)[0]


def one_line(text: str, chars: int = 300) -> str:
    """Return foreign text as part of one line, without control characters, cut to a bound."""
    line = " ".join(_CONTROL.sub(" ", storable(text)).split())
    return line if len(line) <= chars else f"{line[:chars]}…"


# ── from a declaration to its server ─────────────────────────────────────────────────────────────


def source_of(declared: Mapping[str, Any]) -> Source | None:
    """Return the origin of a declared tool; None if it is not an MCP tool, `UsageError` if it cannot be read."""
    origin = declared.get("from")
    if not isinstance(origin, Mapping) or "mcp" not in origin:
        return None
    value, shown = origin["mcp"], one_line(str(declared.get("name")))
    if not isinstance(value, Mapping) or not isinstance(value.get("tool"), str):
        raise UsageError(f"the tool {shown!r} does not say which MCP server it is from")
    source = Source(server_of({key: part for key, part in value.items() if key != "tool"}), value["tool"])
    if declared.get("name") != tool_name(source.server.name, source.tool):
        # A person who approves a tool sees only its name.
        raise UsageError(
            f"the tool {shown!r} of the MCP server {source.server.name} goes by a name that is not its own"
        )
    return source
