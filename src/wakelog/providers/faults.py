"""What can go wrong outside, in the same words for every provider: its kinds, which of them pass, when to ask again.

Pure. The line of a fault says what the server said it was, never what it sent: no body, no address, no key (LOG-13).
"""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

KINDS = {
    "rate_limited": "the server limits how often it may be asked",
    "overloaded": "the server has too much to do",
    "server": "the server failed",
    "connection": "the server cannot be reached",
    "timeout": "the server took too long",
    "cut": "the reply ended before it was finished",
    "malformed": "what the server sent cannot be understood",
    "auth": "the key is not accepted, or does not allow this",
    "quota": "the account has run out of credit",
    "not_found": "there is no such model, or no such address",
    "context_overflow": "the conversation is too long for the model",
    "too_large": "the request is too large",
    "bad_request": "the request was refused",
}
RETRYABLE = frozenset({"rate_limited", "overloaded", "server", "connection", "timeout", "cut", "malformed"})
STATUSES = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "not_found",
    408: "timeout",
    409: "server",
    413: "too_large",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
_LINE_MAX_CHARS = 300


def asked_delay_ms(headers: Mapping[str, str]) -> int | None:
    """How long a server asks to wait: milliseconds, seconds, or a date, which is measured by its own clock."""
    exact = number(headers.get("retry-after-ms"))
    if exact is not None:
        return int(exact)
    wait = headers.get("retry-after")
    seconds = number(wait)
    if seconds is None:
        until, now = _date_s(wait), _date_s(headers.get("date"))
        seconds = max(0.0, until - now) if until is not None and now is not None else None
    return int(seconds * 1_000) if seconds is not None else None


def number(text: str | None) -> float | None:
    """A number that somebody else wrote; None for what is none, or makes no sense as a time."""
    try:
        found = float(text or "")
    except ValueError:
        return None
    return found if 0 <= found < 1e9 else None


def _date_s(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text or "").timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def one_line(words: str) -> str:
    """A part of what a server says, in one line."""
    plain = " ".join("".join(sign if sign.isprintable() else " " for sign in words).split())
    return plain if len(plain) <= _LINE_MAX_CHARS else f"{plain[:_LINE_MAX_CHARS]}…"
