"""Ids of OpenCode, derived from a session and its head: a prefix, 12 hexadecimal digits and 14 letters or digits.

The digits are 48 bits of (milliseconds · 4096 + a counter); of a session's id they are inverted, so that the newest
session sorts first. OpenCode sorts the parts of a message by their ids, and messages by time and id.
"""

import hashlib
import string

_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM_CHARS = 14
_COUNTER_BITS = 12
_MASK = (1 << 48) - 1


class IdSequence:
    """Ids in ascending order. The same session at the same head gets the same ids; at another head it gets others."""

    def __init__(self, session: str, head: str, started_ms: int) -> None:
        self._seed = (session, head)
        self._last = 0
        self.session = self._id("ses", ~((started_ms << _COUNTER_BITS) + 1))

    def message(self, time_ms: int) -> str:
        """Return the next id of a message."""
        return self._id("msg", self._next(time_ms))

    def part(self, time_ms: int) -> str:
        """Return the next id of a part."""
        return self._id("prt", self._next(time_ms))

    def _next(self, time_ms: int) -> int:
        self._last = max((time_ms << _COUNTER_BITS) + 1, self._last + 1)
        return self._last

    def _id(self, prefix: str, place: int) -> str:
        parts = ("wakelog", *self._seed, prefix, str(place))
        digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
        random = "".join(_BASE62[byte % len(_BASE62)] for byte in digest[:_RANDOM_CHARS])
        return f"{prefix}_{place & _MASK:012x}{random}"
