"""The audit of a session as plain values: tool calls, turns with the settings in force, and totals.

The names of the tools in force are read from the blob of their declarations; where that cannot be read they are None.
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from typing import Any

import msgspec

from wakelog.auditing import SessionAudit
from wakelog.errors import WakelogError
from wakelog.log.content import BlobRef
from wakelog.ports.stores import Blobs, Store
from wakelog.projections.tool_audit import AuditedCall, AuditedTurn, AuditRow
from wakelog.runtime.model_request import declared_tools

_TOOL_LISTS_KEPT = 16


class AuditFilter(msgspec.Struct, frozen=True):
    """Which rows of an audit are wanted. Empty `tools` and `statuses` mean all."""

    tools: Container[str] = ()
    statuses: Container[str] = ()
    all_branches: bool = False
    turns: bool = False

    def wants(self, row: AuditRow) -> bool:
        """Return whether a row is wanted; turns without `turns` are not."""
        if not (row.on_branch or self.all_branches):
            return False
        if isinstance(row, AuditedTurn):
            return self.turns
        return (not self.tools or row.tool in self.tools) and (not self.statuses or row.status in self.statuses)


class AuditTotal(msgspec.Struct):
    """The tool calls of one session that an audit lists, by status, and those that stand on other branches."""

    session: str
    statuses: Counter[str]
    other_branches: int = 0
    effects_unknown: int = 0

    @property
    def calls(self) -> int:
        """The number of calls listed."""
        return self.statuses.total()

    def add(self, call: AuditedCall) -> None:
        """Count a call that is listed."""
        self.statuses[call.status] += 1
        self.effects_unknown += call.effect_unknown

    def values(self) -> dict[str, Any]:
        """Return the total as a JSON value."""
        return {
            "kind": "session",
            "session": self.session,
            "calls": self.calls,
            "statuses": dict(self.statuses),
            "effectsUnknown": self.effects_unknown,
            "otherBranches": self.other_branches,
        }


class AuditReport:
    """The rows of one session's audit that a filter wants; `total` is complete once they have been iterated over."""

    def __init__(
        self, store: Store, audit: SessionAudit, wanted: AuditFilter, node: int | None = None, *, inherited: bool = True
    ) -> None:
        self.total = AuditTotal(audit.scan.name, Counter())
        self._rows = audit.rows(node, inherited=inherited)
        self._wanted = wanted
        self._tools = _ToolNames(store.blobs)

    def rows(self) -> Iterator[AuditRow]:
        """Yield the wanted rows, and count."""
        for row in self._rows:
            if isinstance(row, AuditedCall) and not row.on_branch and not self._wanted.all_branches:
                self.total.other_branches += 1
            elif self._wanted.wants(row):
                if isinstance(row, AuditedCall):
                    self.total.add(row)
                yield row

    def values(self) -> Iterator[Any]:
        """Yield the wanted rows as JSON values, then the total."""
        for row in self.rows():
            yield row if isinstance(row, AuditedCall) else self.turn_values(row)
        yield self.total.values()

    def turn_values(self, row: AuditedTurn) -> dict[str, Any]:
        """Return a turn as a JSON value; None stands for what the log does not record."""
        settings, context = row.settings, row.settings.context
        return {
            "kind": "turn",
            "session": row.session,
            "turn": row.turn.id,
            "seq": row.turn.seq,
            "time": row.turn.timestamp,
            "prompt": row.turn.prompt,
            "model": settings.model,
            "provider": settings.provider,
            "strategy": settings.policy.get("strategy"),
            "reasoning": settings.policy.get("reasoning"),
            "approval": settings.policy.get("approval"),
            "context": context.id if context is not None else None,
            "instructions": _blob_values(context.system) if context is not None else None,
            "sources": [_source_values(source) for source in context.sources] if context is not None else None,
            "tools": self._tool_values(context.tools) if context is not None else None,
            "policy": settings.policy,
            "params": context.params if context is not None else None,
            "environment": context.environment if context is not None else None,
            "settings": settings.settings,
            "changed": row.changed,
            "inherited": row.inherited,
            "onBranch": row.on_branch,
        }

    def _tool_values(self, tools: BlobRef | None) -> dict[str, Any]:
        return {"digest": tools and tools.digest, "names": self._tools.of(tools)}


def _blob_values(blob: BlobRef | None) -> dict[str, Any] | None:
    return {"digest": blob.digest, "bytes": blob.bytes} if blob is not None else None


def _source_values(source: Any) -> dict[str, Any]:
    """Return an instruction file with all fields, those with their usual value too."""
    return {field.encode_name: getattr(source, field.name) for field in msgspec.structs.fields(source)}


class _ToolNames:
    """The names of declared tools, of the last few declarations that were read."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._known: dict[str, list[str] | None] = {}

    def of(self, ref: BlobRef | None) -> list[str] | None:
        """Return the names; None if the declarations cannot be read."""
        if ref is None:
            return []
        if ref.digest not in self._known:
            if len(self._known) >= _TOOL_LISTS_KEPT:
                self._known.clear()
            self._known[ref.digest] = self._read(ref)
        return self._known[ref.digest]

    def _read(self, ref: BlobRef) -> list[str] | None:
        try:
            # The entry is named in the error only, which is not shown.
            declared: list[Mapping[str, Any]] = declared_tools(self._blobs, ref, "")
        except WakelogError:
            return None
        return [str(tool.get("name", "")) for tool in declared]
