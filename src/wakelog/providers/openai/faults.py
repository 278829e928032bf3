"""What servers say when they do not answer, as faults: which kind, whether to try again, and when. Pure.

Rule 1: the word for a fault decides; a server that says `x-should-retry: false` is believed as well.
Rule 2 (LOG-13): a message is one short line for people. What a server says is quoted only in part, never where it
speaks of a key, and no payload is ever shown.
"""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from wakelog.providers.faults import KINDS, RETRYABLE, STATUSES, asked_delay_ms, number, one_line
from wakelog.turn.deltas import Delta, Faulted

_BY_CODE = {
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "context_length_exceeded": "context_overflow",
    "exceed_context_size_error": "context_overflow",
    "insufficient_quota": "quota",
    "internal_error": "server",
    "invalid_api_key": "auth",
    "model_not_found": "not_found",
    "overloaded_error": "overloaded",
    "rate_limit_exceeded": "rate_limited",
    "server_error": "server",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
}
# Compatible servers have no code for it, each has its own words.
_OVERFLOW = re.compile(
    r"context (length|window|size)|maximum context|prompt is too long|too many tokens", re.IGNORECASE
)
# A limit by the minute that one request alone exceeds: no patience helps, a shorter conversation does.
_TOO_LONG = re.compile(r"request too large|tokens must be reduced", re.IGNORECASE)
_SOON = re.compile(r"try again in (?:(\d+)m(?!s))?\s*(?:([\d.]+)\s*(ms|s))?", re.IGNORECASE)
_KEY = re.compile(r"\b(?:sk|key|org|proj)-[\w*.-]{4,}|Bearer \S+", re.IGNORECASE)


class Complaint(msgspec.Struct, frozen=True):
    """What a server says of an error, whichever shape it has: words, and what it calls it."""

    message: str = ""
    codes: tuple[str, ...] = ()


def complaint(error: Any) -> Complaint:
    """The error object of a body or an event; some servers have a bare string instead."""
    if isinstance(error, str):
        return Complaint(error)
    if not isinstance(error, Mapping):
        return Complaint()
    inner = error.get("error")
    if inner and "message" not in error:
        return complaint(inner)
    message = error.get("message")
    codes = (error.get("code"), error.get("type"))
    return Complaint(message if isinstance(message, str) else "", tuple(str(code) for code in codes if code))


def fault(kind: str, said: str = "", *, status: int | None = None, delay_ms: int | None = None) -> Faulted:
    """A fault in the words of this file."""
    words = KINDS[kind] + (f" ({status})" if status else "")
    quoted = "" if kind == "auth" else _quotable(said)
    message = f"{words}: {quoted}" if quoted else words
    return Faulted(kind, message, retryable=kind in RETRYABLE, delay_ms=delay_ms)


def refused(status: int, headers: Mapping[str, str], error: Any) -> Faulted:
    """An answer that is an error from the start."""
    said = complaint(error)
    kind = _kind(said, STATUSES.get(status, "server" if status >= 500 else "bad_request"))
    delay_ms = _delay_ms(headers, said.message) if kind in RETRYABLE else None
    found = fault(kind, said.message, status=status, delay_ms=delay_ms)
    stop = headers.get("x-should-retry") == "false"
    return msgspec.structs.replace(found, retryable=found.retryable and not stop)


def broken_off(error: Any) -> Faulted:
    """An error in the middle of a reply. One without a name is the server's own."""
    said = complaint(error)
    status = next((int(code) for code in said.codes if re.fullmatch(r"[45]\d\d", code)), None)
    usual = STATUSES.get(status or 0, "bad_request" if _blames_the_request(said, status) else "server")
    kind = _kind(said, usual)
    return fault(kind, said.message, delay_ms=_delay_ms({}, said.message) if kind in RETRYABLE else None)


def _blames_the_request(said: Complaint, status: int | None) -> bool:
    if status is not None:
        return status < 500
    return any(code.startswith(("invalid_", "image_", "unsupported_")) or "policy" in code for code in said.codes)


def _kind(said: Complaint, usual: str) -> str:
    named = next((_BY_CODE[code] for code in said.codes if code in _BY_CODE), usual)
    if named == "rate_limited" and _TOO_LONG.search(said.message):
        return "context_overflow"
    if named == "bad_request" and _OVERFLOW.search(said.message):
        return "context_overflow"
    return named


def _quotable(said: str) -> str:
    """A part of what a server says, in one line and without anything like a key."""
    return _KEY.sub("…", one_line(said))


async def cannot_resume() -> AsyncIterator[Delta]:
    """The answer to a request to go on with a reply."""
    yield Faulted("cannot_resume", "this model cannot continue a reply")


# ── when to try again ────────────────────────────────────────────────────────────────────────────


def _delay_ms(headers: Mapping[str, str], said: str) -> int | None:
    """What the server asks for: in its headers, or in its words."""
    in_headers = asked_delay_ms(headers)
    return in_headers or _in_words(said)


def _in_words(said: str) -> int | None:
    found = _SOON.search(said)
    if found is None or not (found[1] or found[2]):
        return None
    minutes, rest = float(found[1] or 0), number(found[2]) or 0
    return int(minutes * 60_000 + (rest if (found[3] or "").lower() == "ms" else rest * 1_000)) or None
