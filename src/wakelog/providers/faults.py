"""Faults of model servers, in the same words for every provider: kinds, which of them are retryable, delays.

Pure. Rule 1: the kind of a fault decides whether to retry; a server that says not to is obeyed as well.
Rule 2 (LOG-13): a fault is one short line for people. A server's message is quoted only in part, where it refuses a key
only as far as it uses plain words, and no payload is ever shown.
"""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import msgspec

from wakelog.log.content import Faulted

KIND_TEXTS = {
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
# The same with the name of the server, where that helps.
_TEXTS_WITH_HOST = {
    "connection": "{host} cannot be reached",
    "timeout": "{host} took too long",
    "auth": "{host} {refusal}",
}
RETRYABLE = frozenset({"rate_limited", "overloaded", "server", "connection", "timeout", "cut", "malformed"})
_STATUSES = {
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
_KEY = re.compile(r"\b(?:sk|key|org|proj)-[\w*.-]{4,}|Bearer \S+", re.IGNORECASE)
# A first sentence of plain words, which holds no key; a colon ends it, because a key may follow.
_PLAIN_SENTENCE = re.compile(r"((?:(?:[A-Za-z][a-z']{0,14}|API|x-api-key)(?:,? |(?=[.:]|$)))+)(?:\.(?: |$)|:|$)")
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+")


def kind_of_status(status: int) -> str:
    """Return the kind of fault that a status alone indicates."""
    return _STATUSES.get(status, "bad_request" if 400 <= status < 500 else "server")


def fault(
    kind: str,
    server_message: str = "",
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    delay_ms: int | None = None,
) -> Faulted:
    """Return a fault of a kind, with the server's message; a delay in the headers takes precedence over `delay_ms`."""
    fields = headers or {}
    text = KIND_TEXTS[kind] + (f" ({status})" if status else "")
    quoted = _part_without_key(one_line(server_message)) if kind == "auth" else _KEY.sub("…", one_line(server_message))
    retryable = kind in RETRYABLE and fields.get("x-should-retry") != "false"
    wait_ms = retry_delay_ms(fields) or delay_ms
    return Faulted(kind, f"{text}: {quoted}" if quoted else text, retryable, wait_ms if retryable else None)


def _part_without_key(line: str) -> str:
    """Return the part of a line about a key that is sure to hold none; empty if that is not certain."""
    found = _PLAIN_SENTENCE.match(line)
    return found[1] if found is not None else ""


def with_server_name(original: Faulted, *, host: str, refusal: str) -> Faulted:
    """Return a fault that names its server, where that helps; `refusal` says how the server treats the key."""
    text = _TEXTS_WITH_HOST.get(original.kind)
    if text is None or not original.message.startswith(KIND_TEXTS[original.kind]):
        return original
    rest = original.message.removeprefix(KIND_TEXTS[original.kind])
    return msgspec.structs.replace(original, message=text.format(host=host, refusal=refusal) + rest)


def fault_of_content_type(content_type: str | None) -> Faulted | None:
    """Return the fault of a response of another type than an event stream, such as a login page; else None."""
    found = _MEDIA_TYPE.match(content_type or "")
    if found is None or found[0] == "text/event-stream":
        return None
    return fault("malformed", f"{found[0]} came where a stream was expected; look at the address, and at proxies")


# ── retry delay ──────────────────────────────────────────────────────────────────────────────────


def retry_delay_ms(headers: Mapping[str, str]) -> int | None:
    """Return the delay that a server asks for: in milliseconds, seconds, or as a date by its own clock.

    None for a delay of zero: the caller then chooses one, so that a server is not called again at once repeatedly.
    """
    exact = parse_number(headers.get("retry-after-ms"))
    if exact is not None:
        return int(exact) or None
    wait = headers.get("retry-after")
    seconds = parse_number(wait)
    if seconds is None:
        until, now = _date_s(wait), _date_s(headers.get("date"))
        seconds = max(0.0, until - now) if until is not None and now is not None else 0.0
    return int(seconds * 1_000) or None


def parse_number(text: str | None) -> float | None:
    """Return a number from foreign text; None if it is not a number, or not plausible as a time."""
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


def one_line(text: str) -> str:
    """Return the beginning of a server's message as one line.

    It ends with a whole word: half a key would not be recognized as one.
    """
    plain = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return plain if len(plain) <= _LINE_MAX_CHARS else f"{plain[:_LINE_MAX_CHARS].rpartition(' ')[0]} …"
