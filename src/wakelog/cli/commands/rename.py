"""Commands `rename`, `label`, `archive` and `end`: metadata of a session or an entry. Each appends one entry.

An ended session takes no more messages and is never run; its log stays readable.
"""

from typing import Any

import click

from wakelog.app.addresses import find_session, find_target
from wakelog.cli.ui.errors import note, note_damage_before_append
from wakelog.cli.ui.messages import put_entry, single_text
from wakelog.cli.ui.options import SharedOptions, command, session_argument
from wakelog.cli.ui.output import put, put_json
from wakelog.errors import UsageError
from wakelog.projections.pending import DroppedWork, SessionEnding
from wakelog.session import Session


@command(
    "rename",
    examples="""
    wakelog rename crab_user_3 "The parser, second try"
    wakelog rename @latest ""                remove the title
    """,
)
@session_argument
@click.argument("title", nargs=-1, required=True, metavar="TITLE")
def rename(shared: SharedOptions, session: str, title: tuple[str, ...]) -> None:
    """Set the title of a session. The log keeps its name; `by-title/` in the store links to it."""
    address = find_session(shared.store_url, session)
    opened = Session(address.store, address.name)
    damage = opened.damage
    put_entry(shared, opened.rename(single_text(title)))
    note_damage_before_append(address.ref, damage)


@command(
    "archive",
    examples="""
    wakelog archive crab_user_3
    wakelog archive crab_user_3 --undo
    wakelog ls --archived
    """,
)
@session_argument
@click.option("--undo", is_flag=True, help="Restore it.")
def archive(shared: SharedOptions, session: str, *, undo: bool) -> None:
    """Archive a session, or restore it. Lists leave archived sessions out, nothing is deleted."""
    address = find_session(shared.store_url, session)
    opened = Session(address.store, address.name)
    damage = opened.damage
    put_entry(shared, opened.archive(archived=not undo))
    note_damage_before_append(address.ref, damage)


@command(
    "label",
    examples="""
    wakelog label crab_user_3 12 works
    wakelog label crab_user_3:12 ""          remove the label
    wakelog show crab_user_3:works
    """,
)
@session_argument
@click.argument("words", nargs=-1, required=True, metavar="[ENTRY] TEXT")
def label(shared: SharedOptions, session: str, words: tuple[str, ...]) -> None:
    """Label an entry, so that it can be found and addressed by its label."""
    if len(words) > 2:
        raise UsageError("the label has several words", hint="put it in quotes")
    address = find_session(shared.store_url, session, words[0] if len(words) == 2 else None)
    if address.entry is None:
        raise UsageError("an entry is required", hint="use wakelog label SESSION ENTRY TEXT")
    opened = Session(address.store, address.name)
    damage, target = opened.damage, find_target(address, opened)
    assert target is not None
    put_entry(shared, opened.label(target, words[-1]))
    note_damage_before_append(address.ref, damage)


@command(
    "end",
    examples="""
    wakelog end crab_user_3
    wakelog end crab_user_3 --reason "moved to the new project"
    wakelog end crab_user_3 --force          cancel the running turn and drop open work
    """,
)
@session_argument
@click.option("--reason", metavar="TEXT", default="", help="Reason, recorded in the log.")
@click.option("--force", is_flag=True, help="Cancel the turn first, and drop open work.")
def end(shared: SharedOptions, session: str, *, reason: str, force: bool) -> None:
    """End a session permanently: it never runs again. It can still be read, forked, labelled, renamed and archived."""
    address = find_session(shared.store_url, session)
    if address.entry is not None:
        raise UsageError("only a whole session can be ended", hint=f"`wakelog end {address.name}` ends it")
    opened = Session(address.store, address.name)
    damage = opened.damage
    ended = opened.end(reason, force=force)
    if shared.json:
        put_json(_end_values(ended))
    else:
        put(ended.entry.id)
    if ended.cancelled is not None:
        note("the running turn was cancelled")
    for description in ended.dropped.descriptions:
        note(f"dropped: {description}")
    note_damage_before_append(address.ref, damage)


def _end_values(ended: SessionEnding) -> dict[str, Any]:
    return {
        "entry": ended.entry.id,
        "cancelled": ended.cancelled.id if ended.cancelled is not None else None,
        "dropped": _dropped_values(ended.dropped),
    }


def _dropped_values(dropped: DroppedWork) -> dict[str, Any]:
    return {
        "calls": [
            {"reply": call.reply_id, "call": call.tool_call.id, "tool": call.tool_call.name}
            for call in dropped.open_tool_calls
        ],
        "replies": [{"reply": reply.reply_id, "channel": reply.channel} for reply in dropped.undelivered],
        "queued": [queued.id for queued in dropped.queue],
    }
