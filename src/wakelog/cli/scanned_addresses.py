"""Find the entry that a user typed in a log of any size: `addresses.find_node` for a scan."""

from wakelog.cli.names import LONG_ID
from wakelog.errors import NotFound, UsageError
from wakelog.log.entry import Label
from wakelog.log.entry import Session as SessionEntry
from wakelog.log.id_table import NONE
from wakelog.ports import Store
from wakelog.scanning import Scan, scanned_entries

_LISTED = 5


def find_scanned_node(store: Store, scan: Scan, typed: str) -> int:
    """Like `find_node`, for a log of any size: return the node's number in the outline of its scan."""
    found = [typed] if scan.outline.number(typed) != NONE else _typed_ids(store, scan, typed)
    if len(found) > 1:
        listed = ", ".join(one[:LONG_ID] for one in found[:_LISTED]) + (", …" if len(found) > _LISTED else "")
        raise UsageError(f"{typed} could be {len(found)} entries: {listed}", hint="name one of them")
    node = scan.outline.find(found[0]) if found else None
    if node is None:
        raise NotFound(f"no entry {typed[:60]} in {scan.name}", hint="`wakelog tree` shows them")
    return node


def _typed_ids(store: Store, scan: Scan, typed: str) -> list[str]:
    """Return the ids that match by number, else by name of an inherited node, else by label, else by prefix."""
    numbered, beginning = [], []
    inherited: list[tuple[int, str]] = []
    labelled: dict[int, str] = {}
    sessions = 0
    carets = len(typed) - len(typed.lstrip("^"))
    for number, entry in scanned_entries(store, scan):
        is_node, is_own = scan.outline.is_node(number), number >= scan.outline.inherited
        if is_node and not is_own:
            sessions += isinstance(entry.value, SessionEntry)
            if carets and str(entry.seq) == typed[carets:]:
                inherited.append((sessions, entry.id))
        if is_own and str(entry.seq) == typed:
            numbered.append(entry.id)
        if isinstance(entry.value, Label):
            labelled[scan.outline.node_of(number)] = entry.value.label
        if entry.id.startswith(typed):
            beginning.append(entry.id)
    named = [entry_id for seen, entry_id in inherited if sessions + 1 - seen == carets]
    nodes = {number for number, label in labelled.items() if label == typed}
    with_label = [entry.id for number, entry in scanned_entries(store, scan) if number in nodes] if nodes else []
    return numbered[:1] or named[:1] or with_label or beginning
