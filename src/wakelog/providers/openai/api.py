"""OpenAI's address, environment variables and errors, shared by both providers.

Errors of OpenAI and compatible servers are mapped to the fault kinds of `providers/faults.py` and to retry delays.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from wakelog.log.content import Faulted
from wakelog.providers.endpoints import Vendor
from wakelog.providers.faults import fault, kind_of_status, parse_number

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
# Compatible servers have no code for this; each has its own message.
_OVERFLOW = re.compile(
    r"context (length|window|size)|maximum context|prompt is too long|too many tokens", re.IGNORECASE
)
# A per-minute limit that one request alone exceeds: waiting does not help, a shorter conversation does.
_TOO_LONG = re.compile(r"request too large|tokens must be reduced", re.IGNORECASE)
_RETRY_IN = re.compile(r"try again in (?:(\d+)m(?!s))?\s*(?:([\d.]+)\s*(ms|s))?", re.IGNORECASE)
_V1_HINT = "most addresses end in /v1"


class ServerError(msgspec.Struct, frozen=True):
    """A server's error in any of its shapes: the message, and the codes."""

    message: str = ""
    codes: tuple[str, ...] = ()


def parse_error(error: Any) -> ServerError:
    """Return the error of a body or an event; some servers send a plain string."""
    if isinstance(error, str):
        return ServerError(error)
    if not isinstance(error, Mapping):
        return ServerError()
    inner = error.get("error")
    if inner and "message" not in error:
        return parse_error(inner)
    message = error.get("message")
    codes = (error.get("code"), error.get("type"))
    return ServerError(message if isinstance(message, str) else "", tuple(str(code) for code in codes if code))


def fault_of_response(status: int, headers: Mapping[str, str], body: Any) -> Faulted:
    """Return the fault for a response that is an error from the start."""
    error = parse_error(body)
    kind = _fault_kind(error, kind_of_status(status))
    message = error.message or (_V1_HINT if kind == "not_found" else "")
    return fault(kind, message, status=status, headers=headers, delay_ms=_delay_ms(error.message))


def fault_of_error_event(error: Any) -> Faulted:
    """Return the fault for an error in the middle of a reply. One without a known code is a server failure."""
    parsed = parse_error(error)
    status = next((int(code) for code in parsed.codes if re.fullmatch(r"[45]\d\d", code)), None)
    usual = kind_of_status(status) if status else "bad_request" if _is_request_error(parsed) else "server"
    return fault(_fault_kind(parsed, usual), parsed.message, delay_ms=_delay_ms(parsed.message))


def _is_request_error(error: ServerError) -> bool:
    return any(code.startswith(("invalid_", "image_", "unsupported_")) or "policy" in code for code in error.codes)


def _fault_kind(error: ServerError, usual: str) -> str:
    named = next((_BY_CODE[code] for code in error.codes if code in _BY_CODE), usual)
    if named == "rate_limited" and _TOO_LONG.search(error.message):
        return "context_overflow"
    if named == "bad_request" and _OVERFLOW.search(error.message):
        return "context_overflow"
    return named


def _delay_ms(message: str) -> int | None:
    """Return the delay that a server asks for in its message; None if it does not."""
    found = _RETRY_IN.search(message)
    if found is None or not (found[1] or found[2]):
        return None
    minutes, rest = float(found[1] or 0), parse_number(found[2]) or 0
    return int(minutes * 60_000 + (rest if (found[3] or "").lower() == "ms" else rest * 1_000)) or None


VENDOR = Vendor(
    "OpenAI",
    address="https://api.openai.com/v1",
    key_variables=("OPENAI_API_KEY",),
    url_variable="OPENAI_BASE_URL",
    custom_headers_variable="OPENAI_CUSTOM_HEADERS",
    header_variables={"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"},
)
