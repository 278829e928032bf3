"""Changes between contexts: a `context` entry described by what it changes, and two model requests compared.

A provider's cache holds a prefix of a request: tools and instructions first, then the messages in order. It is reused
as far as two requests to the same model are equal; everything after the first difference is billed again. Pure. A
policy may have been written by another program: values that are not understood are skipped, and every text must be
escaped by a renderer (law 13: stored text is hostile).
"""

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from wakelog.log.codec import canonical_json
from wakelog.log.content import Value
from wakelog.log.entry import ContextEntry
from wakelog.log.tree import Branch
from wakelog.projections.context import Context, build_context, message_tokens

_APPROVAL_KEYS = ("approval", "approvals")
_APPROVAL_TEXTS = {
    "auto": ("runs without approval", "run without approval"),
    "ask": ("needs approval", "need approval"),
    "deny": ("never runs", "never run"),
}


def describe_context(entry: ContextEntry, before: ContextEntry | None = None) -> str:
    """Return the description; `before` is the `context` entry that was in force until then."""
    return (
        ", ".join(
            [*_instruction_changes(entry, before), *_approval_changes(entry, before), *_other_changes(entry, before)]
        )
        or "unchanged"
    )


def _instruction_changes(entry: ContextEntry, before: ContextEntry | None) -> Iterator[str]:
    known = before.sources if before is not None else ()
    yield from (source.path for source in entry.sources if source not in known)
    if entry.system is not None and (before is None or entry.system != before.system):
        yield "instructions"
    if before is not None and before.system is not None and entry.system is None:
        yield "no instructions"
    if before is None or entry.tools != before.tools:
        yield "tools" if entry.tools is not None else "no tools"


def _approval_changes(entry: ContextEntry, before: ContextEntry | None) -> Iterator[str]:
    approval, was = _default_approval(entry), _default_approval(before) if before is not None else None
    if approval is not None and approval != was:
        yield f"approval {approval}"
    tools = _approval_by_tool(entry)
    old = _approval_by_tool(before) if before is not None else {}
    now = {tool: tools.get(tool, approval) for tool in (*tools, *(tool for tool in old if tool not in tools))}
    then = {tool: old.get(tool, was) if before is not None else approval for tool in now}
    for setting, (one, several) in _APPROVAL_TEXTS.items():
        names = [tool for tool in now if now[tool] == setting != then[tool]]
        if names:
            yield f"{', '.join(names)} {several if len(names) > 1 else one}"


def _other_changes(entry: ContextEntry, before: ContextEntry | None) -> Iterator[str]:
    """Yield the names of other values that changed; none for the first `context` entry."""
    if before is None:
        return
    keys = [key for key in entry.policy if key not in _APPROVAL_KEYS]
    yield from (key for key in keys if entry.policy[key] != before.policy.get(key))
    yield from _changed_keys(before.params, entry.params)
    items = [key for key in _changed_keys(before.environment, entry.environment) if key != "approvalPolicy"]
    if items:
        yield f"environment ({', '.join(items)})"


def _changed_keys(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return [key for key in {**before, **after} if after.get(key) != before.get(key)]


def _default_approval(entry: ContextEntry) -> str | None:
    found = entry.policy.get("approval")
    return found if isinstance(found, str) else None


def _approval_by_tool(entry: ContextEntry) -> Mapping[str, object]:
    found = entry.policy.get("approvals")
    return found if isinstance(found, dict) else {}


DropReason: TypeAlias = Literal["fold", "window", "branch", "kept"]
SettingName: TypeAlias = Literal["provider", "model", "tools", "system", "params", "strategy", "injected"]
# Settings whose change invalidates the whole cache, whatever the messages are.
_BEFORE_MESSAGES = ("provider", "model", "tools", "system")


class DroppedMessage(Value, frozen=True, kw_only=True):
    """A message of the first request that the second does not have.

    `fold`: a compaction replaces it. `window`: the strategy left it out. `branch`: it is not on that branch.
    `kept`: the second request is for a summary, and the compaction keeps this message.
    """

    entry: str
    why: DropReason
    tokens: int


class AddedMessage(Value, frozen=True, kw_only=True):
    """A message after the common prefix of the second request that the first lacks, or has with other content."""

    entry: str
    number: int
    tokens: int


class SettingChange(Value, frozen=True, kw_only=True):
    """A setting that differs, with its values before and after."""

    what: SettingName
    before: object
    after: object


class ContextDifference(Value, frozen=True, kw_only=True):
    """The difference between two requests.

    The first `common` messages, `common_tokens` in all, are equal. The cache is `kept` if the first request is a prefix
    of the second; else it broke at message `breaks_at` (counted from 1), or before all messages (0), because of
    `breaks_by`.
    """

    before: int
    after: int
    common: int
    common_tokens: int
    kept: bool
    breaks_at: int | None
    breaks_by: str | None
    changed: tuple[SettingChange, ...]
    added: tuple[AddedMessage, ...]
    dropped: tuple[DroppedMessage, ...]


def compare_contexts(one: Context, two: Context, branch: Branch) -> ContextDifference:
    """Return how `two`, which was made on `branch`, differs from `one`."""
    common = _common_messages(one, two)
    changed = _changed_settings(one, two)
    dropped = _dropped_messages(one, two, branch)
    first = next((what for what in _BEFORE_MESSAGES if any(change.what == what for change in changed)), None)
    kept = first is None and common == len(one.messages)
    return ContextDifference(
        before=len(one.messages),
        after=len(two.messages),
        common=common,
        common_tokens=sum(map(message_tokens, one.messages[:common])),
        kept=kept,
        breaks_at=None if kept else 0 if first else common + 1,
        breaks_by=None if kept else first or (dropped[0].why if dropped else "messages"),
        changed=changed,
        added=_added_messages(one, two, common),
        dropped=dropped,
    )


def _common_messages(one: Context, two: Context) -> int:
    at = 0
    for before, after in zip(one.messages, two.messages, strict=False):
        if before != after:
            break
        at += 1
    return at


def _added_messages(one: Context, two: Context, common: int) -> tuple[AddedMessage, ...]:
    in_first = set(_encoded_messages(one))
    return tuple(
        AddedMessage(entry=worded[0], number=at + 1, tokens=message_tokens(two.messages[at]))
        for at, worded in enumerate(_encoded_messages(two))
        if at >= common and worded not in in_first
    )


def _encoded_messages(context: Context) -> list[tuple[str, bytes]]:
    """Return each message as its entry id and its canonical bytes."""
    return [
        (entry, canonical_json(message)) for entry, message in zip(context.entry_ids, context.messages, strict=True)
    ]


def _dropped_messages(one: Context, two: Context, branch: Branch) -> tuple[DroppedMessage, ...]:
    in_second = set(two.entry_ids)
    in_full_context, nodes = set(build_context(branch).entry_ids), {node.id for node in branch.nodes}

    def why(entry: str) -> DropReason:
        if entry in in_full_context:
            return "kept" if two.strategy == "full" else "window"
        return "fold" if entry in nodes else "branch"

    return tuple(
        DroppedMessage(entry=entry, why=why(entry), tokens=message_tokens(message))
        for entry, message in zip(one.entry_ids, one.messages, strict=True)
        if entry not in in_second
    )


def _changed_settings(one: Context, two: Context) -> tuple[SettingChange, ...]:
    pairs: tuple[tuple[SettingName, object, object], ...] = (
        ("provider", one.provider, two.provider),
        ("model", one.model, two.model),
        ("tools", one.tools and one.tools.digest, two.tools and two.tools.digest),
        ("system", one.system and one.system.digest, two.system and two.system.digest),
        ("params", one.params, two.params),
        ("strategy", one.strategy, two.strategy),
        ("injected", [blob.digest for blob in one.injected], [blob.digest for blob in two.injected]),
    )
    return tuple(
        SettingChange(what=what, before=before, after=after) for what, before, after in pairs if before != after
    )
