"""The row of a session in the index, from what was found out about its log."""

from wakelog.log.content import Prompt
from wakelog.log.entry import Body, Message, Session
from wakelog.log.times import parse_ms
from wakelog.ports import Stat
from wakelog.stores.catalog.cursors import RowPlace, written
from wakelog.views.overview import Overview
from wakelog.views.session_row import SessionRow
from wakelog.views.state import SessionState

PROMPT_MAX_CHARS = 200


def row_of(
    stat: Stat,
    session: Session | None,
    view: Overview,
    whole: SessionState,
    *,
    damage: int,
    updated: str,
    prompt: str,
) -> SessionRow:
    """The row of a log that was read. `session` is its session entry, if it can be read."""
    # A head on an inherited link makes the parent's card the branch's; the row is this session's own.
    own = session or Session(id=stat.name)
    return SessionRow(
        name=stat.name,
        id=own.id,
        agent=own.agent,
        sender=own.sender,
        number=own.number,
        cwd=own.cwd,
        title=view.title,
        created=own.timestamp,
        updated=updated,
        entries=view.entries,
        messages=view.messages,
        size=stat.size,
        model=view.model,
        archived=view.archived,
        attached=whole.attached,
        uptime=(whole.uptime_ms or 0) / 1_000,
        state=view.state,
        damage=damage,
        prompt=prompt,
        origin=own.parent.session if own.parent else None,
        cursor=written(RowPlace(parse_ms(updated) or 0, stat.name)),
    )


def prompt_of(value: Body) -> str:
    """The start of a prompt on one line; empty for anything else."""
    if not isinstance(value, Message) or not isinstance(value.message, Prompt):
        return ""
    return " ".join(value.message.text[: 8 * PROMPT_MAX_CHARS].split())[:PROMPT_MAX_CHARS]
