"""The context of a model call: a pure function of a branch and a strategy.

The active part of a branch is the nodes that its last compaction kept and those after it; an earlier compaction among
the kept nodes is ignored. Pending work is computed from the same part.
Rule 1: this module adds no text. Summaries, clip marks and unknown-outcome texts are written into entries when these
are appended, so the digest of an old context never changes.
Rule 2: a tool call and its results are never separated: messages between them in the log come after the results, and a
window begins only between such groups.
Rule 3: a window moves only when the newest group does not fit, and then drops at least half its size, so that until it
moves again every request begins with the bytes of the one before it (law 8: stable prefix) and provider caches hit.
Rule 4: a window exceeds its size only where the newest group alone does; it then holds that group and nothing else.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Literal

import msgspec

from wakelog.errors import UsageError
from wakelog.log.codec import canonical_json
from wakelog.log.content import (
    AnyMessage,
    AnyPart,
    Audio,
    BaseMessage,
    BlobRef,
    Image,
    Note,
    Prompt,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
    Value,
)
from wakelog.log.entry import Cancelled, Compaction, Custom, Entry, Message
from wakelog.log.ids import digest_of
from wakelog.log.tree import Branch
from wakelog.projections.branch_state import BranchState, branch_state


class ActivePart(msgspec.Struct, frozen=True):
    """The last compaction, if any, and the active nodes, oldest first, without compactions."""

    compaction: Compaction | None
    nodes: tuple[Entry, ...]


def active_part(branch: Branch) -> ActivePart:
    """Return the active part of a branch: its last compaction applied."""
    at, compaction = _last_compaction(branch.nodes)
    if compaction is None:
        return ActivePart(None, branch.nodes)
    first = _first_kept(branch.nodes, at, compaction.first_kept_entry_id)
    return ActivePart(
        compaction, tuple(node for node in branch.nodes[first:] if not isinstance(node.value, Compaction))
    )


def _last_compaction(nodes: tuple[Entry, ...]) -> tuple[int, Compaction | None]:
    for at in range(len(nodes) - 1, -1, -1):
        value = nodes[at].value
        if type(value) is Compaction:
            return at, value
    return 0, None


def _first_kept(nodes: tuple[Entry, ...], compaction_at: int, kept: str | None) -> int:
    """Return the index of the first kept node; that of the compaction if the entry `kept` is not on this branch."""
    for at in range(compaction_at, -1, -1):
        if nodes[at].id == kept:
            return at
    return compaction_at


IMAGE_TOKENS = 1_500
# The length of a recording is not known here: about a minute of speech is assumed.
AUDIO_TOKENS = 1_500
_MEDIA_TOKENS: Mapping[type[AnyPart], int] = {Image: IMAGE_TOKENS, Audio: AUDIO_TOKENS}


class Strategy(msgspec.Struct, frozen=True):
    """Which part of the active branch goes into the context: all, the last N messages, or the last T tokens.

    Both sizes cover the messages only, not the instructions, the tools and injected texts. Tokens include the summary
    of the last compaction, messages do not.
    """

    kind: Literal["full", "window", "budget"] = "full"
    size: int = 0

    def __str__(self) -> str:
        return self.kind if self.kind == "full" else f"{self.kind}:{self.size}"


def parse_strategy(text: str) -> Strategy:
    """Parse `full`, `window:N` or `budget:TOKENS`; `UsageError` for anything else."""
    kind, _, size = text.partition(":")
    if text == "full":
        return Strategy()
    if kind in ("window", "budget") and size.isascii() and size.isdigit() and 0 < int(size) < 10**9:
        return Strategy("window" if kind == "window" else "budget", int(size))
    raise UsageError(f"unknown strategy {text!r}", hint="use full, window:N or budget:TOKENS")


class ContextMessage(Value, frozen=True, kw_only=True):
    """One message as passed to a provider adapter."""

    role: Literal["user", "assistant", "toolResult"]
    content: tuple[AnyPart, ...]
    tool_call_id: str | None = None
    tool_name: str | None = None
    is_error: bool = False
    model: str | None = None
    provider: str | None = None

    @property
    def text(self) -> str:
        """The text alone, without reasoning, tool calls and media."""
        return "".join(part.text for part in self.content if isinstance(part, Text))


class Context(Value, frozen=True, kw_only=True):
    """Everything that is passed to a provider adapter, and the id of the entry that each message comes from."""

    messages: tuple[ContextMessage, ...]
    entry_ids: tuple[str, ...] = ()
    model: str | None = None
    provider: str | None = None
    strategy: str = "full"
    settings_id: str = ""
    """The `context` entry in force, which has the instructions, the tools and the parameters."""
    system: BlobRef | None = None
    tools: BlobRef | None = None
    params: dict[str, object] = {}
    injected: tuple[BlobRef, ...] = ()
    over_limit: int = 0
    """By how many messages or tokens the newest group alone exceeds the size of the strategy."""

    @property
    def digest(self) -> str:
        """Digest of system prompt, tools, params, messages and injected texts; blobs count by their own digests."""
        handed = {
            "system": self.system.digest if self.system else None,
            "tools": self.tools.digest if self.tools else None,
            "params": self.params,
            "messages": self.messages,
            **({"injected": [blob.digest for blob in self.injected]} if self.injected else {}),
        }
        return digest_of(canonical_json(handed))

    @property
    def tokens(self) -> int:
        """The estimated size of the messages in tokens."""
        return sum(message_tokens(message) for message in self.messages)

    def first_messages(self, count: int) -> "Context":
        """Return this context with its first `count` messages only."""
        return msgspec.structs.replace(self, messages=self.messages[:count], entry_ids=self.entry_ids[:count])


def build_context(branch: Branch, strategy: Strategy | str = "full", *, state: BranchState | None = None) -> Context:
    """Build the context of a model call at the end of this branch; pass `state` if the branch state is known."""
    plan = parse_strategy(strategy) if isinstance(strategy, str) else strategy
    state = state or branch_state(branch)
    shown, over_limit = _window(*_summary_and_groups(branch), plan)
    in_force = state.context
    return Context(
        messages=tuple(message for _, message in shown),
        entry_ids=tuple(entry_id for entry_id, _ in shown),
        model=state.model,
        provider=state.provider,
        strategy=str(plan),
        settings_id=in_force.id if in_force else "",
        system=in_force.system if in_force else None,
        tools=in_force.tools if in_force else None,
        params=in_force.params if in_force else {},
        over_limit=over_limit,
    )


def estimate_tokens(parts: Sequence[AnyPart]) -> int:
    """Return ceil(UTF-8 bytes / 4), plus a fixed number per image and per recording; the same for every provider."""
    size = media = 0
    for part in parts:
        size += _part_bytes(part)
        media += _MEDIA_TOKENS.get(type(part), 0)
    return -(-size // 4) + media


def message_tokens(message: ContextMessage) -> int:
    """Return the estimated size of one message in tokens."""
    return estimate_tokens(message.content)


def _part_bytes(part: AnyPart) -> int:
    match part:
        case Text():
            return _utf8_bytes(part.text)
        case Thinking():
            return _utf8_bytes(part.thinking)
        case ToolCall():
            return _utf8_bytes(part.name) + len(canonical_json(part.input))
    return 0


def _utf8_bytes(text: str) -> int:
    """Return the UTF-8 size of a text. Called for every message of every request, so ASCII text is not encoded."""
    return len(text) if text.isascii() else len(text.encode())


# ── from nodes to messages ───────────────────────────────────────────────────────────────────────

_Item = tuple[str, ContextMessage]


def _summary_and_groups(branch: Branch) -> tuple[list[_Item], list[list[_Item]]]:
    """Return the summary, if there is one, and the groups of messages of the active part."""
    part = active_part(branch)
    summary_items: list[_Item] = []
    if part.compaction is not None and part.compaction.summary:
        summary = ContextMessage(role="user", content=(Text(text=part.compaction.summary),))
        summary_items.append((part.compaction.id, summary))
    return summary_items, _groups(part.nodes)


def _groups(nodes: Sequence[Entry]) -> list[list[_Item]]:
    """Return each message with the results of its tool calls directly after it, as providers require.

    Messages that came between call and result follow the group. A result without its tool call is left out.
    """
    groups: list[list[_Item]] = []
    asking: dict[tuple[str | None, str | None], list[_Item]] = {}
    for node in nodes:
        message = _message(node)
        if message is None:
            continue
        if message.role == "toolResult":
            call = message.tool_call_id
            group = asking.get((_named_reply_id(node), call)) or asking.get((None, call)) or []
        else:
            groups.append(group := [])
        group.append((node.id, message))
        for part in message.content:
            if isinstance(part, ToolCall):
                asking[node.id, part.id] = asking[None, part.id] = group
    return groups


def _named_reply_id(node: Entry) -> str | None:
    """Return the id of the reply that a result names, if any."""
    message = node.value.message if isinstance(node.value, Message) else None
    return message.reply_id if isinstance(message, ToolResult) else None


def _message(node: Entry) -> ContextMessage | None:
    value = node.value
    if isinstance(value, Message):
        return _with_content(_context_message(value.message))
    if isinstance(value, Custom) and value.in_context:
        return _with_content(_context_message(Note(content=value.content)))
    if isinstance(value, Cancelled):
        # Text only: interrupted thinking has no signature, and its tool calls get no results.
        text = BaseMessage(content=value.content).text
        return ContextMessage(role="assistant", content=(Text(text=text),)) if text else None
    return None


def _with_content(message: ContextMessage) -> ContextMessage | None:
    return message if message.content or message.role == "toolResult" else None


def _context_message(message: AnyMessage) -> ContextMessage:
    content = tuple(part for part in message.parts if not isinstance(part, UnknownPart))
    match message:
        case Prompt() | Note():
            return ContextMessage(role="user", content=content)
        case Reply():
            return ContextMessage(role="assistant", content=content, model=message.model, provider=message.provider)
        case ToolResult():
            return ContextMessage(
                role="toolResult",
                content=content,
                tool_call_id=message.tool_call_id,
                tool_name=message.tool_name,
                is_error=message.effective_status != "ok",
            )


# ── windows ──────────────────────────────────────────────────────────────────────────────────────


def _window(summary: list[_Item], groups: list[list[_Item]], plan: Strategy) -> tuple[list[_Item], int]:
    """Return the messages in the window, the summary first, and by how much they exceed the size of the strategy.

    The window grows by one group after another. Where the newest group makes it too large, the oldest groups are
    dropped: half the size of the window at least, and all but the newest group at most. The summary is left out where
    the newest group does not fit beside it, and where it fills the window alone.
    """
    if plan.kind == "full":
        return [*summary, *chain.from_iterable(groups)], 0
    limit = plan.size - (_size(summary, plan) if plan.kind == "budget" else 0)
    if limit <= 0 and groups:
        summary, limit = [], plan.size
    sizes = [_size(group, plan) for group in groups]
    start = size = 0
    for newest, added in enumerate(sizes):
        size += added
        if size <= limit:
            continue
        kept = min(limit, size - max(1, limit // 2))
        while start < newest and size > kept:
            size -= sizes[start]
            start += 1
    if size > limit and groups:
        summary, limit = [], plan.size
    return [*summary, *chain.from_iterable(groups[start:])], max(0, size - limit)


def _size(items: Sequence[_Item], plan: Strategy) -> int:
    """Return the size of messages in the unit of a window: messages or tokens."""
    return len(items) if plan.kind == "window" else sum(message_tokens(message) for _, message in items)


def group_starts(messages: Sequence[ContextMessage]) -> list[int]:
    """Return where a window may begin, last first: no result from there on belongs to an earlier tool call."""
    calls: dict[str, int] = {}
    reach = list(range(len(messages)))
    for at, message in enumerate(messages):
        if message.role == "toolResult" and message.tool_call_id in calls:
            reach[at] = calls[message.tool_call_id]
        calls.update((part.id, at) for part in message.content if isinstance(part, ToolCall))
    starts, earliest = [], len(messages)
    for at in range(len(messages) - 1, -1, -1):
        earliest = min(earliest, reach[at])
        if earliest >= at:
            starts.append(at)
    return starts


def summaries(branch: Branch) -> tuple[str, ...]:
    """Return the summaries of a branch, oldest first. Needs the whole branch: a tail has only the last one."""
    return tuple(node.value.summary for node in branch.nodes if isinstance(node.value, Compaction))
