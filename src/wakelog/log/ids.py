"""Ids that sort by time, and the grammar of all accepted ids. Session names have their own grammar, in `names.py`.

Pure: the time and the random bytes are arguments. A new id is a lower-case ULID: 48 bits of time and 80 random bits in
26 characters that are not easily confused. Any id of the strict grammar is accepted, whatever program made it. Ids are
checked when read and when written, because they are used in file names, URLs and terminals.
"""

import re
from functools import lru_cache

from wakelog.errors import BadId

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
RANDOM_BYTES = 10
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
# Ten bits at a time: five pairs of digits for the time and eight for the random bits.
_PAIRS = [high + low for high in _DIGITS for low in _DIGITS]
_TIME_SHIFTS = range(40, -1, -10)
_CHANCE_SHIFTS = range(70, -1, -10)


def new_id(now_ms: int, chance: bytes) -> str:
    """Return a new id from the time and `RANDOM_BYTES` random bytes."""
    if len(chance) != RANDOM_BYTES or not 0 <= now_ms < 1 << 48:
        raise BadId(f"an id is made from 48 bits of time and {RANDOM_BYTES} random bytes")
    return _time_digits(now_ms) + _digits(int.from_bytes(chance, "big"), _CHANCE_SHIFTS)


@lru_cache(maxsize=4)
def _time_digits(now_ms: int) -> str:
    """Return the first ten digits. Cached, because entries come in bursts and share them."""
    return _digits(now_ms, _TIME_SHIFTS)


def _digits(value: int, shifts: range) -> str:
    return "".join([_PAIRS[value >> shift & 1023] for shift in shifts])


def is_id(text: str) -> bool:
    """Return whether `text` matches the strict grammar."""
    return ID.fullmatch(text) is not None


def checked_id(text: str) -> str:
    """Return `text`; `BadId` if it is not a valid id."""
    if not is_id(text):
        raise BadId(
            f"not a valid id: {text[:60]!r}",
            hint="ids are letters, digits, dot, dash and underscore, at most 128",
        )
    return text
