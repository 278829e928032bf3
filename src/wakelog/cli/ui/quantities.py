"""Times, sizes and counts for people to read. Machine-readable output does not use this module."""

import re
import time
from collections.abc import Mapping

from wakelog.errors import UsageError
from wakelog.log.timestamps import parse_ms

_AGE_STEPS = ((60, "s"), (60, "m"), (24, "h"), (14, "d"))
_SPAN = re.compile(r"([0-9]{1,6})([smhdw])")
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
# A text from outside may hold look-alikes of marks, with any number of kinds.
_KINDS_SHOWN = 8
_UNITS = ("B", "kB", "MB", "GB", "TB")


def now_ms() -> int:
    """Return the current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def age_text(timestamp: str, now: int) -> str:
    """Return the age of a timestamp: `now`, `5m`, `3d`, then its date; empty if it is not a timestamp."""
    then = parse_ms(timestamp)
    if then is None:
        return ""
    span = (now - then) // 1_000
    if span < 0:
        return timestamp[:10]
    if span < 5:
        return "now"
    for size, unit in _AGE_STEPS:
        if span < size:
            return f"{span}{unit}"
        span //= size
    return timestamp[:10]


def duration_text(duration_ms: int) -> str:
    """Return a duration: `40 ms`, `3.2 s`, `12 min`."""
    if duration_ms < 1_000:
        return f"{duration_ms} ms"
    seconds = duration_ms / 1_000
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def span_text(seconds: float) -> str:
    """Return an age in its largest unit: `40s`, `5m`, `3h`, `12d`."""
    unit = next((unit for unit in "dhm" if seconds >= _SECONDS[unit]), "s")
    return f"{int(seconds // _SECONDS[unit])}{unit}"


def parse_span(text: str) -> float:
    """Return the seconds of `30m`, `12h`, `1d` or `2w`. `UsageError` for other text."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise UsageError(f"not a duration: {text[:60]!r}", hint="use a number and one of s, m, h, d, w: 12h")
    return float(int(found[1]) * _SECONDS[found[2]])


def size_text(count: int) -> str:
    """Return a number of bytes as text: `812 B`, `4.1 kB`."""
    amount = float(count)
    for unit in _UNITS[:-1]:
        if amount < 1_000:
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1_000
    return f"{amount:.1f} {_UNITS[-1]}"


def redacted_text(counts: Mapping[str, int]) -> str:
    """Return how many secrets are redacted, by kind: `3 secrets redacted: 2 assignment, 1 jwt`."""
    most = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:_KINDS_SHOWN]
    others = sum(counts.values()) - sum(count for _, count in most)
    kinds = ", ".join([*(f"{count:,} {kind}" for kind, count in most), *([f"{others:,} other"] if others else [])])
    return f"{plural(sum(counts.values()), 'secret')} redacted: {kinds}"


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: `1 entry`, `2 entries`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def counted(count: int, kind: str) -> str:
    """Return how often something of a kind occurs; the kind alone for what has no number."""
    return f"{count:,} × {kind}" if count else kind
