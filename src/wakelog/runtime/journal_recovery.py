"""Recovery of journals after a crash: a worker turns them into entries as soon as it has the lease.

A journal whose reply or result is in the log is dropped. Any other becomes one `partial` annotation with everything
that may have been displayed. A journal whose annotation is already in the log is only dropped.
"""

from wakelog.decide.journals import partial_of, subject_of
from wakelog.log.tree import Tree
from wakelog.ports import Lease
from wakelog.session import Session


def drop_finished(session: Session) -> None:
    """Drop the journals of replies that are complete in the log. Needs no lease and writes no entry."""
    for journal in session.store.journals(session.name):
        if journal in session.tree.nodes:
            session.store.drop(session.name, journal)


def recover_journals(session: Session, lease: Lease) -> None:
    """Append what each journal holds beyond the log as a `partial` annotation, and drop the journal."""
    for journal, pieces in session.store.journals(session.name).items():
        tree = _tree_with(session, journal)
        partial = partial_of(tree, journal, pieces)
        if partial is not None:
            # If the reply itself is unreadable, the output of its tool is attached to the head.
            session.append(partial, at=partial.parent_id if partial.parent_id in tree.nodes else None, lease=lease)
        session.store.drop(session.name, journal)


def _tree_with(session: Session, journal: str) -> Tree:
    """Return a tree that holds the subject of a journal: the loaded tail, or the whole log if the tail does not."""
    tree = session.tree
    return tree if not tree.partial or subject_of(tree, journal) is not None else session.read().tree
