"""Forking into a session of its own: the new log names an entry of the old one and copies nothing.

A new session never runs its parent's calls: those open at the fork point are settled there at once,
with the parent's own result where it has one by now, and as skipped where it has not.
"""

import msgspec

from wakelog.errors import Damaged
from wakelog.log.content import Text, ToolResult
from wakelog.log.entry import Entry, Message, Origin
from wakelog.log.entry import Session as SessionEntry
from wakelog.log.seal import seal_of
from wakelog.reading import Log, read_log
from wakelog.session import Session
from wakelog.views.pending import OpenCall, open_calls

_SKIPPED = "Not run: the session was forked before this tool call had a result."


def fork(session: Session, at: str | None = None) -> Session:
    """A new session that goes on from an entry (default: the head) of another."""
    log = session.read()
    target = log.tree.find(at) if at is not None else log.tree.head
    if target is None:
        raise Damaged(f"{session.name} has no entry that can be read", hint="see `wakelog doctor`")
    card = _card(log)
    owner, link = _owner(session, log, target)
    child = Session.create(
        session.store,
        agent=card.agent or "agent",
        sender=card.sender or "user",
        cwd=card.cwd,
        parent=Origin(session=owner, entry=target, h=seal_of(link.raw)),
        clock=session.clock,
    )
    for call in open_calls(child.branch()):
        child.append(Message(message=_settled(call, log)))
    return child


def _card(log: Log) -> SessionEntry:
    first = log.session.value if log.session else None
    return first if isinstance(first, SessionEntry) else SessionEntry()


def _owner(session: Session, log: Log, link_id: str) -> tuple[str, Entry]:
    """The session that holds a link: this one, or, for what it inherited, the one it came from."""
    owner = log.id
    while log.tree.is_inherited(link_id):
        parent = _card(log).parent
        assert parent is not None
        owner = parent.session
        log = read_log(session.store, owner)
    return owner, log.tree.links[link_id]


def _settled(call: OpenCall, parent: Log) -> ToolResult:
    """The result of a call that was open where a fork begins."""
    for entry in parent.entries:
        match entry.value:
            case Message(message=ToolResult(reply_id=call.reply_id, tool_call_id=call.call.id) as result):
                return msgspec.structs.replace(result, copied_from=entry.id)
    return ToolResult(
        tool_call_id=call.call.id,
        tool_name=call.call.name,
        reply_id=call.reply_id,
        status="skipped",
        is_error=True,
        content=(Text(text=_SKIPPED),),
    )
