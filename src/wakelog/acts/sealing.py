"""Journals that a crash has left behind: whoever takes the lease seals them before anything else is done.

A journal whose reply or result is in the log is dropped. Any other becomes one `partial` fact, with everything
that anybody can have seen. Sealing is done once: a journal that was sealed and not yet dropped is only dropped.
"""

from wakelog.log.content import Prompt, ToolResult
from wakelog.log.entry import Call, Entry, Message, Partial, Resumed, ToolStarted
from wakelog.log.tree import Tree
from wakelog.ports import Lease
from wakelog.session import Session
from wakelog.turn.assemble import from_journal


def drop_finished(session: Session) -> None:
    """Removes journals of replies that are complete in the log; this needs no lease, and writes no entry."""
    for journal in session.store.journals(session.name):
        if journal in session.tree.links:
            session.store.drop(session.name, journal)


def seal_journals(session: Session, lease: Lease) -> None:
    """Turns every journal into a fact, or drops it."""
    for journal, pieces in session.store.journals(session.name).items():
        tree = _tree_with(session, journal)
        if journal not in tree.links:
            _seal(session, lease, tree, journal, pieces)
        session.store.drop(session.name, journal)


def _tree_with(session: Session, journal: str) -> Tree:
    """A tree that knows what a journal is about: the tail mostly does."""
    tree = session.tree
    return tree if not tree.partial or _subject(tree, journal) is not None else session.read().tree


def _subject(tree: Tree, journal: str) -> Entry | None:
    """The entry a journal belongs to: the last call for its reply, or the beginning of its tool."""
    for entry in reversed(tree.own()):
        match entry.value:
            case Call(reply_id=named) if named == journal:
                return entry
            case ToolStarted() if entry.id == journal:
                return entry
    return None


def _seal(session: Session, lease: Lease, tree: Tree, journal: str, pieces: tuple[bytes, ...]) -> None:
    subject = _subject(tree, journal)
    if subject is not None and _is_told(tree, subject):
        return
    if subject is not None and isinstance(subject.value, ToolStarted):
        call = subject.value
        partial = Partial(reply_id=call.reply_id, tool_call_id=call.tool_call_id, content=from_journal(pieces))
    else:
        partial = Partial(reply_id=journal, content=from_journal(pieces, prior=_prior(tree, journal)))
    if partial.content:
        parent = subject.value.parent_id if subject is not None else None
        # The reply itself may be unreadable: what is left of its tool's output then hangs on the head.
        session.append(partial, at=parent if parent in tree.links else None, lease=lease)


def _is_told(tree: Tree, subject: Entry) -> bool:
    """Whether the log says by now what the journal could say: it was sealed, or the tool has its result."""
    since = [entry.value for entry in tree.own() if entry.seq > subject.seq]
    match subject.value:
        case Call(reply_id=reply_id):
            return any(isinstance(it, Partial) and (it.reply_id, it.tool_call_id) == (reply_id, None) for it in since)
        case ToolStarted(reply_id=reply_id, tool_call_id=call_id):
            said = [value.message if isinstance(value, Message) else value for value in since]
            told = [it for it in said if isinstance(it, Partial | ToolResult)]
            return any((it.reply_id, it.tool_call_id) == (reply_id, call_id) for it in told)
    return False


def _prior(tree: Tree, reply_id: str) -> str:
    """What a reply that was being resumed had said before: its journal holds only how it went on."""
    facts = [entry.value for entry in tree.own() if isinstance(entry.value, Partial | Resumed)]
    about = [fact for fact in facts if fact.reply_id == reply_id]
    resumes = bool(about) and isinstance(about[-1], Resumed) and about[-1].strategy == "resume"
    partials = [fact for fact in about if isinstance(fact, Partial) and fact.tool_call_id is None]
    return Prompt(content=partials[-1].content).text if resumes and partials else ""
