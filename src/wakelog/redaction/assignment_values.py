"""Classification of assigned values: secret, or code, word, placeholder or identifier. Pure.

There are two tests. `is_random_value`, the default, takes values of 16 or more characters that look random: at least
half of their pairs of adjacent letters and digits are rare in words and names. `is_secret_value`, for `strict`, takes
values of 6 or more characters that mix letters with digits or other characters, and in the form of an environment file
(`DB_PASSWORD=…`) plain words too, because code is not written like that.

Neither takes placeholders (`changeme`, `${TOKEN}`, `<your-password>`), results of function calls, paths, addresses,
algorithm names and versions.
"""

import base64
import binascii
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["password", "secret", "token"]
Form: TypeAlias = Literal["env", "bare", "quoted"]

# Minimum length of a value, by the kind of its name.
MIN_CHARS: dict[Kind, int] = {"password": 6, "secret": 6, "token": 8}
_TRAILING = ".,:;!?…"
# Base64 ends in these; within a value they are a comparison.
_PADDING = "="


class LazyPattern:
    """Regular expression that is compiled on first use: most commands meet no assignment, and need none of them."""

    match: Callable[[str], re.Match[str] | None]
    fullmatch: Callable[[str], re.Match[str] | None]
    search: Callable[[str], re.Match[str] | None]
    findall: Callable[[str], list[str]]
    sub: Callable[[str, str], str]

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compile, and keep the method: the next call does not come here."""
        method = getattr(re.compile(self._pattern, self._flags), name)
        setattr(self, name, method)
        return method


# Characters that join words in identifiers, paths, addresses and base64: no evidence for a secret.
_JOINS = frozenset("-_.:/=+,[]()#")
_WORDS_MAX = 24
_CASE_RUN = LazyPattern(r"[A-Z]+|[a-z]+")
_PLACEHOLDER = LazyPattern(
    # a variable, a template, or a reference to the place of the secret
    r"[$<{*&|~^\[]|%[({a-z]|#\{|![a-z]+$|@\w*@|(?:env|vault|file|ssm|arn|ref\+|op|sops|enc)[:(\[]"
    r"|[a-z][a-z0-9+.-]*://|sha\d{1,3}[-:_=]|md5[-:_=]|h1:|data:"
    # or one of these in the middle
    r"|.*?(?:\$\{|\$\(|\{\{|\}\}|%\(|%s(?![a-z0-9])|\{\w*\}|<[\w -]*>|\[redacted|\.\.\.|…|x{4}|\*{3}|_{4}|-{4}|\(\)"
    r"|\)\.|=>|&&|\|\|"
    # or words of a placeholder
    r"|your|example|placeholder|change[-_ ]?(?:me|it|this)|replace|insert|dummy|sample|todo|fixme|goes[-_]?here|lorem"
    r"|redacted|secret[-_]here|foobar|0123456789|123456789|abcdef|deadbeef)",
    re.IGNORECASE,
)
# Parts of expressions and regular expressions that are rare in passwords.
_CODE = LazyPattern(r"\\[dwsbWSDB]|\[\^|\(\?|\[a-z|\[A-Z|\[0-9|\w\(|[a-z]\[|\w\s*\?\s*\w|^\w+\+=|==|!=|;$|->|::")
_PATH = LazyPattern(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\][a-z0-9._@{}/\\-]*|[a-z0-9._-]+(?:/[a-z0-9._-]+)+")
_FILE = LazyPattern(
    r"[\w./@-]+\.(?:pem|key|crt|cer|p12|pfx|jks|txt|json|ya?ml|toml|ini|cfg|conf|env|py|js|ts|tsx|rb|go|rs|java|md|html?"
    r"|css|xml|sh|c|h|cc|cpp|svg|png|com|org|net|io|dev|local)"
)
_DOTTED_NAME = LazyPattern(r"[A-Za-z_][A-Za-z_]*\d{0,3}(?:\??\.[A-Za-z_]\w*)+")
_NUMBERED_NAME = LazyPattern(r"(?:[A-Za-z]+[_-])*[A-Za-z]+[_-]?\d{1,3}")
_NUMBERED_WORD = LazyPattern(
    r"(?:[a-z]+[_-])*(?:pass|passwd|password|pwd|pw|secret|token|tok|key|user|name|str|string|val|value|arg|var|item"
    r"|test|field|input|param|data|id|type|group|node|text|char|byte|bytes|obj|opt)s?[_-]?\d{0,2}",
    re.IGNORECASE,
)
_PARTED_NAME = LazyPattern(r"[A-Za-z]+\d{0,3}(?:[-_][A-Za-z]+\d{0,3})+|[A-Z][a-z]+(?:[A-Z][a-z]+)+\d{0,3}")
_STANDARD = LazyPattern(
    r"(?:pbkdf2|argon2(?:id|i|d)?|scram|sha-?\d+|md[45]|aes|des3?|rsa|dsa|hmac|hs|rs|es|ps|ed25519|ed448|x25519|secp\d+\w\d"
    r"|utf-?|base|oauth|u?int|float|latin|iso|x509|pkcs|http|tls|ipv|p|v|rfc|mod_?|b?crypt|win|unix|py|python|ascii)"
    r"[-_]?\d*(?:[-_.+/](?:[a-z]+|\d+|[a-z]+\d+))*",
    re.IGNORECASE,
)
_NUMBERS = LazyPattern(r"[-+]?[\d_]+(?:[.,:/xX*+-]\d+)*[a-zA-Z%]{0,2}|0x[0-9a-fA-F]{1,8}")
_MIXED_RUN = 2.4
_PIN_DIGITS = 6
# Identifiers have at most this many digits.
_DIGITS_MAX = 2


# ── values that look random ──────────────────────────────────────────────────────────────────────

RANDOM_CHARS = 16
"""Minimum length of a value that is a secret because it looks random."""
# The 240 pairs of letters that are most frequent in the words of English prose and of identifiers, by first letter:
# 92 of 100 pairs in words are among them, and 36 of 100 in random text.
_PAIRS_BY_FIRST = (
    "abcdgiklmnprstuvwy baeilorsu cacehiklorstu dadeilorsu eacdefgilmnpqrstvwxy faefiloru gaehinrsu haeiot "
    "iabcdefglmnoprstvxz keis ladeilostuy mabeimopsu nacdefgiklnostuv obcdfgiklmnoprstuvw paeiloprstuy qu "
    "racdegiklmnoprstuy sacehilopstuy tacehiloprstuy uabceilmnprst vaei waeior xept ypst ze"
)
_COMMON_PAIRS = frozenset(each[0] + second for each in _PAIRS_BY_FIRST.split() for second in each[1:])
_RARE_SHARE = 0.5
_PAIRS_MIN = 10
# Parts of UUIDs, digests, ids and numbers: random, but no secret.
_HEX_PART = LazyPattern(
    r"(?<![A-Za-z0-9])(?:[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|0x[0-9A-Fa-f]+|(?=[a-z]*[0-9])[0-9a-f]{6,}|(?=[A-Z]*[0-9])[0-9A-F]{6,}"
    r"|[0-9]+(?:[eE][+-]?[0-9]+)?j?)(?![A-Za-z0-9])"
)
_UPPER, _LOWER, _DIGIT = LazyPattern("[A-Z]"), LazyPattern("[a-z]"), LazyPattern("[0-9]")


def is_random_value(value: str) -> bool:
    """Whether a value is long and looks random: no word, name, path, call, UUID, digest, number or placeholder."""
    core = value.rstrip(_TRAILING + _PADDING)
    if len(core) < RANDOM_CHARS or not core.isascii() or not core.isprintable() or " " in core:
        return False
    if sum(each.search(core) is not None for each in (_UPPER, _LOWER, _DIGIT)) < 2 or not looks_random(core):
        return False
    return not (_PLACEHOLDER.match(core) or _CODE.search(core) or _is_name_of_something(core))


def looks_random(text: str) -> bool:
    """Whether at least half of the pairs of adjacent letters and digits are rare in words and names.

    Rare are: two letters that are not a common pair, a small letter before a capital, a letter beside a digit. In
    identifiers one pair in five is rare, in random letters and digits three in four.
    """
    rest = _HEX_PART.sub("-", text)
    pairs = rare = 0
    for first, second in pairwise(rest):
        if first.isalnum() and second.isalnum():
            pairs += 1
            rare += _is_rare(first, second)
    return pairs >= _PAIRS_MIN and rare >= pairs * _RARE_SHARE


def _is_rare(first: str, second: str) -> bool:
    if first.isdigit() or second.isdigit():
        return not (first.isdigit() and second.isdigit())
    return (first.islower() and second.isupper()) or (first + second).lower() not in _COMMON_PAIRS


# ── values that are taken in strict mode ─────────────────────────────────────────────────────────


def is_secret_value(value: str, kind: Kind, form: Form) -> bool:
    """Whether a value is a secret, given the kind of its name and the form of the assignment."""
    core = value.rstrip(_TRAILING + _PADDING)
    if len(core) < MIN_CHARS[kind] or not core.isprintable() or " " in core or _PLACEHOLDER.match(core):
        return False
    if core.isascii() and core.isdigit():
        return kind == "password" and len(core) >= _PIN_DIGITS
    if _NUMBERS.fullmatch(core) or _CODE.search(core) or _is_name_of_something(core):
        return False
    return _is_strong(core, kind, form)


def _is_name_of_something(core: str) -> bool:
    """Whether a value is a path, a file name, the name of a standard, or a word such as `password2`."""
    shapes = (_PATH, _FILE, _STANDARD, _NUMBERED_WORD)
    return any(shape.fullmatch(core) for shape in shapes)


def _is_strong(core: str, kind: Kind, form: Form) -> bool:
    if not any(map(str.isalpha, core)):
        return False
    if any(map(str.isdigit, core)):
        return not _is_numbered_name(core, kind, form)
    if any(not sign.isalnum() and sign not in _JOINS for sign in core):
        # Words with other characters in them are passwords if they are text and not code.
        return kind == "password" or (kind == "secret" and form != "bare")
    return _is_word_in_env(core, kind, form) or _is_random_in_case(core) or looks_random(core)


def _is_numbered_name(core: str, kind: Kind, form: Form) -> bool:
    """Whether a value with digits is an identifier: `token2`, `self.key1`, `v1beta1`, `step-3-name`."""
    if form == "bare" and _DOTTED_NAME.fullmatch(core):
        return True
    if kind == "password":
        return form == "bare" and "_" in core and _NUMBERED_NAME.fullmatch(core) is not None
    if len(core) > _WORDS_MAX or sum(map(str.isdigit, core)) > _DIGITS_MAX:
        return False
    is_parted = (kind == "token" or form == "bare") and _PARTED_NAME.fullmatch(core) is not None
    return is_parted or _NUMBERED_NAME.fullmatch(core) is not None


def _is_word_in_env(core: str, kind: Kind, form: Form) -> bool:
    if form != "env" or kind == "token" or _NUMBERED_WORD.fullmatch(core):
        return False
    return "/" not in core and ":" not in core and "(" not in core and not core.isupper()


def _is_random_in_case(core: str) -> bool:
    """Whether upper and lower case alternate more often than in camel-case words."""
    letters = [sign for sign in core if sign.isalpha()]
    runs = _CASE_RUN.findall(core)
    return len(letters) >= 2 * MIN_CHARS["password"] and len(letters) / max(1, len(runs)) < _MIXED_RUN


def is_basic_auth(value: str) -> bool:
    """Whether a value is base64 of `user:password`, as in docker and npm configuration files."""
    try:
        raw = base64.b64decode(value[: len(value) // 4 * 4], validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in raw[1:] and raw.isascii() and raw.decode().isprintable()


def is_any_password(value: str) -> bool:
    """Whether a value in the position of a password is not a placeholder."""
    core = value.rstrip(_TRAILING)
    return bool(core) and not _PLACEHOLDER.match(core) and not _NUMBERED_WORD.fullmatch(core)
