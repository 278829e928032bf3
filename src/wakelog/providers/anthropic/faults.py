"""Faults of Anthropic's API: maps its errors to the kinds of `providers/faults.py`. Pure."""

from collections.abc import Mapping
from typing import Any

from wakelog.log.deltas import Faulted
from wakelog.providers.faults import fault, kind_of

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
# Error codes whose kind the error type does not show.
_CODES = {"enforced_spend_limit_reached": "quota"}
# These are recognized only by the message.
_TOO_LONG = ("prompt is too long", "exceed context limit", "context window")
_UNPAID = ("credit balance",)


def refused(status: int, headers: Mapping[str, str], body: Any) -> Faulted:
    """Return the fault for a response that is an error from the start."""
    told = _object(_object(body).get("error"))
    return fault(_kind(told, kind_of(status)), _words(told), status=status, headers=headers)


def broken_off(error: Any) -> Faulted:
    """Return the fault for an error in the middle of a reply. One without a type is a server failure."""
    told = _object(error)
    usual = "bad_request" if told.get("type") == "invalid_request_error" else "server"
    return fault(_kind(told, usual), _words(told))


def _object(told: Any) -> Mapping[str, Any]:
    return told if isinstance(told, Mapping) else {}


def _words(told: Mapping[str, Any]) -> str:
    words = told.get("message")
    return words if isinstance(words, str) else ""


def _kind(told: Mapping[str, Any], usual: str) -> str:
    code = _object(told.get("details")).get("error_code")
    named = _CODES.get(str(code)) or _TYPES.get(str(told.get("type"))) or usual
    if named != "bad_request":
        return named
    plain = _words(told).lower()
    if any(sign in plain for sign in _TOO_LONG):
        return "context_overflow"
    return "quota" if any(sign in plain for sign in _UNPAID) else "bad_request"
