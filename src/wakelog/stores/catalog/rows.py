"""The row of a session in the index, from what was found out about its log."""

from wakelog.errors import WakelogError
from wakelog.log.codec import Undecodable, decode
from wakelog.log.content import Prompt
from wakelog.log.entry import Body, Message, Session
from wakelog.log.times import parse_ms
from wakelog.ports import Stat, Store
from wakelog.reading import read_first
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


def bare_row(store: Store, stat: Stat) -> SessionRow:
    """The row of a log that cannot be summarised: what its first and its last line say, where they can be read."""
    session, updated = _first(store, stat.name), _last_time(store, stat.name)
    return SessionRow(
        name=stat.name,
        id=session.id,
        agent=session.agent,
        sender=session.sender,
        number=session.number,
        cwd=session.cwd,
        title=session.title,
        created=session.timestamp,
        updated=updated or session.timestamp,
        entries=0,
        messages=0,
        size=stat.size,
        model=session.model,
        archived=False,
        attached=False,
        uptime=0.0,
        state="unknown",
        damage=0,
        prompt="",
        origin=session.parent.session if session.parent else None,
        cursor=written(RowPlace(parse_ms(updated or session.timestamp) or 0, stat.name)),
    )


def _first(store: Store, name: str) -> Session:
    try:
        first = read_first(store, name)
    except (WakelogError, MemoryError):
        # That the session cannot be read is told by the caller.
        first = None
    return first.value if first is not None and isinstance(first.value, Session) else Session(id=name)


def _last_time(store: Store, name: str) -> str:
    try:
        last = next((line for line in store.tail(name) if line.whole and line.raw), None)
        return decode(last.raw).timestamp if last is not None else ""
    except (WakelogError, Undecodable, MemoryError):
        return ""


def prompt_of(value: Body) -> str:
    """The start of a prompt on one line; empty for anything else."""
    if not isinstance(value, Message) or not isinstance(value.message, Prompt):
        return ""
    return " ".join(value.message.text[: 8 * PROMPT_MAX_CHARS].split())[:PROMPT_MAX_CHARS]
