"""Which changed logs can be indexed for a given amount of reading: for a run that must not wait for a large log.

A log that only grew costs its new bytes, another one all of them. A fork that is not known yet costs the logs that it
goes on from too.
"""

from collections.abc import Mapping

from wakelog.errors import WakelogError
from wakelog.log.entry import Origin, Session
from wakelog.ports import Store
from wakelog.reading import ANCESTORS_MAX, read_first
from wakelog.stores.catalog.tables import Due


def within(store: Store, work: Mapping[str, Due], limit_bytes: int) -> dict[str, Due]:
    """The logs that can be read for so many bytes, in their order; those that cost more than is left are left out."""
    costs = _Costs(store)
    kept: dict[str, Due] = {}
    for name, due in work.items():
        cost = costs.of(due, limit_bytes)
        if cost <= limit_bytes:
            limit_bytes -= cost
            kept[name] = due
    return kept


class _Costs:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._sizes: dict[str, int] | None = None

    def of(self, due: Due, limit_bytes: int) -> int:
        """How many bytes have to be read for a log. Above the limit it does not matter by how much."""
        known = due.before[0] if due.before is not None else -1
        if 0 <= known <= due.stat.size:
            return due.stat.size - known
        return due.stat.size + (self._inherited(due.stat.name) if due.stat.size <= limit_bytes else 0)

    def _inherited(self, name: str) -> int:
        """The sizes of the logs that a fork goes on from."""
        size = 0
        for _ in range(ANCESTORS_MAX):
            try:
                origin = self._origin(name)
                if origin is None:
                    break
                name = self._store.name(origin.session)
            except WakelogError:
                # Indexing the log says what is wrong with it.
                break
            size += self._size(name)
        return size

    def _origin(self, name: str) -> Origin | None:
        first = read_first(self._store, name)
        origin = first.value.parent if first is not None and isinstance(first.value, Session) else None
        return origin if origin is not None and origin.kind == "fork" else None

    def _size(self, name: str) -> int:
        if self._sizes is None:
            self._sizes = {stat.name: stat.size for stat in self._store.sessions()}
        return self._sizes.get(name, 0)
