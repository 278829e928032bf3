"""Shapes of secrets recognised by the text around them, without a name: netrc, pgpass, `curl -u`, headers, commands.

The position alone says that a value is a secret, so `strict` takes every value that is no placeholder. By default only
values that look random are taken, and of the contexts only those that are rare in other text.
"""

import re
from collections.abc import Callable

from wakelog.redaction.assignment_values import (
    RANDOM_CHARS,
    LazyPattern,
    is_any_password,
    is_basic_auth,
    is_random_value,
    is_secret_value,
    looks_random,
)
from wakelog.redaction.assignments import KIND
from wakelog.redaction.shapes import ANYWHERE, Piece, Run, Shape

# Maximum number of characters of a value that are matched and checked; further ones are removed without a check.
_MOST = 64
_LEAST = 3
_GAP = Run(r"\s", 1, 24)
_QUOTE: Piece = ('"', "'", [Run(r"\\", 1, 7), '"'])
_AFTER_LOGIN = LazyPattern(r".*\b(?:login|account)\s+\S+\s+", re.DOTALL)
_EXAMPLE = "[A-Za-z0-9+/]{0,30}EXAMPLEKEY"

_IsPassword = Callable[[str], bool]


def _is_random(before: str, kept: str, value: str) -> bool:  # noqa: ARG001 - only the value matters
    return looks_random(value)


KEY_CONTEXTS: tuple[Shape, ...] = (
    Shape(
        kind="aws-secret-key",
        starts=("AKIA", "ASIA"),
        kept=[Run("A-Z0-9", 16, 16), Run(r"\s,;:|\"'=\\-", 1, 12)],
        unless=_EXAMPLE,
        body=[Run("A-Za-z0-9+/", 40, 40)],
        behind="[A-Za-z0-9+/]",
        check=_is_random,
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


def context_shapes(*, strict: bool) -> tuple[Shape, ...]:
    """Return the shapes of secrets without a name, for random values or with `strict` for all."""
    found = _default_contexts(is_any_password, _LEAST) if strict else _default_contexts(is_random_value, RANDOM_CHARS)
    return (*found, *_strict_contexts()) if strict else found


# ── contexts of every mode with assignments ──────────────────────────────────────────────────────


def _default_contexts(is_password: _IsPassword, least: int) -> tuple[Shape, ...]:
    def is_netrc(before: str, kept: str, value: str) -> bool:  # noqa: ARG001 - nothing is kept but blanks
        return is_password(value) and _AFTER_LOGIN.fullmatch(before) is not None

    def is_pgpass(before: str, kept: str, value: str) -> bool:  # noqa: ARG001 - only the value matters
        return is_password(value)

    def is_curl_user(before: str, kept: str, value: str) -> bool:
        user = kept.rstrip(":").lstrip("-prox").removeprefix("user").lstrip("u =\"'")
        return "curl" in before.lower() and is_password(value) and not value.isdigit() and value != user

    return (
        Shape(
            kind=KIND,
            starts=("password",),
            kept=[_GAP],
            body=[Run(r"^\s\"'\\", least, _MOST, maximal=True)],
            rest=r"^\s\"'\\",
            before=r"(?<=\s)",
            clues=("pass",),
            check=is_netrc,
            yields=True,
        ),
        # `host:port:database:user:password`, with port 5432, or `*` for host and port.
        *(
            Shape(
                kind=KIND,
                starts=(start,),
                clues=(start[:5],),
                kept=[Run(r"^\s:\"'\\", 1, 63), ":", Run(r"^\s:\"'\\", 1, 63), ":"],
                body=[Run(r"^\s:\"'\\", least, _MOST, maximal=True)],
                rest=r"^\s:\"'\\",
                behind=":",
                before=r"(?<![:*])",
                needs=":",
                check=is_pgpass,
                yields=True,
            )
            for start in (":5432:", "*:*:")
        ),
        Shape(
            kind=KIND,
            starts=("-u", "--user", "--proxy-user"),
            kept=[("", " ", "=", " '", ' "', "='", '="', "'", '"', ' \\"'), Run(r"^\s:\"'\\/", 0, 63), ":"],
            body=[Run(r"^\s\"'\\", least, _MOST, maximal=True)],
            rest=r"^\s\"'\\",
            unless=r"\$",
            before=r"(?<=[\s\"'])",
            needs=":",
            check=is_curl_user,
            yields=True,
        ),
        Shape(
            kind=KIND,
            starts=("auth",),
            kept=[
                ("", '"', "'", [Run(r"\\", 1, 3), '"']),
                Run(r" \t", 0, 4),
                ("=", ":"),
                Run(r" \t", 0, 4),
                ("", _QUOTE),
            ],
            body=[Run("A-Za-z0-9+/=", 8, 256, maximal=True)],
            rest="A-Za-z0-9+/=",
            before=r"(?<=[_\"'])",
            check=_is_basic,
            yields=True,
        ),
    )


def _is_basic(before: str, kept: str, value: str) -> bool:  # noqa: ARG001 - only the value matters
    return is_basic_auth(value)


# ── contexts of `strict` only ────────────────────────────────────────────────────────────────────

_SCHEMES = ("bearer", "basic", "token", "digest", "apikey", "oauth", "negotiate", "jwt", "bot", "key")
_AFTER_SCHEME = LazyPattern(rf".*\b(?:{'|'.join(_SCHEMES)})\s+", re.IGNORECASE | re.DOTALL)
# The text between the name of a header and its value: in a request, in source code, and in lists of names and values.
_SIGNS = Run(r"\s\"'\\=:>,([", 1, 12)
_HEADER: Piece = ([_SIGNS, ("value", "Value"), _SIGNS], _SIGNS)
_COOKIE = LazyPattern(r"[^\s=;,:]+=[^\s;,]{6,}")
_LAST_COMMAND = LazyPattern(r"[^\n|;&]*\Z")
# A command begins after anything but a letter, or after an escaped line end.
_COMMAND = r"(?:\b|(?<=\\[nrt]))"
_OPTIONS_OF_COMMANDS = {
    "-p": LazyPattern(
        rf"{_COMMAND}(?:sshpass|mongo\w*|psexec\w*|(?:docker|podman|nerdctl|oc|az|skopeo|buildah|helm|cf|crane|oras)\b.*\blogin)\b"
    ),
    "-P": LazyPattern(rf"{_COMMAND}(?:sqlcmd|bcp|zip|unzip)\b"),
    "-a": LazyPattern(rf"{_COMMAND}redis-cli\b"),
    "-w": LazyPattern(rf"{_COMMAND}ldap\w+\b"),
}
_GLUED_COMMANDS = LazyPattern(rf"{_COMMAND}(?:mysql\w*|mariadb\S*|sshpass|7z\w?|mongo\w*)\b")


def _is_authorization(before: str, kept: str, value: str) -> bool:  # noqa: ARG001 - the start word is enough
    if _AFTER_SCHEME.fullmatch(kept):
        return is_any_password(value)
    return is_secret_value(value, "token", "bare")


def _is_bearer(before: str, kept: str, value: str) -> bool:  # noqa: ARG001 - only the value matters
    return is_secret_value(value, "token", "bare")


def _is_cookie(before: str, kept: str, value: str) -> bool:  # noqa: ARG001 - only the value matters
    return _COOKIE.search(value) is not None


def _is_command_password(before: str, kept: str, value: str) -> bool:
    command = _LAST_COMMAND.search(before)
    text, separator = command.group() if command else "", kept[2:].strip("\"'\\")
    commands = _OPTIONS_OF_COMMANDS[kept[:2]] if separator else _GLUED_COMMANDS if kept[:2] == "-p" else None
    return commands is not None and commands.search(text) is not None and is_any_password(value)


def _is_after_flags(before: str, kept: str, value: str) -> bool:  # noqa: ARG001 - the kept part is enough
    return "b" in kept.split()[1] and is_any_password(value)


def _is_given(before: str, kept: str, value: str) -> bool:  # noqa: ARG001 - only the value matters
    return is_any_password(value)


def _context(
    starts: tuple[str, ...],
    kept: list[Piece],
    chars: str,
    check: Callable[[str, str, str], bool] = _is_given,
    *,
    least: int = _LEAST,
    before: str = ANYWHERE,
    any_case: bool = True,
    unless: str = "-",
) -> Shape:
    """Build the shape of a secret that is recognised by the text before it."""
    return Shape(
        kind=KIND,
        starts=starts,
        kept=kept,
        body=[Run(chars, least, _MOST, maximal=True)],
        rest=chars,
        check=check,
        any_case=any_case,
        before=before,
        unless=unless,
        yields=True,
    )


def _strict_contexts() -> tuple[Shape, ...]:
    word, quoted, in_quotes = r"^\s\"'`\\<>|;&()", r"^\s\"'\\", [_QUOTE, Run(r"^\"'\\\n", 0, 63), _QUOTE]
    blank, user = Run(r" \t", 1, 4), Run(r"^\s\"'\\/@", 1, 40)
    return (
        Shape(
            kind="password-hash",
            starts=("$1$", "$5$", "$6$", "$y$", "$2a$", "$2b$", "$2y$", "$apr1$", "$argon2i", "$argon2d", "$pbkdf2"),
            body=[Run("A-Za-z0-9./$,=+-", 20, 20)],
            rest="A-Za-z0-9./$,=+-",
            needs="$",
        ),
        _context(
            ("authorization",),
            [_HEADER, ([_SCHEMES, Run(r"\s", 1, 2)], "")],
            r"^\s\"'`\\<>,;",
            _is_authorization,
        ),
        _context(("bearer",), [Run(r"\s", 1, 2)], r"^\s\"'`\\<>,;()", _is_bearer),
        _context(("cookie",), [("", "s"), _HEADER], r"^\"'\\\n\r<>", _is_cookie, least=8),
        _context(
            tuple(_OPTIONS_OF_COMMANDS),
            [Run(r" \"',\\", 0, 6)],
            word,
            _is_command_password,
            before=r"(?<=[\s\"'])",
            any_case=False,
        ),
        # SQL
        _context(
            ("identified ",),
            [("", ["with ", Run("a-z0-9_'\"", 1, 40), " "]), ("by", "as"), ("", " password"), blank, _QUOTE],
            quoted,
        ),
        _context(("jdbc:oracle:thin:", "sqlplus "), [("", "-s ", "-l "), user, "/"], r"^\s@\"'/\\"),
        # Commands with the password in a fixed place.
        _context(("add_user ", "change_password "), [user, blank], word),
        _context(
            ("htpasswd ",),
            ["-", Run("a-z", 1, 6), blank, Run(r"^\s", 1, 120), blank, user, blank],
            word,
            _is_after_flags,
        ),
        # Source code
        _context(("securestring ",), [("", "-string "), _QUOTE], quoted),
        _context(
            ("auth=(", "auth = (", "basicauth(", "networkcredential(", "login("),
            [in_quotes, Run(" ", 0, 1), ",", Run(r"\s", 0, 4), _QUOTE],
            quoted,
        ),
    )
