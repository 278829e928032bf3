"""Journals that a crash has left behind: whoever takes the lease seals them before anything else is done.

A journal whose reply or result is in the log is dropped. Any other becomes one `partial` annotation, with everything
that anybody can have seen. Sealing is done once: a journal that was sealed and not yet dropped is only dropped.
"""

from wakelog.decide.journals import partial_of, subject_of
from wakelog.log.tree import Tree
from wakelog.ports import Lease
from wakelog.session import Session


def drop_finished(session: Session) -> None:
    """Removes journals of replies that are complete in the log; this needs no lease, and writes no entry."""
    for journal in session.store.journals(session.name):
        if journal in session.tree.nodes:
            session.store.drop(session.name, journal)


def seal_journals(session: Session, lease: Lease) -> None:
    """Turns every journal into an annotation, or drops it."""
    for journal, pieces in session.store.journals(session.name).items():
        tree = _tree_with(session, journal)
        partial = partial_of(tree, journal, pieces)
        if partial is not None:
            # The reply itself may be unreadable: what is left of its tool's output then hangs on the head.
            session.append(partial, at=partial.parent_id if partial.parent_id in tree.nodes else None, lease=lease)
        session.store.drop(session.name, journal)


def _tree_with(session: Session, journal: str) -> Tree:
    """A tree that knows what a journal is about: the tail mostly does."""
    tree = session.tree
    return tree if not tree.partial or subject_of(tree, journal) is not None else session.read().tree
