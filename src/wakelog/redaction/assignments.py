"""Shapes of secrets recognised by their name in an assignment: `DB_PASSWORD=…`, `"client_secret": "…"`, `password: …`.

Each row defines the words that a name must contain, the syntax of the assignment, and the characters of a value; the
name stays readable and the value is replaced. `assignment_values.py` tells secrets from code, words and placeholders.
Further shapes cover secrets without a name: netrc, pgpass, `curl -u`, a secret access key after its key id, and a
password with `@` in a URL.

The shapes use the same types and the same search as those of keys (`key_shapes.py`), so they work on streamed text too.
If a value has the shape of a known key, it is replaced by the mark of that key.
"""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from wakelog.redaction.assignment_values import (
    Form,
    Kind,
    LazyPattern,
    is_any_password,
    is_basic_auth,
    is_secret_value,
)
from wakelog.redaction.shapes import ANYWHERE, NEVER, Piece, Run, Shape

# Arguments: the text before a match (with the first part of the name), the kept part of the match, and the value.
_Check: TypeAlias = Callable[[str, str, str], bool]
# Arguments: the part of the name before a match, the match up to the value, and the form of the assignment.
_IsName: TypeAlias = Callable[[str, str, Form], bool]
_FORMS: tuple[Form, ...] = ("bare", "quoted", "env")

# Minimum and maximum number of characters of a value that are matched; further ones are removed without a check.
_LEAST, _MOST = 6, 64
# Words that mark a name as that of a secret, by the kind of value. Each word costs a search through every text, so
# rarer ones (`pwd`, `credential`) are left out.
_PASSWORDS = ("password", "passwd", "passphrase", "pass")
_SECRETS = ("secret",)
_TOKENS = ("token",)
_KEYS = ("_key", "-key", "apikey", "accesskey", "privatekey", "signingkey", "encryptionkey", "api key", "access key")
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
_BEFORE_PASS = LazyPattern(
    r"(?:.*[_-])?(?:db|user|my|smtp|ftp|ssh|mysql|pg|root|admin|mail|email|sudo|redis)?", re.IGNORECASE
)

# ── rest of a name, and the text between name and value ──────────────────────────────────────────

_BLANKS = Run(r" \t", 0, 4)
_ESCAPED_QUOTE: Piece = [Run(r"\\", 1, 3), '"']
_QUOTE: Piece = ('"', "'", _ESCAPED_QUOTE)
_NAME_ENDS: Piece = ("", '"', "'", "`", '"]', "']", _ESCAPED_QUOTE)
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
_BARE = r"^\s\"'`\\<>,;&|(){}\[\]"
_ENV = r"^\s\"'`\\<>"
_GIVEN = r"^\s\"'`\\<>|;&()"
_IN_DOUBLE = r'^"\\\n\r'
_IN_SINGLE = r"^'\\\n\r"
_IN_BACKTICKS = r"^`\\\n\r"


def _row(
    starts: tuple[str, ...],
    kept: list[Piece],
    signs: str,
    check: _Check,
    *,
    clues: tuple[str, ...],
    escapes: bool = False,
    any_case: bool = True,
    unless: str = NEVER,
    before: str = ANYWHERE,
    behind: str = "",
) -> Shape:
    """Build the shape of an assignment."""
    return Shape(
        kind="assignment",
        starts=starts,
        kept=kept,
        body=[Run(signs, _LEAST, _MOST, escapes=escapes, maximal=True)],
        rest=signs,
        check=check,
        yields=True,
        clues=clues,
        any_case=any_case,
        unless=unless,
        before=before,
        behind=behind,
    )


def _checked(kind: Kind, form: Form, is_name: _IsName) -> _Check:
    """Build a check of the name and of the value."""

    def check(before: str, kept: str, value: str) -> bool:
        return is_secret_value(value, kind, form) and is_name(_name_before(before), kept, form)

    return check


def _in_a_tag(check: _Check) -> _Check:
    """Build the same check for a name that is the name of an XML tag."""
    return lambda before, kept, value: _opens_tag(before) and check(before, kept, value)


def _opens_tag(before: str) -> bool:
    return before.rstrip(_NAME_CHARS + ":").endswith("<")


def _name_before(before: str) -> str:
    """Return the part of the name before a match."""
    return before[len(before.rstrip(_NAME_CHARS)) :]


def _is_password_name(before: str, kept: str, form: Form) -> bool:  # noqa: ARG001 - every name is checked alike
    if kept[:5].lower() in ("passw", "passp"):
        return True
    return _BEFORE_PASS.fullmatch(before) is not None or (kept[:1].isupper() and not before[-1:].isupper())


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


def _rows(words: tuple[str, ...], kind: Kind, is_name: _IsName, clues: tuple[str, ...]) -> list[Shape]:
    """Build the shapes for all forms of assignment to the names of one kind."""
    row = partial(_row, clues=clues)
    bare, quoted, env = (_checked(kind, form, is_name) for form in _FORMS)
    given = _checked(kind, "bare", lambda before, kept, form: before[:1] == "-" and is_name(before, kept, form))
    # The words of `_KEYS` include the dash themselves.
    behind_dash = "(?<=-)" if words is not _KEYS else ANYWHERE
    upper = tuple(word.upper() for word in words if word.isidentifier())
    return [
        row(upper, [_MORE_UPPER, "="], _ENV, env, any_case=False, behind="[(]"),
        row(words, [_MORE_NAME, _ASSIGNED, _PREFIX, '"'], _IN_DOUBLE, quoted, escapes=True),
        row(words, [_MORE_NAME, _ASSIGNED, _PREFIX, "'"], _IN_SINGLE, quoted, escapes=True),
        row(words, [_MORE_NAME, _ASSIGNED, "`"], _IN_BACKTICKS, quoted, escapes=True),
        row(words, [_MORE_NAME, _ASSIGNED, _ESCAPED_QUOTE], _IN_DOUBLE, quoted),
        row(words, [_MORE_NAME, _ASSIGNED], _BARE, bare, unless="[=~:]", behind=r"[(\[{<]"),
        row(words, [_MORE_NAME, ">"], _ENV, _in_a_tag(quoted)),
        row(words, [_MORE_NAME, _AN_ARGUMENT], _GIVEN, given, unless="-", before=behind_dash),
    ]


# ── secrets without a name ───────────────────────────────────────────────────────────────────────

_GAP = Run(r"\s", 1, 24)
_AFTER_LOGIN = LazyPattern(r".*\b(?:login|account)\s+\S+\s+", re.DOTALL)
_EXAMPLE = "[A-Za-z0-9+/]{0,30}EXAMPLEKEY"


def _is_netrc(before: str, kept: str, value: str) -> bool:  # noqa: ARG001 - nothing is kept but blanks
    return is_any_password(value) and _AFTER_LOGIN.fullmatch(before) is not None


def _is_pgpass(before: str, kept: str, value: str) -> bool:  # noqa: ARG001 - only the value matters
    return is_any_password(value)


def _is_curl_user(before: str, kept: str, value: str) -> bool:
    user = kept.rstrip(":").lstrip("-prox").removeprefix("user").lstrip("u =\"'")
    return "curl" in before.lower() and is_any_password(value) and not value.isdigit() and value != user


def _is_basic(before: str, kept: str, value: str) -> bool:  # noqa: ARG001 - only the value matters
    return is_basic_auth(value)


def _is_mixed(before: str, kept: str, value: str) -> bool:  # noqa: ARG001 - only the value matters
    return any(map(str.isdigit, value)) and any(map(str.isupper, value)) and any(map(str.islower, value))


def _pgpass(start: str) -> Shape:
    """Build the shape of `host:port:database:user:password`, with port 5432, or `*` for host and port."""
    return Shape(
        kind="assignment",
        starts=(start,),
        clues=(start[:5],),
        kept=[Run(r"^\s:\"'\\", 1, 63), ":", Run(r"^\s:\"'\\", 1, 63), ":"],
        body=[Run(r"^\s:\"'\\", 3, _MOST, maximal=True)],
        rest=r"^\s:\"'\\",
        behind=":",
        before=r"(?<![:*])",
        needs=":",
        check=_is_pgpass,
        yields=True,
    )


CONTEXT_SHAPES: tuple[Shape, ...] = (
    Shape(
        kind="aws-secret-key",
        starts=("AKIA", "ASIA"),
        kept=[Run("A-Z0-9", 16, 16), Run(r"\s,;:|\"'=\\-", 1, 12)],
        unless=_EXAMPLE,
        body=[Run("A-Za-z0-9+/", 40, 40)],
        behind="[A-Za-z0-9+/]",
        check=_is_mixed,
    ),
    # The password may contain an @: the last @ of the URL separates it from the host.
    Shape(
        kind="url-password",
        starts=("://", ":\\/\\/"),
        kept=[Run(r"^\s:/?#@\"'`<>{}()\[\]\\|,", 0, 256), ":"],
        unless=r"(?i:(?:pass|passwd|password|pwd|secret|token|user|\*+|x+|\.+)@)|\$|%[({s]",
        body=[Run(r"^\s/?#\"'`<>{}\[\]\\|", 4, 256)],
        behind=r"[^@]|\Z",
        before=r"(?<=[A-Za-z0-9])",
        needs="@",
    ),
)
"""Shapes that rank before those of keys: they match the same secrets with more context."""

_UNNAMED = (
    Shape(
        kind="assignment",
        starts=("password",),
        kept=[_GAP],
        body=[Run(r"^\s\"'\\", 3, _MOST, maximal=True)],
        rest=r"^\s\"'\\",
        before=r"(?<=\s)",
        clues=("pass",),
        check=_is_netrc,
        yields=True,
    ),
    *(_pgpass(start) for start in (":5432:", "*:*:")),
    Shape(
        kind="assignment",
        starts=("-u", "--user", "--proxy-user"),
        kept=[("", " ", "=", " '", ' "', "='", '="', "'", '"', ' \\"'), Run(r"^\s:\"'\\/", 0, 63), ":"],
        body=[Run(r"^\s\"'\\", 3, _MOST, maximal=True)],
        rest=r"^\s\"'\\",
        unless=r"\$",
        before=r"(?<=[\s\"'])",
        needs=":",
        check=_is_curl_user,
        yields=True,
    ),
    Shape(
        kind="assignment",
        starts=("auth",),
        kept=[_NAME_ENDS, _BLANKS, ("=", ":"), _BLANKS, ("", '"', "'", _ESCAPED_QUOTE)],
        body=[Run("A-Za-z0-9+/=", 8, 256, maximal=True)],
        rest="A-Za-z0-9+/=",
        before=r"(?<=[_\"'])",
        check=_is_basic,
        yields=True,
    ),
)

ASSIGNMENTS: tuple[Shape, ...] = (
    *_UNNAMED,
    *_rows(_PASSWORDS, "password", _is_password_name, ("pass",)),
    *_rows(_SECRETS, "secret", _is_secret_name, ("ecret",)),
    *_rows(_TOKENS, "token", _is_token_name, ()),
    *_rows(_KEYS, "token", _is_key_name, ("key",)),
)
ASSIGNMENT = ASSIGNMENTS[-1]
"""One of the assignment shapes: all have the same word and the same mark."""

_NAMED = LazyPattern("|".join((*_PASSWORDS, *_SECRETS, *_TOKENS, "key", "auth")), re.IGNORECASE)
_VALUE_MAX = 2 * _MOST


def may_assign(name: str, value: str) -> bool:
    """Whether a member of a JSON object may be a secret, by its name and length. A cheap check before the full one."""
    return len(value) >= _LEAST and _NAMED.search(name) is not None


def as_json_member(name: str, value: str) -> str:
    """Return a member of a JSON object as JSON text, its value cut to the length that decides if it is a secret."""
    return f"{json.dumps(name)}: {json.dumps(value[:_VALUE_MAX], ensure_ascii=False)}"
