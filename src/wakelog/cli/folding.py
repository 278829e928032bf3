"""`compact` without a summary: the session's own model writes it, and the result is reported."""

import asyncio

from wakelog.cli.configured import world_for
from wakelog.cli.failures import note
from wakelog.errors import WakelogError
from wakelog.log.entry import Compaction, Entry
from wakelog.runtime.manual_compaction import compact_now
from wakelog.session import Session


def folded(session: Session, keep: str | None, instructions: str) -> Entry:
    """Return the compaction, or the queued request for one if the session is being run.

    `WakelogError` if there is nothing to compact or the summary was not usable.
    """
    done = asyncio.run(compact_now(world_for(session.store), session.name, keep=keep, instructions=instructions))
    if done.entry is None:
        raise WakelogError(f"{session.name} was not folded: {done.why_not}")
    value = done.entry.value
    if not isinstance(value, Compaction):
        note(f"{session.name} is being run: it is folded when its work allows")
    elif value.tokens_before is not None and value.tokens_after is not None:
        note(f"folded from about {value.tokens_before:,} to {value.tokens_after:,} tokens")
    return done.entry
