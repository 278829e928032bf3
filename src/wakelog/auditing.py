"""Audit of a session: its tool calls and the settings of its turns, read from the store at any size.

The log is read twice, see `projections/tool_audit.py`; inherited history of a fork is part of it. Nothing is written.
"""

from collections.abc import Iterator

from wakelog.log.entry import Entry
from wakelog.log.ids import NO_NUMBER
from wakelog.log.lines import Damage
from wakelog.ports.stores import Store
from wakelog.projections.tool_audit import AuditedCall, AuditedPart, AuditEvidence, AuditRow, audit_rows
from wakelog.scanning import Scan, Scanning, inherited_entries, scanned_entries


class SessionAudit:
    """The audit of one session. The first reading is done when it is made; `rows` does the second."""

    def __init__(self, store: Store, session: str) -> None:
        self._store = store
        self._evidence = AuditEvidence()
        scanning = Scanning(store, session)
        for entry in scanning.entries():
            if scanning.found.entries == 1:
                for each in inherited_entries(store, scanning.found, annotations=True):
                    self._add(scanning.found, each)
            self._add(scanning.found, entry)
        self.scan: Scan = scanning.checked()

    def _add(self, scan: Scan, entry: Entry) -> None:
        outline, number = scan.outline, scan.outline.number(entry.id)
        if outline.number_of(entry) is None:
            # A second entry with this id, which does not count.
            return
        node = outline.node_of(number)
        self._evidence.add(entry, number, node, outline.parent(node) if node != NO_NUMBER else NO_NUMBER)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The damaged places, in inherited history too."""
        return self.scan.damage

    def rows(self, node: int | None = None, *, inherited: bool = True) -> Iterator[AuditRow]:
        """Yield the turns and tool calls of all branches, in log order.

        `on_branch` marks those of the branch that ends at a node of the scan's outline, by default at the head. Without
        `inherited`, those of the parents of a fork are left out.
        """
        scan = self.scan
        outline = scan.outline
        part = AuditedPart(
            session=scan.name,
            path=outline.path(outline.head if node is None else node),
            inherited=outline.inherited,
            last_loss_offset=max((hole.offset for hole in scan.holes), default=-1),
            has_inherited_loss=bool(scan.inherited_holes),
        )
        first = 0 if inherited else outline.inherited
        nodes = (
            (number, entry)
            for number, entry in scanned_entries(self._store, scan)
            if number >= first and outline.is_node(number)
        )
        return audit_rows(self._evidence, part, nodes)


def audit_calls(store: Store, session: str) -> Iterator[AuditedCall]:
    """Yield the tool calls of a session's active branch, inherited ones included."""
    rows = SessionAudit(store, session).rows()
    return (row for row in rows if isinstance(row, AuditedCall) and row.on_branch)
