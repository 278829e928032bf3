"""Ids, digests and id tables. Session names have their own grammar, in `session_names.py`.

A new id is a lower-case ULID: 48 bits of time and 80 random bits in 26 characters that are not easily confused; time
and random bytes are arguments. Any id of the strict grammar is accepted, whatever program made it. Ids are checked when
read and when written, because they are used in file names, URLs and terminals. Digests are SHA-256, prefixed with the
algorithm. `IdTable` numbers ids in about 20 bytes each, where a `dict` or `set` of a million ids takes a hundred
megabytes: it stores a 64-bit hash of each id, salted by process so that collisions cannot be chosen in advance.
"""

import hashlib
import re
from array import array
from collections.abc import Iterable
from functools import lru_cache

from wakelog.errors import BadId

ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
RANDOM_BYTES = 10
_BASE32_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
# Ten bits at a time: five pairs of digits for the time and eight for the random bits.
_DIGIT_PAIRS = [high + low for high in _BASE32_DIGITS for low in _BASE32_DIGITS]
_TIME_SHIFTS = range(40, -1, -10)
_RANDOM_SHIFTS = range(70, -1, -10)


def new_id(now_ms: int, random_bytes: bytes) -> str:
    """Return a new id from the time and `RANDOM_BYTES` random bytes."""
    if len(random_bytes) != RANDOM_BYTES or not 0 <= now_ms < 1 << 48:
        raise BadId(f"an id is made from 48 bits of time and {RANDOM_BYTES} random bytes")
    return _time_digits(now_ms) + _digits(int.from_bytes(random_bytes, "big"), _RANDOM_SHIFTS)


@lru_cache(maxsize=4)
def _time_digits(now_ms: int) -> str:
    """Return the first ten digits. Cached, because entries come in bursts and share them."""
    return _digits(now_ms, _TIME_SHIFTS)


def _digits(value: int, shifts: range) -> str:
    return "".join([_DIGIT_PAIRS[value >> shift & 1023] for shift in shifts])


def is_id(text: str) -> bool:
    """Return whether `text` matches the strict grammar."""
    return ID_PATTERN.fullmatch(text) is not None


def checked_id(text: str) -> str:
    """Return `text`; `BadId` if it is not a valid id."""
    if not is_id(text):
        raise BadId(
            f"not a valid id: {text[:60]!r}",
            hint="ids are letters, digits, dot, dash and underscore, at most 128",
        )
    return text


DIGEST_CHARS = 71
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_DIGEST_IN_BYTES = re.compile(_DIGEST.pattern.encode())


def digest_of(content: bytes) -> str:
    """Return `sha256:` and the hexadecimal digest of bytes."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def is_digest(text: str) -> bool:
    """Return whether a text has the form of a digest."""
    return _DIGEST.fullmatch(text) is not None


def digests_in(raw: bytes) -> set[str]:
    """Return every digest found anywhere in bytes of any kind."""
    return {found.decode() for found in _DIGEST_IN_BYTES.findall(raw)}


NO_NUMBER = -1
_HASH_MASK = (1 << 64) - 1
_SLOTS_FIRST = 1 << 10


class IdTable:
    """Ids by number. A key is the hash of an id, see `id_hash`."""

    def __init__(self) -> None:
        self.hashes = array("Q")
        self._slots = array("i", [NO_NUMBER]) * _SLOTS_FIRST

    def __len__(self) -> int:
        return len(self.hashes)

    def __contains__(self, entry_id: str) -> bool:
        return self.number(id_hash(entry_id)) != NO_NUMBER

    def number(self, key: int) -> int:
        """Return the number of a key, or `NO_NUMBER`."""
        slots, keys, mask = self._slots, self.hashes, len(self._slots) - 1
        at = key & mask
        while (number := slots[at]) != NO_NUMBER:
            if keys[number] == key:
                return number
            at = (at + 1) & mask
        return NO_NUMBER

    def add(self, key: int) -> int:
        """Assign the next number to a new key; return it."""
        number = len(self.hashes)
        self.hashes.append(key)
        if 5 * number > 3 * len(self._slots):
            self._grow()
        else:
            self._insert(key, number)
        return number

    def add_ids(self, ids: Iterable[str]) -> None:
        """Add ids; known ones keep their numbers."""
        for name in ids:
            if self.number(id_hash(name)) == NO_NUMBER:
                self.add(id_hash(name))

    def _insert(self, key: int, number: int) -> None:
        slots, mask = self._slots, len(self._slots) - 1
        at = key & mask
        while slots[at] != NO_NUMBER:
            at = (at + 1) & mask
        slots[at] = number

    def _grow(self) -> None:
        self._slots = array("i", [NO_NUMBER]) * (2 * len(self._slots))
        for number, key in enumerate(self.hashes):
            self._insert(key, number)


def id_hash(entry_id: str) -> int:
    """Return the hash of an id."""
    return hash(entry_id) & _HASH_MASK
