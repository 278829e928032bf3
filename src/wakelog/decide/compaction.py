"""What a summary may stand for: planned purely, never inside a call group.

Rule 1: a fold keeps the newest messages, as many as fit the tokens agreed, from the start of a call group on.
Rule 2: something must be won: a fold that would stand for nothing but the last summary is not planned,
and one whose summary is no shorter than what it replaces is not written. So folding comes to an end.
"""

from itertools import accumulate

from wakelog.log.content import Prompt, Text
from wakelog.log.entry import Call, Compaction, Message, Partial
from wakelog.log.tree import Branch
from wakelog.projections.active import active
from wakelog.projections.context import Context, build_context, estimate_tokens, group_starts, message_tokens

TRIES_MAX = 2


def plan_compaction(branch: Branch, keep_tokens: int) -> str | None:
    """The first entry that a fold would keep; None where there is nothing to fold."""
    context = build_context(branch)
    fold = active(branch).compaction
    first = int(fold is not None and context.entry_ids[:1] == (fold.id,))
    messages, ids = context.messages[first:], context.entry_ids[first:]
    # From the newest back: how many tokens are kept if the fold begins here.
    kept = list(accumulate(message_tokens(message) for message in reversed(messages)))[::-1]
    starts = [at for at in group_starts(messages) if at > 0]
    fitting = [at for at in starts if kept[at] <= keep_tokens < kept[0]]
    # Where all of it would fit, or not even the last group does, that group is kept and the rest folded.
    at = min(fitting, default=max(starts, default=0))
    return ids[at] if at else None


def is_kept_by_a_compaction(branch: Branch, first_kept: str) -> bool:
    """Whether a fold may keep everything from an entry on: it is in the context, not first, and begins a call group."""
    context = build_context(branch)
    if first_kept not in context.entry_ids:
        return False
    at = context.entry_ids.index(first_kept)
    return at > 0 and at in group_starts(context.messages)


def stretch(context: Context, first_kept: str | None) -> Context:
    """The part of a context that a summary is to stand for: all of it where nothing is kept."""
    return context if first_kept is None else context.until(context.entry_ids.index(first_kept))


def shrinks(context: Context, first_kept: str | None, summary: str) -> bool:
    """Whether a context is shorter with the summary than with what it stands for."""
    return estimate_tokens((Text(text=summary),)) < stretch(context, first_kept).tokens


def compaction_is_hopeless(branch: Branch) -> bool:
    """Whether folding has been tried, since the last fold or prompt, and would come to nothing again."""
    since = max((node.seq for node in branch.nodes[branch.inherited :] if _begins_anew(node.value)), default=-1)
    annotations = [annotation.value for annotation in branch.annotations if annotation.seq > since]
    calls = [
        annotation for annotation in annotations if isinstance(annotation, Call) and annotation.purpose == "compaction"
    ]
    vain = any(
        isinstance(annotation, Partial) and annotation.error and annotation.error.kind == "did_not_shrink"
        for annotation in annotations
    )
    return vain or len(calls) >= TRIES_MAX


def _begins_anew(value: object) -> bool:
    return isinstance(value, Compaction) or (isinstance(value, Message) and isinstance(value.message, Prompt))
