"""Ids that sort by time, and the grammar of every id we accept. Names have their own grammar, in `names.py`.

Pure: the milliseconds and the random bytes are handed in. An id is a ULID in lower case: 48 bits of time and 80 of
chance in 26 characters, of which none is mistaken for another. Any id of the strict grammar is read, whoever made
it; the check stands on the way in and on the way out, because ids meet file names, URLs and terminals.
"""

import re
from functools import lru_cache

from wakelog.errors import BadId

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
RANDOM_BYTES = 10
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
# Ten bits at a time: five pairs of digits for the time and eight for chance.
_PAIRS = [high + low for high in _DIGITS for low in _DIGITS]
_TIME_SHIFTS = range(40, -1, -10)
_CHANCE_SHIFTS = range(70, -1, -10)


def new_id(now_ms: int, chance: bytes) -> str:
    """A fresh id from the time and `RANDOM_BYTES` random bytes."""
    if len(chance) != RANDOM_BYTES or not 0 <= now_ms < 1 << 48:
        raise BadId(f"an id is made from 48 bits of time and {RANDOM_BYTES} random bytes")
    return _time_digits(now_ms) + _digits(int.from_bytes(chance, "big"), _CHANCE_SHIFTS)


@lru_cache(maxsize=4)
def _time_digits(now_ms: int) -> str:
    """The first ten digits. Entries come in bursts, so many ids share them with the one before."""
    return _digits(now_ms, _TIME_SHIFTS)


def _digits(value: int, shifts: range) -> str:
    return "".join([_PAIRS[value >> shift & 1023] for shift in shifts])


def is_id(text: str) -> bool:
    """Whether `text` is within the strict grammar."""
    return ID.fullmatch(text) is not None


def checked_id(text: str) -> str:
    """`text` itself, or `BadId`."""
    if not is_id(text):
        raise BadId(
            f"not a valid id: {text[:60]!r}",
            hint="ids are letters, digits, dot, dash and underscore, at most 128",
        )
    return text
