"""A table of ids that numbers them in the order in which they come, in about 20 bytes an id.

A `dict` or a `set` of a million ids takes a hundred megabytes. Here an id is kept as a 64-bit hash: that two of a
million ids share one has a chance of about one in forty million. The hash differs from process to process, so that ids
which share one cannot be chosen beforehand.
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
        """The number of a key, or `NONE`."""
        slots, keys, mask = self._slots, self.keys, len(self._slots) - 1
        at = key & mask
        while (number := slots[at]) != NONE:
            if keys[number] == key:
                return number
            at = (at + 1) & mask
        return NONE

    def add(self, key: int) -> int:
        """Gives the next number to a key that has none yet."""
        number = len(self.keys)
        self.keys.append(key)
        if 5 * number > 3 * len(self._slots):
            self._grow()
        else:
            self._insert(key, number)
        return number

    def add_names(self, names: Iterable[str]) -> None:
        """Takes in ids; those that are known stay as they are."""
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
    """The hash of an id."""
    return hash(name) & _HASH_MASK
