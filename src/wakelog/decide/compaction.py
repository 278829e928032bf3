"""Planning of a compaction: which messages its summary replaces. Pure; call groups are never split.

Rule 1: a compaction keeps the newest messages, as many as fit into `keep_tokens`, from the start of a call group on.
Rule 2: a compaction must shorten the context. One that would replace only the last summary is not planned, and one
whose summary is not shorter than what it replaces is not written. So repeated compaction ends.
"""

from itertools import accumulate

from wakelog.log.content import Prompt, Text
from wakelog.log.entry import Compaction, Message, ModelCall, Partial
from wakelog.log.tree import Branch
from wakelog.projections.context import (
    Context,
    active_part,
    build_context,
    estimate_tokens,
    group_starts,
    message_tokens,
)

COMPACTION_TRIES_MAX = 2


def plan_compaction(branch: Branch, keep_tokens: int) -> str | None:
    """Return the first entry that a compaction would keep; None if there is nothing to compact."""
    context = build_context(branch)
    compaction = active_part(branch).compaction
    first = int(compaction is not None and context.entry_ids[:1] == (compaction.id,))
    messages, ids = context.messages[first:], context.entry_ids[first:]
    # kept[at]: the tokens of the messages from `at` to the newest.
    kept = list(accumulate(message_tokens(message) for message in reversed(messages)))[::-1]
    starts = [at for at in group_starts(messages) if at > 0]
    fitting = [at for at in starts if kept[at] <= keep_tokens < kept[0]]
    # If all messages would fit, or not even the last group does, keep the last group and compact the rest.
    at = min(fitting, default=max(starts, default=0))
    return ids[at] if at else None


def can_keep_from(branch: Branch, first_kept: str) -> bool:
    """Whether a compaction can keep everything from an entry on: in the context, not first, start of a call group."""
    context = build_context(branch)
    if first_kept not in context.entry_ids:
        return False
    at = context.entry_ids.index(first_kept)
    return at > 0 and at in group_starts(context.messages)


def replaced_part(context: Context, first_kept: str | None) -> Context:
    """Return the part of a context that a summary replaces; all of it if `first_kept` is None."""
    return context if first_kept is None else context.first_messages(context.entry_ids.index(first_kept))


def is_shorter(context: Context, first_kept: str | None, summary: str) -> bool:
    """Whether a summary is shorter, in estimated tokens, than what it replaces."""
    return estimate_tokens((Text(text=summary),)) < replaced_part(context, first_kept).tokens


def is_compaction_exhausted(branch: Branch) -> bool:
    """Whether compaction is no longer tried until the next prompt or compaction.

    True after a summary that did not shrink the context, or after `COMPACTION_TRIES_MAX` calls for a summary.
    """
    since = max((node.seq for node in branch.nodes[branch.inherited :] if _resets_attempts(node.value)), default=-1)
    annotations = [annotation.value for annotation in branch.annotations if annotation.seq > since]
    calls = [
        annotation
        for annotation in annotations
        if isinstance(annotation, ModelCall) and annotation.purpose == "compaction"
    ]
    did_not_shrink = any(
        isinstance(annotation, Partial) and annotation.error and annotation.error.kind == "did_not_shrink"
        for annotation in annotations
    )
    return did_not_shrink or len(calls) >= COMPACTION_TRIES_MAX


def _resets_attempts(value: object) -> bool:
    return isinstance(value, Compaction) or (isinstance(value, Message) and isinstance(value.message, Prompt))
