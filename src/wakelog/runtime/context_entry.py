"""The `context` entry of an agent: instruction files, tools, absent MCP servers, parameters, policy and environment.

Instruction files are AGENTS.md from the repository root down to the working folder, and the user's own file. They are
read when a run begins, the most general first, so that the nearest takes precedence. For each file the log keeps the
path, digest, size and, if it could not be read, the reason; the text goes into the blob of the instructions (LOG-14).
Rule 1: repositories are untrusted. A file is read only if it is a regular file inside the repository; other files are
recorded and left out.
Rule 2: long files are truncated, with a note in the text, so that a file cannot fill the context.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.decide.policy import Policy, policy_in_force, stored_policy
from wakelog.errors import WakelogError
from wakelog.folders import config_folder, folders_from_root, git_branch, open_nonblocking
from wakelog.log.codec import canonical_json
from wakelog.log.content import BlobRef
from wakelog.log.entry import ContextEntry, InstructionSource
from wakelog.log.ids import digest_of
from wakelog.ports.runtime import OpenProvider, Provider, Tool
from wakelog.ports.stores import Blobs, Store
from wakelog.redaction.known_values import NO_KNOWN_VALUES, KnownValues
from wakelog.redaction.redactor import redact, redact_value
from wakelog.tools.mcp import McpTool
from wakelog.tools.subagent import SubagentTool

FILE_NAME = "AGENTS.md"
FILE_MAX_BYTES = 32 * 1024
_FILE_HEADING = "Instructions from {path}:\n\n"
_SEPARATOR = "\n\n"


def build_context_entry(
    blobs: Blobs,
    *,
    cwd: str,
    system: str,
    tools: BlobRef | None,
    params: Mapping[str, Any],
    policy: Policy,
    known: KnownValues,
) -> ContextEntry:
    """Build the `context` entry of an agent, without environment (`with_environment`).

    The instruction files are read, and their text is stored as a blob.
    """
    instructions, sources = store_instructions(blobs, cwd, system, policy, known)
    return ContextEntry(
        sources=sources,
        system=instructions,
        tools=tools,
        params=dict(params),
        policy=stored_policy(policy),
    )


class Instructions(msgspec.Struct, frozen=True):
    """The combined text of the instruction files, and their sources."""

    text: str = ""
    sources: tuple[InstructionSource, ...] = ()

    def combined_with(self, system: str) -> str:
        """Return the agent's system prompt followed by the text of the files."""
        return _SEPARATOR.join(part for part in (system, self.text) if part)

    def system_part(self, system: str) -> str:
        """Return the part of combined instructions before the text of the files."""
        places = [system.find(_FILE_HEADING.format(path=source.path)) for source in self.sources]
        begins = min((place for place in places if place >= 0), default=len(system))
        return system[:begins].removesuffix(_SEPARATOR) if begins < len(system) else system


def load_instructions(cwd: str, *, user_file: str | None = None) -> Instructions:
    """Read the instruction files in force in a folder."""
    found = [_read_file(path, scope, root) for path, scope, root in _candidate_files(cwd, user_file)]
    existing = [(source, text) for source, text in found if source is not None]
    texts = [_FILE_HEADING.format(path=source.path) + text for source, text in existing if text]
    return Instructions(_SEPARATOR.join(texts), tuple(source for source, _ in existing))


def store_instructions(
    blobs: Blobs, cwd: str, system: str, policy: Policy, known: KnownValues
) -> tuple[BlobRef | None, tuple[InstructionSource, ...]]:
    """Store the system prompt and, if the policy allows, the files' text as a blob; return it and the sources."""
    loaded = load_instructions(cwd, user_file=user_instructions(os.environ)) if policy.instructions else Instructions()
    text = loaded.combined_with(system)
    safe = redact(text, policy.redact, known).text
    return blobs.put(safe.encode(), "text/plain") if safe else None, loaded.sources


def user_instructions(environ: Mapping[str, str]) -> str:
    """Return the path of the user's own instruction file."""
    return os.path.join(config_folder(environ), FILE_NAME)


def _candidate_files(cwd: str, user_file: str | None) -> Iterator[tuple[str, str, str | None]]:
    """Yield each path to read, its scope, and the folder it must be inside of (None: any)."""
    if user_file is not None:
        yield user_file, "user", None
    root, *below = folders_from_root(cwd)
    yield os.path.join(root, FILE_NAME), "project", root
    for folder in below:
        yield os.path.join(folder, FILE_NAME), "folder", root


def _read_file(path: str, scope: str, root: str | None) -> tuple[InstructionSource | None, str]:
    """Return a file's source record and text; (None, "") if the file does not exist."""
    try:
        if root is not None and not _is_inside(path, root):
            return _unreadable_source(path, scope, "it points out of the repository"), ""
        with open(path, "rb", opener=open_nonblocking) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return _unreadable_source(path, scope, "it is not a plain file"), ""
            size, raw = os.fstat(file.fileno()).st_size, file.read(FILE_MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None, ""
    except OSError as error:
        return _unreadable_source(path, scope, error.strerror or str(error)), ""
    cut = size > FILE_MAX_BYTES
    source = InstructionSource(
        kind="instructions", path=path, scope=scope, hash=digest_of(raw), bytes=size, truncated=cut
    )
    text = raw.decode(errors="replace" if not cut else "ignore").strip()
    return source, f"{text}\n[cut off: {FILE_MAX_BYTES:,} of {size:,} bytes]" if cut else text


def _unreadable_source(path: str, scope: str, why: str) -> InstructionSource:
    return InstructionSource(kind="instructions", path=path, scope=scope, error=why)


def _is_inside(path: str, root: str) -> bool:
    return os.path.commonpath((os.path.realpath(path), root)) == root


# ── environment ──────────────────────────────────────────────────────────────────────────────────


class ModelInForce(msgspec.Struct, frozen=True):
    """The model that the next requests go to, and the provider that makes them; None if it cannot be opened here."""

    provider: str
    model: str
    opened: Provider | None

    @classmethod
    def of(cls, open_provider: OpenProvider, provider: str, model: str) -> "ModelInForce":
        """Return the model with its provider. Nothing is sent."""
        try:
            return cls(provider, model, open_provider(provider, model))
        except WakelogError:
            return cls(provider, model, None)


def with_environment(entry: ContextEntry, *, cwd: str, model: ModelInForce) -> ContextEntry:
    """Return the entry with the environment that its settings have in a folder, with a model (VIEW-12).

    Tools run with the rights of this process, without a sandbox. Items of others, such as absent servers, stay.
    """
    environment = {
        "cwd": cwd,
        "git": git_branch(cwd) if cwd else "",
        "model": model.model,
        "provider": model.provider,
        "reasoning": _reasoning_level(entry.params),
        **_optional_items(entry.params, model.opened),
        "approvalPolicy": policy_in_force(entry).approval,
        "sandboxPolicy": "none",
        "network": "allowed",
    }
    known = (*environment, "searchMode", "capabilities")
    others = {key: value for key, value in entry.environment.items() if key not in known}
    return msgspec.structs.replace(entry, environment={**environment, **others})


def _optional_items(params: Mapping[str, Any], opened: Provider | None) -> dict[str, Any]:
    """Return the search mode, if the requests have one, and what the provider can do, if it can be opened."""
    items: dict[str, Any] = {}
    if (search := _search_mode(_extra(params))) is not None:
        items["searchMode"] = search
    if opened is not None:
        items["capabilities"] = {
            "canResume": bool(getattr(opened, "can_resume", False)),
            "needsReasoningBack": bool(getattr(opened, "needs_reasoning_back", False)),
        }
    return items


# Where the bodies of requests say how much to reason: `extra` is merged into them last.
_EFFORT_PATHS = (("reasoning", "effort"), ("reasoning_effort",), ("output_config", "effort"))


def _reasoning_level(params: Mapping[str, Any]) -> Any:
    """Return how much the model is asked to reason; `default` where the provider decides."""
    level = params.get("effort")
    for path in _EFFORT_PATHS:
        level = _value_at(_extra(params), path, level)
    return "default" if level is None else level


def _search_mode(extra: Mapping[str, Any]) -> str | None:
    """Return how a request asks the provider to search the web: the name of its setting or of its tool."""
    if extra.get("web_search_options") is not None:
        return "web_search_options"
    tools = extra.get("tools")
    types = [tool.get("type") for tool in tools if isinstance(tool, Mapping)] if isinstance(tools, list | tuple) else []
    return next((kind for kind in types if isinstance(kind, str) and kind.startswith("web_search")), None)


def _extra(params: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = params.get("extra")
    return extra if isinstance(extra, Mapping) else {}


def _value_at(value: Any, path: Sequence[str], default: Any) -> Any:
    """Return what is at a path of keys; `default` where a key is missing."""
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return default
        value = value[key]
    return value


# ── tools ────────────────────────────────────────────────────────────────────────────────────────


ABSENT_SERVERS = "absentServers"
"""Key in `ContextEntry.environment` that lists the MCP servers whose tools could not be listed yet."""


def store_declarations(
    store: Store, tools: Sequence[Tool], known: KnownValues = NO_KNOWN_VALUES, *, redacts: bool = True
) -> BlobRef | None:
    """Store the tool declarations as a blob, in the given order; None without tools.

    Declarations of MCP servers may contain secrets. Programs read the blob again, so keys are redacted but assignments
    are not: examples in a schema stay valid.
    """
    if not tools:
        return None
    declared: Any = [tool_declaration(tool) for tool in tools]
    if redacts:
        declared, _ = redact_value(declared, "keys", known)
    return store.blobs.put(canonical_json(declared), "application/json")


def absent_servers(environment: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the MCP servers that an environment records as absent."""
    values = environment.get(ABSENT_SERVERS)
    named = values if isinstance(values, list | tuple) else ()
    return [value for value in named if isinstance(value, Mapping) and isinstance(value.get("name"), str)]


def absent_servers_item(servers: Sequence[Mapping[str, Any]], *, redacts: bool = True) -> dict[str, Any]:
    """Return the environment item that lists unavailable MCP servers; empty if there are none."""
    values: Any = [dict(server) for server in servers]
    return {ABSENT_SERVERS: redact_value(values, "keys")[0] if redacts else values} if values else {}


def tool_declaration(tool: Tool) -> Mapping[str, Any]:
    """Return the declaration of a tool for the model and the log, with the data needed to restore it on wake."""
    if isinstance(tool, McpTool | SubagentTool):
        return tool.declared()
    declared = {"name": tool.name, "description": tool.description, "schema": tool.schema, "replay": tool.replay}
    return declared | ({"acceptsMarks": True} if accepts_marks(tool) else {})


def accepts_marks(tool: Tool) -> bool:
    """Return whether a tool may be called with a redaction mark that the model quotes."""
    return getattr(tool, "accepts_marks", False) is True


def with_policy(entry: ContextEntry, policy: Policy) -> ContextEntry:
    """Return the entry with another policy; unchanged if the policy is the same."""
    if policy == policy_in_force(entry):
        return entry
    environment = {**entry.environment, "approvalPolicy": policy.approval}
    return msgspec.structs.replace(entry, policy=stored_policy(policy), environment=environment)
