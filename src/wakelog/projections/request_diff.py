"""Difference between two model requests: added, dropped and changed parts, and where the provider's cache broke.

A provider's cache holds a prefix of a request: tools and instructions first, then the messages in order. It is reused
as far as two requests to the same model are equal; everything after the first difference is billed again. Pure.
"""

from typing import Literal, TypeAlias

from wakelog.log.codec import canonical
from wakelog.log.content import Value
from wakelog.log.tree import Branch
from wakelog.projections.context import Context, build_context, message_tokens

DropReason: TypeAlias = Literal["fold", "window", "branch", "kept"]
Setting: TypeAlias = Literal["provider", "model", "tools", "system", "params", "strategy", "injected"]
# Settings whose change invalidates the whole cache, whatever the messages are.
_BEFORE_MESSAGES = ("provider", "model", "tools", "system")


class Dropped(Value, frozen=True, kw_only=True):
    """A message of the first request that the second does not have.

    `fold`: a compaction replaces it. `window`: the strategy left it out. `branch`: it is not on that branch.
    `kept`: the second request is for a summary, and the compaction keeps this message.
    """

    entry: str
    why: DropReason
    tokens: int


class Added(Value, frozen=True, kw_only=True):
    """A message after the common prefix of the second request that the first lacks, or has with other content."""

    entry: str
    number: int
    tokens: int


class Change(Value, frozen=True, kw_only=True):
    """A setting that differs, with its values before and after."""

    what: Setting
    before: object
    after: object


class Difference(Value, frozen=True, kw_only=True):
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
    changed: tuple[Change, ...]
    added: tuple[Added, ...]
    dropped: tuple[Dropped, ...]


def difference(one: Context, two: Context, branch: Branch) -> Difference:
    """Return how `two`, which was made on `branch`, differs from `one`."""
    common = _common(one, two)
    changed = _changed(one, two)
    dropped = _dropped(one, two, branch)
    first = next((what for what in _BEFORE_MESSAGES if any(change.what == what for change in changed)), None)
    kept = first is None and common == len(one.messages)
    return Difference(
        before=len(one.messages),
        after=len(two.messages),
        common=common,
        common_tokens=sum(map(message_tokens, one.messages[:common])),
        kept=kept,
        breaks_at=None if kept else 0 if first else common + 1,
        breaks_by=None if kept else first or (dropped[0].why if dropped else "messages"),
        changed=changed,
        added=_added(one, two, common),
        dropped=dropped,
    )


def _common(one: Context, two: Context) -> int:
    at = 0
    for before, after in zip(one.messages, two.messages, strict=False):
        if before != after:
            break
        at += 1
    return at


def _added(one: Context, two: Context, common: int) -> tuple[Added, ...]:
    there = set(_worded(one))
    return tuple(
        Added(entry=worded[0], number=at + 1, tokens=message_tokens(two.messages[at]))
        for at, worded in enumerate(_worded(two))
        if at >= common and worded not in there
    )


def _worded(context: Context) -> list[tuple[str, bytes]]:
    """Return each message as its entry id and its canonical bytes."""
    return [(entry, canonical(said)) for entry, said in zip(context.entry_ids, context.messages, strict=True)]


def _dropped(one: Context, two: Context, branch: Branch) -> tuple[Dropped, ...]:
    there = set(two.entry_ids)
    whole, nodes = set(build_context(branch).entry_ids), {node.id for node in branch.nodes}

    def why(entry: str) -> DropReason:
        if entry in whole:
            return "kept" if two.strategy == "full" else "window"
        return "fold" if entry in nodes else "branch"

    return tuple(
        Dropped(entry=entry, why=why(entry), tokens=message_tokens(message))
        for entry, message in zip(one.entry_ids, one.messages, strict=True)
        if entry not in there
    )


def _changed(one: Context, two: Context) -> tuple[Change, ...]:
    pairs: tuple[tuple[Setting, object, object], ...] = (
        ("provider", one.provider, two.provider),
        ("model", one.model, two.model),
        ("tools", one.tools and one.tools.digest, two.tools and two.tools.digest),
        ("system", one.system and one.system.digest, two.system and two.system.digest),
        ("params", one.params, two.params),
        ("strategy", one.strategy, two.strategy),
        ("injected", [blob.digest for blob in one.injected], [blob.digest for blob in two.injected]),
    )
    return tuple(Change(what=what, before=before, after=after) for what, before, after in pairs if before != after)
