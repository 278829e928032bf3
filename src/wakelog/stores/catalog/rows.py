"""Build the index row of a session from the results of reading its log."""

from itertools import islice

from wakelog.errors import WakelogError
from wakelog.log.codec import Undecodable, decode
from wakelog.log.content import Prompt
from wakelog.log.entry import Body, CarriedState, Compaction, Message, Session, SessionArchived, Terminated
from wakelog.log.times import parse_ms
from wakelog.ports import Stat, Store
from wakelog.projections.overview import Overview
from wakelog.projections.session_row import SessionRow
from wakelog.projections.state import SessionState
from wakelog.reading import read_first
from wakelog.stores.catalog.cursors import RowPlace, written

PROMPT_MAX_CHARS = 200
# How much of the end of a log is read for a row without a summary.
_END_LINES = 256
_END_BYTES = 1024 * 1024


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
    """Return the row of a log that was read. `session` is its session header, or None if that is unreadable."""
    # If the head is an inherited node, the branch has the parent's header; the row shows this session's own header.
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
    """Return the row of a log that could not be summarised: only what its first and last lines show, if readable."""
    session, end = _first(store, stat.name), _end(store, stat.name)
    updated = end.updated or session.timestamp
    return SessionRow(
        name=stat.name,
        id=session.id,
        agent=session.agent,
        sender=session.sender,
        number=session.number,
        cwd=session.cwd,
        title=session.title,
        created=session.timestamp,
        updated=updated,
        entries=0,
        messages=0,
        size=stat.size,
        model=session.model,
        archived=end.archived or False,
        attached=False,
        uptime=0.0,
        state="terminated" if end.terminated else "unknown",
        damage=0,
        prompt="",
        origin=session.parent.session if session.parent else None,
        cursor=written(RowPlace(parse_ms(updated) or 0, stat.name)),
    )


def _first(store: Store, name: str) -> Session:
    try:
        first = read_first(store, name)
    except (WakelogError, MemoryError):
        # The caller reports that the session cannot be read.
        first = None
    return first.value if first is not None and isinstance(first.value, Session) else Session(id=name)


class _End:
    """State of the whole session according to the last lines of its log, read backwards."""

    def __init__(self) -> None:
        self.updated = ""
        self.archived: bool | None = None
        self.terminated = False

    def add(self, value: Body) -> bool:
        """Process the previous line; return False if the lines before it add nothing."""
        self.updated = self.updated or value.timestamp
        match value:
            case SessionArchived(archived=archived) if self.archived is None:
                self.archived = archived
            case Terminated():
                self.terminated = True
            case Compaction(state=CarriedState() as state):
                self.archived = state.archived if self.archived is None else self.archived
                self.terminated = self.terminated or state.terminated
                return False
        return True


def _end(store: Store, name: str) -> _End:
    end, size = _End(), 0
    try:
        for line in islice(store.tail(name), _END_LINES):
            size += len(line.raw)
            if size > _END_BYTES or not line.whole:
                break
            if line.raw and not _takes_in(end, line.raw):
                break
    except (WakelogError, MemoryError):
        # Keep what was read so far.
        pass
    return end


def _takes_in(end: _End, raw: bytes) -> bool:
    try:
        return end.add(decode(raw))
    except Undecodable:
        return True


def prompt_of(value: Body) -> str:
    """Return the start of a prompt on one line, at most `PROMPT_MAX_CHARS` characters; empty for any other entry."""
    if not isinstance(value, Message) or not isinstance(value.message, Prompt):
        return ""
    return " ".join(value.message.text[: 8 * PROMPT_MAX_CHARS].split())[:PROMPT_MAX_CHARS]
