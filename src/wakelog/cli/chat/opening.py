"""Initial display of a session in a chat: its last exchange, through the same fold as all later entries.

An interrupted reply, a running tool and a queued message are therefore live at once. Messages above the exchange are
counted, and a long exchange is shown from its end.
"""

from wakelog.cli.chat.shown import Notice, Shown
from wakelog.cli.chat.talk import ChatState
from wakelog.cli.times import plural
from wakelog.log.content import Prompt
from wakelog.log.entry import ContextEntry, Entry, Head, Message, Queued
from wakelog.log.tree import Branch, Tree
from wakelog.projections.queue import waiting_messages

_SHOWN_MAX = 40
# Queued messages are taken from the state, because they may have been used; an earlier head move is not shown.
_UNTOLD = (Queued, Head)


def opened(talk: ChatState, name: str, tree: Tree, messages: int) -> list[Shown]:
    """Return the items of the last exchange at the head; `messages` is the number of messages in all."""
    branch = tree.branch()
    entries = last_exchange(branch)
    talk.context = _in_force_before(branch, entries)
    for queued in waiting_messages(tree):
        if queued.message is not None:
            talk.queue[queued.id] = queued
    shown = [one for entry in entries for one in talk.hear(name, entry)]
    above = max(0, messages - sum(isinstance(entry.value, Message) for entry in entries))
    folded = max(0, len(shown) - _SHOWN_MAX)
    return [*_above(name, above, folded), *shown[-_SHOWN_MAX:]]


def _in_force_before(branch: Branch, entries: list[Entry]) -> ContextEntry | None:
    shown = {entry.id for entry in entries}
    records = [node.value for node in branch.nodes if isinstance(node.value, ContextEntry)]
    return next((record for record in reversed(records) if record.id not in shown), None)


def _above(name: str, messages: int, folded: int) -> list[Shown]:
    words = [plural(messages, "message")] if messages else []
    words += [f"{plural(folded, 'block')} of the last exchange"] if folded else []
    return [Notice(f"{' and '.join(words)} above this; `wakelog show {name}` shows all", "dim")] if words else []


def last_exchange(branch: Branch) -> list[Entry]:
    """Return the last prompt and everything after it: nodes in branch order, with their annotations."""
    nodes = branch.nodes
    start = next((at for at in range(len(nodes) - 1, -1, -1) if _is_prompt(nodes[at])), len(nodes))
    here = nodes[start:]
    own = {node.id for node in nodes[max(start, branch.inherited) :]}
    # Selected by parent: in log order, annotations of an earlier node may lie among these entries.
    annotations = [
        annotation
        for annotation in branch.annotations
        if annotation.value.parent_id in own and not isinstance(annotation.value, _UNTOLD)
    ]
    inherited = [node for node in here if node.id not in own]
    return [
        *inherited,
        *sorted((*(node for node in here if node.id in own), *annotations), key=lambda entry: entry.seq),
    ]


def _is_prompt(node: Entry) -> bool:
    return isinstance(node.value, Message) and isinstance(node.value.message, Prompt)
