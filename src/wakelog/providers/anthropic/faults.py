"""What went wrong outside, as a value: its kind, one line for people, and whether and when to try again.

The line says what the server said it was, never what it sent: no body, no address, no key. The kinds are those of
`docs/providers.md`, the same for every provider.
"""

from collections.abc import Mapping
from typing import Any

import anthropic
import httpx2

from wakelog.providers.faults import KINDS, RETRYABLE, STATUSES, asked_delay_ms, one_line
from wakelog.turn.deltas import Faulted

# These say all there is to say, and what a server adds to them may hold a piece of a key.
_NO_MORE_WORDS = ("auth", "connection", "timeout", "cut", "malformed")
_TYPES = {
    "rate_limit_error": "rate_limited",
    "overloaded_error": "overloaded",
    "api_error": "server",
    "conflict_error": "server",
    "timeout_error": "timeout",
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "quota",
    "not_found_error": "not_found",
    "request_too_large": "too_large",
}
# The few causes that have a code of their own and a kind that the type does not say.
_CODES = {"enforced_spend_limit_reached": "quota"}
# A refusal's own words are the only sign of these.
_TOO_LONG = ("prompt is too long", "exceed context limit", "context window")
_UNPAID = ("credit balance",)


def fault(kind: str, words: str = "", *, delay_ms: int | None = None, again: bool | None = None) -> Faulted:
    """A fault of a kind, with what the server said about it."""
    more = "" if kind in _NO_MORE_WORDS else one_line(words)
    retryable = kind in RETRYABLE if again is None else again
    return Faulted(kind, f"{KINDS[kind]}: {more}" if more else KINDS[kind], retryable, delay_ms if retryable else None)


def refusal(error: object, *, status: int = 0, headers: Mapping[str, str] | None = None) -> Faulted:
    """The fault that a server tells of: the `error` object of a body or of an event, and what stood around it."""
    told: Mapping[str, Any] = error if isinstance(error, Mapping) else {}
    words = told.get("message")
    words = words if isinstance(words, str) else ""
    kind = _by_code(told.get("details")) or _TYPES.get(str(told.get("type"))) or STATUSES.get(status)
    kind = kind or _by_words(words, status, told)
    around = headers or {}
    again = {"true": True, "false": False}.get(around.get("x-should-retry", ""))
    return fault(kind, words or (f"status {status}" if status else ""), delay_ms=asked_delay_ms(around), again=again)


def _by_code(details: object) -> str | None:
    return _CODES.get(str(details.get("error_code"))) if isinstance(details, Mapping) else None


def _by_words(words: str, status: int, told: Mapping[str, Any]) -> str:
    if not (400 <= status < 500 or told.get("type") == "invalid_request_error"):
        return "server"
    plain = words.lower()
    if any(sign in plain for sign in _TOO_LONG):
        return "context_overflow"
    return "quota" if any(sign in plain for sign in _UNPAID) else "bad_request"


def fault_of(error: Exception, *, begun: bool) -> Faulted:
    """The fault behind an exception of the SDK or of its socket; `begun`: the reply had begun to come."""
    if isinstance(error, anthropic.APIStatusError):
        body = error.body if isinstance(error.body, Mapping) else {}
        return refusal(body.get("error"), status=error.status_code, headers=error.response.headers)
    if isinstance(error, anthropic.APITimeoutError | httpx2.TimeoutException):
        return fault("timeout")
    if isinstance(error, anthropic.APIConnectionError | httpx2.TransportError):
        return fault("cut" if begun else "connection")
    return fault("malformed")
