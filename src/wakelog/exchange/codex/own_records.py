"""What a session that was imported from Codex has of it, and what a writer needs to write it back.

The reader keeps the header of a rollout verbatim, names the providers in its replies, and puts the history behind a
compaction as notes, replies and verbatim items after it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from wakelog.exchange.codex.items import TOOL, objects_in, text_of
from wakelog.exchange.writing import WrittenNode
from wakelog.log.content import BaseMessage, JsonObject, Note, Prompt, Reply, ToolResult
from wakelog.log.entry import Compaction, Custom, Message

REPLACEMENT = f"{TOOL}:replacement_history"
"""The type of the notes that the history behind a compaction becomes; the kind of context may follow."""
_HEADERS = (f"{TOOL}:session_meta", f"{TOOL}:session")
_ROLES = frozenset({"developer", "system"})
_GIT_KEYS = ("commit_hash", "branch", "repository_url")


class OwnRecords:
    """What a branch has of Codex itself: the providers that it used, and what its header says of the session."""

    def __init__(self, branch: Sequence[WrittenNode]) -> None:
        self._providers: set[str | None] = set()
        self.header: JsonObject = {}
        """Fields for the header that is written."""
        for node in branch:
            if not isinstance(node, Custom) or not isinstance(node.data, dict):
                continue
            payload = next(objects_in([node.data.get("payload")]), {})
            if node.custom_type in _HEADERS:
                if not self._providers:
                    self.header = dict(_header_fields(payload))
                self._providers.add(text_of(payload.get("model_provider")) or None)
            elif node.custom_type == f"{TOOL}:event_msg/thread_settings_applied":
                settings = next(objects_in([payload.get("thread_settings")]), {})
                self._providers.add(text_of(settings.get("model_provider_id")) or None)

    @property
    def is_imported(self) -> bool:
        """Whether the branch begins with a session of Codex."""
        return bool(self._providers)

    def is_own(self, reply: Reply) -> bool:
        """Return whether Codex recorded a reply; wakelog's own replies name the call that they came from."""
        return reply.call_id is None and self.is_own_provider(reply.provider)

    def is_own_provider(self, provider: str | None) -> bool:
        """Return whether Codex used a provider in this session."""
        return provider in self._providers

    def with_results_next_to_calls(self, branch: Sequence[WrittenNode]) -> tuple[WrittenNode, ...]:
        """Return the nodes in the order in which the model was given them: results before what came meanwhile.

        What Codex recorded stays in its order, and no result is moved across a compaction.
        """
        groups: list[list[WrittenNode]] = []
        asking: dict[tuple[str | None, str], list[WrittenNode]] = {}
        for node in branch:
            group: list[WrittenNode] | None = None
            match node:
                case Message(message=ToolResult() as result):
                    group = asking.get((result.reply_id, result.tool_call_id))
                case Compaction():
                    asking.clear()
            if group is None:
                groups.append(group := [])
            group.append(node)
            if isinstance(node, Message) and isinstance(node.message, Reply) and not self.is_own(node.message):
                for call in node.message.tool_calls:
                    asking[node.id, call.id] = asking[None, call.id] = group
        return tuple(node for group in groups for node in group)


def moved_results(branch: Sequence[WrittenNode], written: Sequence[WrittenNode]) -> int:
    """Return how many tool results have another place among the messages than in the session."""
    before, after = ([node for node in nodes if isinstance(node, Message)] for nodes in (branch, written))
    return sum(isinstance(now.message, ToolResult) and now.id != old.id for old, now in zip(before, after, strict=True))


def _header_fields(payload: JsonObject) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a header that hold for a written session, too. Codex refuses a file with others in them."""
    if provider := text_of(payload.get("model_provider")):
        yield "model_provider", provider
    match payload.get("base_instructions"):
        case {"text": str(text), "provenance": {"type": "model", "model": str(model)}}:
            yield "base_instructions", {"text": text, "provenance": {"type": "model", "model": model}}
        case {"text": str(text)}:
            yield "base_instructions", {"text": text}
    git = next(objects_in([payload.get("git")]), {})
    if known := {key: git[key] for key in _GIT_KEYS if text_of(git.get(key))}:
        yield "git", known


def role_and_kind(message: BaseMessage) -> tuple[str, str | None]:
    """Return the role of a message and the kind of context that it is; the kind is None for a prompt."""
    if isinstance(message, Prompt):
        return "user", None
    kind = message.custom_type.removeprefix(f"{TOOL}:") if isinstance(message, Note) else ""
    if kind in _ROLES:
        return kind, kind
    # Kinds that begin with "user." are prompts, and "unknown" states nothing.
    return "user", kind if kind not in ("", "unknown") and not kind.startswith("user.") else f"note.{kind}"


def replacement_role_and_kind(note: Note) -> tuple[str, str]:
    """Return role and kind of a note that comes from the history behind a compaction; prompts are notes there, too."""
    kind = note.custom_type.removeprefix(REPLACEMENT).removeprefix(":")
    return kind if kind in _ROLES else "user", kind or "user.text"


def replacement_nodes(nodes: Sequence[WrittenNode]) -> Iterator[WrittenNode]:
    """Yield the first nodes, those after a compaction of Codex, that the reader made of its replacement history."""
    for node in nodes:
        match node:
            case Custom(custom_type="codex:compacted", data=dict()):
                yield node
                if "type" not in node.data:
                    # The other fields of the compaction: they are the last of its entries.
                    return
            case Message(message=Note(custom_type=kind)) if kind.startswith(REPLACEMENT):
                yield node
            case Message(message=Reply(stop_reason=None, usage=None, call_id=None) as reply) if not reply.tool_calls:
                yield node
            case _:
                return
