"""Timestamps as text: milliseconds to `2026-01-01T10:00:00.000Z` and back.

Pure: no clock modules are used. Timestamps are for people; seq decides the order of entries. A timestamp that cannot be
parsed gives None, never an error.
"""

import re
from functools import lru_cache

_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):?(\d\d))?\Z")
_DAY_MS = 86_400_000


def iso_timestamp(now_ms: int) -> str:
    """Return milliseconds since 1970 as a UTC timestamp."""
    seconds, millis = divmod(now_ms, 1_000)
    return f"{_seconds_text(seconds)}.{millis:03}Z"


@lru_cache(maxsize=8)
def _seconds_text(seconds: int) -> str:
    """Return the first nineteen characters. Cached, because entries come in bursts and share them."""
    days, rest = divmod(seconds, 86_400)
    year, month, day = _date(days)
    hours, rest = divmod(rest, 3_600)
    minutes, second = divmod(rest, 60)
    return f"{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{second:02}"


def parse_ms(text: str) -> int | None:
    """Return a timestamp as milliseconds since 1970; None if it cannot be parsed."""
    rest = text[17:19] + text[20:23]
    if len(text) == 24 and text[19] == "." and text[23] == "Z" and rest.isdecimal() and rest < "60":
        # Fast path for timestamps written by `iso_timestamp`; most share their minute with an earlier one.
        minute_ms = _minute_ms(text[:17])
        return None if minute_ms is None else minute_ms + int(rest)
    return _parsed(text)


@lru_cache(maxsize=1_000)
def _minute_ms(beginning: str) -> int | None:
    return _parsed(f"{beginning}00Z")


def _parsed(text: str) -> int | None:
    found = _ISO.match(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[group]) for group in range(1, 7))
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 25 and minute < 60 and second < 61):
        return None
    millis = int((found[7] or "0").ljust(3, "0")[:3])
    offset = 0 if found[8] is None else int(found[8] + "1") * (int(found[9]) * 60 + int(found[10]))
    return _days(year, month, day) * _DAY_MS + ((hour * 60 + minute - offset) * 60 + second) * 1_000 + millis


def elapsed_ms(start: str, end: str) -> int:
    """Return the milliseconds between two timestamps; 0 if one cannot be parsed or the clock went back."""
    begun, ended = parse_ms(start), parse_ms(end)
    return max(0, ended - begun) if begun is not None and ended is not None else 0


def _days(year: int, month: int, day: int) -> int:
    """Return days since 1970 in the Gregorian calendar; years start in March so that leap days come last."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _date(days: int) -> tuple[int, int, int]:
    era, of_era = divmod(days + 719_468, 146_097)
    years = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * years + years // 4 - years // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return years + era * 400 + (month <= 2), month, day
