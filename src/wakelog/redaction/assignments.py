"""Shapes of secrets recognised by their name in an assignment: `DB_PASSWORD=…`, `"client_secret": "…"`, `password: …`.

Each row defines the words that a name must contain, the notation of the assignment, and the characters of a value; the
name stays readable and the value is replaced. `assignment_values.py` tells secrets from code, words and placeholders:
by default it takes values that look random, for `strict` shorter and simpler ones too. `strict` also has more names and
more notations. Secrets without a name are in `contexts.py`.

The shapes use the same types and the same search as those of keys (`key_shapes.py`), so they work on streamed text too.
If a value has the shape of a known key, it is replaced by the mark of that key.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from wakelog.redaction.assignment_values import (
    RANDOM_CHARS,
    Form,
    Kind,
    LazyPattern,
    is_random_value,
    is_secret_value,
)
from wakelog.redaction.shapes import ANYWHERE, NEVER, Piece, Run, Shape

# Arguments: the text before a match (with the first part of the name), the kept part of the match, and the value.
_Check: TypeAlias = Callable[[str, str, str], bool]
# Arguments: the part of the name before a match, the match up to the value, and the form of the assignment.
_IsName: TypeAlias = Callable[[str, str, Form], bool]
# Arguments: the value, the kind of its name, and the form of the assignment.
_IsValue: TypeAlias = Callable[[str, Kind, Form], bool]
_FORMS: tuple[Form, ...] = ("bare", "quoted", "env")

KIND = "assignment"
MARK = f"[redacted: {KIND}]"

# Maximum number of characters of a value that are matched and checked; further ones are removed without a check.
_MOST = 64
# The same minimum for `strict`: that of the shortest kind of value.
_LEAST = 6
# Words that mark a name as that of a secret, by the kind of value. Each word costs a search through every text, so
# rarer ones (`pwd`, `credential`) are left to `strict`.
_PASSWORDS = ("password", "passwd", "passphrase", "pass")
_SECRETS = ("secret",)
_TOKENS = ("token",)
_KEYS = ("_key", "-key", "apikey", "accesskey", "privatekey", "signingkey", "encryptionkey", "api key", "access key")
_STRICT_PASSWORDS = ("pwd", "psk", "passcode", "requirepass", "masterauth")
_STRICT_TOKENS = ("credential", "connect.sid", "csrf", "dockerconfigjson", "jwt", "otp_")
_COOKIES = ("sessionid", "sessid")
_NAME_CHARS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
# Not secret: pagination tokens, and tokens as parts of a text.
_OTHER_TOKENS = LazyPattern(
    r"(?:next|page|continuation|sync|cursor|resume|delta|skip|prev(?:ious)?|last|first|start|end|begin|cur(?:rent)?|peek"
    r"|eos|bos|pad|unk|sep|cls|mask|stop|max|min|num|new|total|prompt|input|output|special|file|name|type|id|error)[_-]?",
    re.IGNORECASE,
)
# Kinds of keys that are secret; others are database columns, map keys or public keys.
_SECRET_KEYS = LazyPattern(
    r".*(?:api|access|private|secret|encrypt(?:ion)?|sign(?:ing)?|auth|master|account|service|shared|app|application"
    r"|storage|admin|deploy|webhook|jwt|session|security|client|crypto|cipher|aes|hmac|subscription|server|license|ssh)",
    re.IGNORECASE,
)
_PUBLIC_KEYS = LazyPattern(
    r".*(?:public|pub|primary|foreign|cache|sort|partition|hash|row|object|index|idempotency|group|host)", re.IGNORECASE
)
# `compass` and `bypass` are not names of a secret, `dbpass` is.
_WHOLE_WORDS = ("passw", "passp")
_BEFORE_PASS = LazyPattern(
    r"(?:.*[_-])?(?:db|user|my|smtp|ftp|ssh|mysql|pg|root|admin|mail|email|sudo|redis)?", re.IGNORECASE
)

# ── rest of a name, and the text between name and value ──────────────────────────────────────────

_BLANKS = Run(r" \t", 0, 4)
_ESCAPED_QUOTE: Piece = [Run(r"\\", 1, 7), '"']
_QUOTE: Piece = ('"', "'", _ESCAPED_QUOTE)
_NAME_ENDS: Piece = ("", '"', "'", "`", '"]', "']", _ESCAPED_QUOTE, [_ESCAPED_QUOTE, "]"])
_MORE_NAME: Piece = (
    "",
    [("", "_", "-"), Run("0-9", 1, 3)],
    [("", "_", "-", " "), ("key", "access_key", "access-key", "access key", "accesskey", "value", "text")],
    [("_", "-"), ("key_base", "base", "prod", "production", "staging", "dev", "test", "live")],
    "s",
)
_SIGN: Piece = (":", "=", ":=", "=>", ": str = ", ": string = ")
# Name and value of an environment variable in Kubernetes and container definitions.
_LISTED: Piece = (
    [_NAME_ENDS, ("\n", "\\n"), Run(" ", 0, 24), "value:", _BLANKS],
    [_QUOTE, ",", Run(r"\s", 0, 24), _QUOTE, ("value", "Value"), _NAME_ENDS, _BLANKS, ":", _BLANKS],
)
_ASSIGNED: Piece = ([_NAME_ENDS, _BLANKS, _SIGN, _BLANKS], _LISTED)
_LINE_END: Piece = ("\n", "\r\n", "\\n", "\\r\\n")
_BARE = r"^\s\"'`\\<>,;&|(){}\[\]"
_ENV = r"^\s\"'`\\<>"
_GIVEN = r"^\s\"'`\\<>|;&()"
_IN_QUOTES = r"^\s\"'`\\"
_ENCODED = "A-Za-z0-9._~%!*+-"
_IN_DOUBLE = r'^"\\\n\r'
_IN_SINGLE = r"^'\\\n\r"
_IN_BACKTICKS = r"^`\\\n\r"


def _row(
    starts: tuple[str, ...],
    kept: list[Piece],
    signs: str,
    check: _Check,
    *,
    least: int,
    clues: tuple[str, ...],
    escapes: bool = False,
    any_case: bool = True,
    unless: str = NEVER,
    before: str = ANYWHERE,
    behind: str = "",
) -> Shape:
    """Build the shape of an assignment."""
    return Shape(
        kind=KIND,
        starts=starts,
        kept=kept,
        body=[Run(signs, least, _MOST, escapes=escapes, maximal=True)],
        rest=signs,
        check=check,
        yields=True,
        clues=clues,
        any_case=any_case,
        unless=unless,
        before=before,
        behind=behind,
    )


def _checked(kind: Kind, form: Form, is_name: _IsName, is_value: _IsValue) -> _Check:
    """Build a check of the name and of the value."""

    def check(before: str, kept: str, value: str) -> bool:
        return is_value(value, kind, form) and is_name(_name_before(before), kept, form)

    return check


def _is_random(value: str, kind: Kind, form: Form) -> bool:  # noqa: ARG001 - every value is checked alike
    return is_random_value(value)


def _in_a_tag(check: _Check) -> _Check:
    """Build the same check for a name that is the name of an XML tag."""
    return lambda before, kept, value: _opens_tag(before) and check(before, kept, value)


def _opens_tag(before: str) -> bool:
    return before.rstrip(_NAME_CHARS + ":").endswith("<")


def _name_before(before: str) -> str:
    """Return the part of the name before a match."""
    return before[len(before.rstrip(_NAME_CHARS)) :]


def _is_password_name(before: str, kept: str, form: Form) -> bool:  # noqa: ARG001 - every name is checked alike
    if kept[:5].lower() in _WHOLE_WORDS:
        return True
    return _BEFORE_PASS.fullmatch(before) is not None or (kept[:1].isupper() and not before[-1:].isupper())


def _is_any_name(before: str, kept: str, form: Form) -> bool:  # noqa: ARG001 - the word alone decides
    return True


def _is_cookie_name(before: str, kept: str, form: Form) -> bool:  # noqa: ARG001 - every name is checked alike
    # Not `sessionId`, the id of a session of any kind.
    return kept[:9].islower() or kept[:9].isupper()


def _is_secret_name(before: str, kept: str, form: Form) -> bool:  # noqa: ARG001 - every name is checked alike
    return not before.lower().endswith(("no_", "non_", "non-", "public_"))


def _is_token_name(before: str, kept: str, form: Form) -> bool:  # noqa: ARG001 - every name is checked alike
    last = re.split(r"[_-]|(?<=[a-z])(?=[A-Z])", before.rstrip("_-"))[-1]
    return _OTHER_TOKENS.fullmatch(last) is None


def _is_key_name(before: str, kept: str, form: Form) -> bool:
    name = before + kept[: kept.lower().find("key")]
    if _PUBLIC_KEYS.fullmatch(name.rstrip("_-")):
        return False
    return form == "env" or _SECRET_KEYS.fullmatch(name.rstrip("_- ")) is not None


_AN_ARGUMENT: Piece = (
    [Run(" ", 1, 2), ("", '"', "'")],
    [_QUOTE, ",", Run(r"\s", 0, 4), _QUOTE],
)

_PREFIX: Piece = ("", "b", "u", "r", "@")
_MORE_UPPER: Piece = ("", [("", "_"), Run("0-9", 1, 3)], [("", "_"), ("KEY", "ACCESS_KEY", "KEY_BASE", "VALUE")], "S")


# `ENV TOKEN x`, `set -x TOKEN x`, `the password is x`
_A_SEPARATOR: Piece = (
    [Run(r" \t", 1, 4), ("", '"', "'")],
    [" is", ("", ":", " now"), " ", ("", _QUOTE, "`")],
    [_BLANKS, "?=", _BLANKS],
)
# What follows a blank may be an option, or another assignment.
_A_NAME = r"-|[\w.-]{1,40}=[A-Za-z0-9]"
# `setPassword("x")`, `PASSWORD 'x'`, `name="password" value="x"`, `<entry key="password">x`
_A_PLACE: Piece = (
    ["(", _QUOTE],
    [Run(" ", 1, 4), _QUOTE],
    [_QUOTE, Run(r"\s", 1, 4), ("value", "content"), Run(" ", 0, 1), "=", Run(" ", 0, 1), _QUOTE],
    [_QUOTE, ">"],
)
# `define('DB_PASSWORD', 'x')`
_A_SECOND_ARGUMENT: Piece = [_QUOTE, Run(" ", 0, 2), ",", Run(r"\s", 0, 4), _QUOTE]
# A block scalar of YAML, and a field of a form in several parts.
_A_BLOCK: Piece = (
    [_NAME_ENDS, _BLANKS, ":", _BLANKS, ("|", ">"), ("", "-", "+"), _LINE_END, Run(" ", 1, 24)],
    [_QUOTE, _LINE_END, _LINE_END],
)
_IN_URL: Piece = [("", "%22", "%27", "%5D"), ("%3D", "%3A", "=", ":"), ("", "%20", "+"), ("%22", "%27", "")]
_QUOTED_END = LazyPattern("%2[267].*", re.DOTALL)


def _rows(words: tuple[str, ...], kind: Kind, is_name: _IsName, clues: tuple[str, ...], *, strict: bool) -> list[Shape]:
    """Build the shapes for all notations of an assignment to the names of one kind."""
    row = partial(_row, least=_LEAST if strict else RANDOM_CHARS, clues=clues)
    is_value = is_secret_value if strict else _is_random
    bare, quoted, env = (_checked(kind, form, is_name, is_value) for form in _FORMS)
    given = _checked(
        kind, "bare", lambda before, kept, form: before[:1] == "-" and is_name(before, kept, form), is_value
    )
    # Words with a number are frequent behind a blank.
    apart = _checked("token", "bare", is_name, is_value)
    # The words of `_KEYS` include the dash themselves.
    behind_dash = "(?<=-)" if words is not _KEYS else ANYWHERE
    upper = tuple(word.upper() for word in words if word.isidentifier())
    constant = _checked(kind, "env", lambda *name: name[1][:1].isupper() and is_name(*name), is_value)
    called = _checked(kind, "env", lambda *name: name[1][:5].lower() in _WHOLE_WORDS, is_value)
    encoded = _checked(kind, "quoted", is_name, lambda value, *rest: is_value(_QUOTED_END.sub("", value), *rest))
    return [
        row(upper, [_MORE_UPPER, "="], _ENV, env, any_case=False, behind="[(]"),
        row(words, [_MORE_NAME, _ASSIGNED, _PREFIX, '"'], _IN_DOUBLE, quoted, escapes=True),
        row(words, [_MORE_NAME, _ASSIGNED, _PREFIX, "'"], _IN_SINGLE, quoted, escapes=True),
        row(words, [_MORE_NAME, _ASSIGNED, "`"], _IN_BACKTICKS, quoted, escapes=True),
        row(words, [_MORE_NAME, _ASSIGNED, _ESCAPED_QUOTE], _IN_DOUBLE, quoted),
        row(words, [_MORE_NAME, _ASSIGNED], _BARE, bare, unless="[=~:]", behind=r"[(\[{<]"),
        row(words, [_MORE_NAME, ">"], _ENV, _in_a_tag(quoted)),
        row(words, [_MORE_NAME, _AN_ARGUMENT], _GIVEN, given, unless="-", before=behind_dash),
        row(words, [_MORE_NAME, _A_SEPARATOR], _GIVEN, apart, unless=_A_NAME, behind=r"[(\[{<]"),
        row(words, [_MORE_NAME, _A_PLACE], _IN_QUOTES, lambda *given: called(*given) or quoted(*given)),
        row(words, [_MORE_NAME, _A_SECOND_ARGUMENT], _IN_QUOTES, lambda *given: constant(*given) or bare(*given)),
        row(words, [_MORE_NAME, _A_BLOCK], _ENV, quoted),
        row(words, [_MORE_NAME, _IN_URL], _ENCODED, encoded),
    ]


def assignment_shapes(*, strict: bool) -> tuple[Shape, ...]:
    """Return the shapes of assignments of random values, or with `strict` those of all values that may be secrets."""
    rows = partial(_rows, strict=strict)
    return (
        *rows(_PASSWORDS, "password", _is_password_name, ("pass",)),
        *rows(_SECRETS, "secret", _is_secret_name, ("ecret",)),
        *rows(_TOKENS, "token", _is_token_name, ()),
        *rows(_KEYS, "token", _is_key_name, ("key",)),
        *(rows(_STRICT_PASSWORDS, "password", _is_any_name, ()) if strict else ()),
        *(rows(_STRICT_TOKENS, "token", _is_any_name, ()) if strict else ()),
        *(rows(_COOKIES, "token", _is_cookie_name, ()) if strict else ()),
    )


# ── members of JSON objects ──────────────────────────────────────────────────────────────────────

_NAMED = LazyPattern("|".join((*_PASSWORDS, *_SECRETS, *_TOKENS, "key", "auth")), re.IGNORECASE)
_VALUE_MAX = 2 * _MOST


def may_assign(name: str, value: str, *, strict: bool) -> bool:
    """Whether a member of a JSON object may be a secret, by its name and length. A cheap check before the full one."""
    if strict:
        return len(value) >= _LEAST
    return len(value) >= RANDOM_CHARS and _NAMED.search(name) is not None


def name_of_member(members: Mapping[Any, Any], key: Any) -> Any:
    """Return the name of a member of a JSON object: its key; of `value` in `{"name": …, "value": …}`, that name."""
    return members.get("name", members.get("key", key)) if key == "value" else key


def as_json_member(name: str, value: str) -> str:
    """Return a member of a JSON object as JSON text, its value cut to the length that decides if it is a secret."""
    return f"{json.dumps(name)}: {json.dumps(value[:_VALUE_MAX], ensure_ascii=False)}"
