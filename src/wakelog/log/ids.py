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
from collections.abc import Iterable, Iterator

from wakelog.errors import BadId

ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
RANDOM_BYTES = 10
_ID_CHARS = 26
_BASE32_DIGITS = bytes.maketrans(bytes(range(32)), b"0123456789abcdefghjkmnpqrstvwxyz")


def new_id(now_ms: int, random_bytes: bytes) -> str:
    """Return a new id from the time and `RANDOM_BYTES` random bytes."""
    if len(random_bytes) != RANDOM_BYTES or not 0 <= now_ms < 1 << 48:
        raise BadId(f"an id is made from 48 bits of time and {RANDOM_BYTES} random bytes")
    return _in_base32(now_ms << 8 * RANDOM_BYTES | int.from_bytes(random_bytes, "big"))[-_ID_CHARS:]


def _spreading_steps() -> Iterator[tuple[int, int, int]]:
    """Yield the steps from 160 bits to 32 bytes of 5 bits each: the lower halves, the upper halves, and their shift.

    Each step moves the upper half of every group of bits away from the lower half, so that bytes begin at both.
    """
    for bits, byte_count in ((80, 16), (40, 8), (20, 4), (10, 2), (5, 1)):
        lower = sum(((1 << bits) - 1) << at for at in range(0, 32 * 8, 2 * 8 * byte_count))
        yield lower, lower << bits, 8 * byte_count - bits


_SPREADING_STEPS = tuple(_spreading_steps())


def _in_base32(value: int) -> str:
    """Return a number of at most 160 bits as 32 digits, converted all at once, which is faster than one by one."""
    for lower, upper, shift in _SPREADING_STEPS:
        value = value & lower | (value & upper) << shift
    return value.to_bytes(32, "big").translate(_BASE32_DIGITS).decode()


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
