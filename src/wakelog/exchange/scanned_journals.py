"""Texts in the journals of a session that is read entry by entry: `journals.read_journals` for logs of any size."""

from collections.abc import Iterable

from wakelog.decide.journals import Journals, unsealed
from wakelog.decide.policy import policy_in_force
from wakelog.journals import NO_JOURNALS, JournalTexts, as_written
from wakelog.log.content import Reply, ToolResult
from wakelog.log.entry import Call, ContextEntry, Entry, Message, Partial, Resumed, Session, ToolStarted
from wakelog.log.id_table import NONE
from wakelog.log.tree import Tree
from wakelog.ports import Store
from wakelog.scanning import Scan, own_entries, path_entries


def journals_of_scan(store: Store, scan: Scan) -> JournalTexts:
    """Return the texts in the journals of a scanned session beyond its log: `read_journals` for logs of any size."""
    journals = store.journals(scan.name)
    if not journals:
        return NO_JOURNALS
    head = scan.outline.head
    tree = _tree_about(journals, (entry for _, entry in own_entries(store, scan)))
    context = None
    for node in path_entries(store, scan, scan.outline.path(head), annotations=False) if head != NONE else ():
        context = node.value if isinstance(node.value, ContextEntry) else context
        tree.set_head(node.id, node.seq)
    clip_bytes = policy_in_force(context).clip
    partials = tuple(as_written(partial, clip_bytes) for partial in unsealed(tree, journals))
    return JournalTexts(partials, store.held(scan.name) is not None) if partials else NO_JOURNALS


def _tree_about(journals: Journals, entries: Iterable[Entry]) -> Tree:
    """Return a tree of only those entries that determine the state of these journals."""
    replies, tree = set(journals), Tree(partial=True)
    for entry in entries:
        match entry.value:
            case ToolStarted(reply_id=reply_id) if entry.id in journals:
                replies.add(reply_id)
                tree.add(entry)
            case (
                Call(reply_id=reply_id)
                | Partial(reply_id=reply_id)
                | Resumed(reply_id=reply_id)
                | Message(message=ToolResult(reply_id=str() as reply_id))
            ) if reply_id in replies:
                tree.add(entry)
            case Session() | Message(message=Reply()) if entry.id in journals or tree.root is None:
                tree.add(entry)
    return tree
