"""Comparison of two sessions without ids, times, holders and the number of holders.

Ids are told by the order in which they first appear, in any field; everything else must be equal, digests of what
the model was handed included.
"""

import json
import re

from wakelog.clock import SystemClock

# Fields that differ between two equal sessions: positions in the file, times, seals and holders.
_APART = ("seq", "h", "timestamp", "durationMs", "uptimeMs", "attachedAt", "workedAt")
_FRESH = SystemClock().new_id()
_SIGNS = re.compile(r"[0-9a-z-]+")


def likeness(store, *, without=("activity",), ignored=()):
    """Every session of a store, by its number, as plain values that can be compared."""
    names = sorted(stat.name for stat in store.sessions())
    seen: dict[str, str] = {}
    return {name: [_plain(line, seen, ignored) for line in _lines(store, name, without)] for name in names}


def _lines(store, name, without):
    parsed = (json.loads(line.raw) for line in store.load(name))
    return [line for line in parsed if line["type"] not in without]


def _plain(value, seen, ignored, key=""):
    if isinstance(value, dict):
        kept = {name: inner for name, inner in value.items() if name not in (*_APART, *ignored)}
        return {name: _plain(inner, seen, ignored, name) for name, inner in kept.items()}
    if isinstance(value, list):
        return [_plain(inner, seen, ignored, key) for inner in value]
    if isinstance(value, str) and _is_an_id(value):
        return f"#{seen.setdefault(value, len(seen))}"
    return value


def _is_an_id(text):
    """Whether the clock made this text: as long as its ids are, and with their first characters."""
    return len(text) == len(_FRESH) and text[:3] == _FRESH[:3] and _SIGNS.fullmatch(text) is not None
