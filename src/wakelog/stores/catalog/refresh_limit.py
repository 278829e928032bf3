"""Select the changed logs that can be indexed within a byte limit, so that a command does not wait for a large log.

A log that only grew costs its new bytes, any other log all of its bytes. A fork that is not indexed yet costs the logs
of its ancestors too. A module of its own, because a list that leaves all changed logs out does not load the indexer.
"""

from collections.abc import Mapping

from wakelog.errors import WakelogError
from wakelog.log.entry import Origin, SessionHeader
from wakelog.ports.stores import Store
from wakelog.reading import ANCESTORS_MAX, read_session_header
from wakelog.stores.catalog.tables import ChangedLog


def logs_within_limit(store: Store, work: Mapping[str, ChangedLog], limit_bytes: int) -> dict[str, ChangedLog]:
    """Return the logs that fit into `limit_bytes`, in order; a log that exceeds the remaining limit is skipped."""
    costs = _ReadingCosts(store)
    kept: dict[str, ChangedLog] = {}
    for name, due in work.items():
        cost = costs.of(due, limit_bytes)
        if cost <= limit_bytes:
            limit_bytes -= cost
            kept[name] = due
    return kept


class _ReadingCosts:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._sizes: dict[str, int] | None = None

    def of(self, due: ChangedLog, limit_bytes: int) -> int:
        """Return the number of bytes to read for a log. Above `limit_bytes` the result may be too low."""
        known = due.before[0] if due.before is not None else -1
        if 0 <= known <= due.stat.size:
            return due.stat.size - known
        return due.stat.size + (self._inherited(due.stat.name) if due.stat.size <= limit_bytes else 0)

    def _inherited(self, name: str) -> int:
        """Return the total size of the logs that a fork inherits from."""
        size = 0
        for _ in range(ANCESTORS_MAX):
            try:
                origin = self._origin(name)
                if origin is None:
                    break
                name = self._store.name(origin.session)
            except WakelogError:
                # Indexing the log reports the error.
                break
            size += self._size(name)
        return size

    def _origin(self, name: str) -> Origin | None:
        first = read_session_header(self._store, name)
        origin = first.value.parent if first is not None and isinstance(first.value, SessionHeader) else None
        return origin if origin is not None and origin.kind == "fork" else None

    def _size(self, name: str) -> int:
        if self._sizes is None:
            self._sizes = {stat.name: stat.size for stat in self._store.sessions()}
        return self._sizes.get(name, 0)
