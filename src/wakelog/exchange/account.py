"""What became of the records of a session that was imported: the numbers that every import reports."""

from collections.abc import Mapping
from typing import Any

import msgspec

from wakelog.errors import WakelogError
from wakelog.exchange.records import BadRecord
from wakelog.exchange.sessions import ImportedEntry, ImportedItem, SessionOrigin, SkippedRecords

_BAD_KEPT = 100


class Account(msgspec.Struct):
    """How many records of a session were read, and what became of them."""

    mapped: int = 0
    verbatim: int = 0
    skipped: dict[tuple[str, str], int] = {}
    """The number of records by kind and reason."""
    bad: list[BadRecord] = []
    """The first stretches that could not be read."""
    bad_count: int = 0
    """The number of all of them."""

    def add(self, item: ImportedItem) -> None:
        """Count the records of an item."""
        match item:
            case ImportedEntry(is_verbatim=True):
                self.verbatim += item.records
            case ImportedEntry():
                self.mapped += item.records
            case SkippedRecords():
                key = item.kind, item.reason
                self.skipped[key] = self.skipped.get(key, 0) + item.count
            case BadRecord():
                self.bad_count += 1
                if len(self.bad) < _BAD_KEPT:
                    self.bad.append(item)

    @property
    def read(self) -> int:
        """All records that were read."""
        return self.mapped + self.verbatim + self.left_out + self.bad_count

    @property
    def left_out(self) -> int:
        """The records that were left out for a reason, which is counted with them."""
        return sum(self.skipped.values())

    @property
    def fidelity(self) -> float:
        """The share of the records that became entries of wakelog's own types."""
        return self.mapped / self.read if self.read else 1.0

    def to_plain(self) -> dict[str, Any]:
        """Return the account as JSON values."""
        return {
            "read": self.read,
            "mapped": self.mapped,
            "verbatim": self.verbatim,
            "fidelity": round(self.fidelity, 4),
            "skipped": [
                {"kind": kind, "reason": reason, "count": count} for (kind, reason), count in self.skipped.items()
            ],
            "bad": [
                {"line": bad.line, "offset": bad.offset, "bytes": bad.size, "reason": bad.reason} for bad in self.bad
            ],
            "badCount": self.bad_count,
        }


class ImportedSession(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one session. `added` counts the entries that were not in the store before."""

    origin: SessionOrigin
    session: str
    name: str | None
    """The name in the store; None for a new session of a dry run."""
    is_new: bool
    added: int
    account: Account
    redacted: Mapping[str, int] = {}
    """The number of redaction marks in the entries that were added, by kind."""
    error: WakelogError | None = None
