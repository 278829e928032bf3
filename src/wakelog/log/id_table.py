"""A table that numbers ids in order of insertion, in about 20 bytes per id.

A `dict` or `set` of a million ids takes a hundred megabytes. This table stores a 64-bit hash of each id: the chance
that any two of a million ids share a hash is about one in forty million. The hash differs between processes, so that
colliding ids cannot be chosen in advance.
"""

from array import array
from collections.abc import Iterable

NONE = -1
_HASH_MASK = (1 << 64) - 1
_SLOTS_FIRST = 1 << 10


class IdTable:
    """Ids by number. A key is the hash of an id, see `key_of`."""

    def __init__(self) -> None:
        self.keys = array("Q")
        self._slots = array("i", [NONE]) * _SLOTS_FIRST

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, name: str) -> bool:
        return self.number(key_of(name)) != NONE

    def number(self, key: int) -> int:
        """Return the number of a key, or `NONE`."""
        slots, keys, mask = self._slots, self.keys, len(self._slots) - 1
        at = key & mask
        while (number := slots[at]) != NONE:
            if keys[number] == key:
                return number
            at = (at + 1) & mask
        return NONE

    def add(self, key: int) -> int:
        """Assign the next number to a new key; return it."""
        number = len(self.keys)
        self.keys.append(key)
        if 5 * number > 3 * len(self._slots):
            self._grow()
        else:
            self._insert(key, number)
        return number

    def add_names(self, names: Iterable[str]) -> None:
        """Add ids; known ones keep their numbers."""
        for name in names:
            if self.number(key_of(name)) == NONE:
                self.add(key_of(name))

    def _insert(self, key: int, number: int) -> None:
        slots, mask = self._slots, len(self._slots) - 1
        at = key & mask
        while slots[at] != NONE:
            at = (at + 1) & mask
        slots[at] = number

    def _grow(self) -> None:
        self._slots = array("i", [NONE]) * (2 * len(self._slots))
        for number, key in enumerate(self.keys):
            self._insert(key, number)


def key_of(name: str) -> int:
    """Return the hash of an id."""
    return hash(name) & _HASH_MASK
