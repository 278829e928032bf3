"""Command `end`: end a session for good. It takes no more messages and is never run; its log stays readable."""

from typing import Any

import click

from wakelog.cli.addresses import find
from wakelog.cli.failures import note, note_written
from wakelog.cli.options import Asked, command, session_argument
from wakelog.cli.output import put, put_json
from wakelog.errors import UsageError
from wakelog.projections.unfinished import Dropped, Ended
from wakelog.session import Session


@command(
    "end",
    examples="""
    wakelog end crab_user_3
    wakelog end crab_user_3 --reason "moved to the new project"
    wakelog end crab_user_3 --force          cancel what is under way, and drop what is open
    """,
)
@session_argument
@click.option("--reason", metavar="TEXT", default="", help="Why; it stands in the log.")
@click.option("--force", is_flag=True, help="Cancel the turn first, and drop what is still open.")
def end(asked: Asked, session: str, *, reason: str, force: bool) -> None:
    """End a session for good: it is never run again. It can still be read, forked, labelled, renamed and archived."""
    address = find(asked, session)
    if address.entry is not None:
        raise UsageError("a whole session is ended", hint=f"`wakelog end {address.name}` ends it")
    opened = Session(address.store, address.name)
    damage = opened.damage
    ended = opened.end(reason, force=force)
    if asked.json:
        put_json(_as_json(ended))
    else:
        put(ended.entry.id)
    if ended.cancelled is not None:
        note("the turn that was under way was cancelled")
    for words in ended.dropped.words:
        note(f"dropped: {words}")
    note_written(address.ref, damage)


def _as_json(ended: Ended) -> dict[str, Any]:
    return {
        "entry": ended.entry.id,
        "cancelled": ended.cancelled.id if ended.cancelled is not None else None,
        "dropped": _dropped(ended.dropped),
    }


def _dropped(dropped: Dropped) -> dict[str, Any]:
    return {
        "calls": [{"reply": call.reply_id, "call": call.call.id, "tool": call.call.name} for call in dropped.calls],
        "replies": [{"reply": debt.reply_id, "channel": debt.channel} for debt in dropped.owed],
        "queued": [queued.id for queued in dropped.queue],
    }
