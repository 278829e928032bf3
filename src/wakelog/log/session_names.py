"""Session names, `{agent}_{sender}_{number}`: readable, and distinct for distinct identities.

Pure. The identity of a session is the exact pair (agent, sender) in its header. A name is derived from the pair and is
only a hint: two pairs never get the same name, but the header decides whose session it is.

Grammar of a name: Unicode letters and digits in NFC and lower case, combining marks after them, and `-` `_` `.` `~`; at
most 180 bytes; the first character is a letter or a digit. There are no format or direction characters, no spaces and
no path separators. Every id is also a valid name. The parts made here contain no `_` and no `.`, so they never collide
with another part, with `..`, or with a device name of Windows.
"""

import base64
import hashlib
import re
import unicodedata

from wakelog.errors import BadId

NAME_MAX_BYTES = 180
PART_MAX_BYTES = 60
# Separates the readable form of a text from its digest. No readable form contains it.
_DIGEST_SIGN = "~"
_DIGEST_CHARS = 8
_NUMBER_MAX_DIGITS = 9
_EMPTY = "x"
ASCII_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._~-]{{0,{NAME_MAX_BYTES - 1}}}")
_SEPARATORS = "._~-"
_HINT = "use lower-case letters, digits, dots, dashes, underscores and tildes; `wakelog ls` lists the names"
# Invisible letters and marks (Unicode: Default_Ignorable_Code_Point). Other such characters are neither.
_INVISIBLE = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0),
            *range(0x180B, 0x1810),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)
_OLD_SLUG_MAX = 48
_NOT_OLD_SLUG = re.compile(r"[^a-z0-9]+")

# ── identity → name ──────────────────────────────────────────────────────────────────────────────


def name_stem(agent: str, sender: str) -> str:
    """Return the name of every new session of this pair, without its number."""
    return f"{name_part(agent)}_{name_part(sender)}_"


def old_stem(agent: str, sender: str) -> str:
    """Return the stem that earlier versions used for this pair. Other pairs may have the same one."""
    return f"{_old_slug(agent)}_{_old_slug(sender)}_"


def stems(agent: str, sender: str) -> tuple[str, ...]:
    """Return all stems under which sessions of this pair may be stored, the current one first."""
    return tuple(dict.fromkeys((name_stem(agent, sender), old_stem(agent, sender))))


def name_part(text: str) -> str:
    """Return an agent or a sender as part of a name. Different texts give different parts.

    A text that equals its readable form is used unchanged. Any other text gets a digest of the exact text after its
    readable form, also if it differs from another text only in a way that some file systems ignore.
    """
    readable = _readable(text)
    if text and readable == text == _case_folded(text) and len(text.encode()) <= PART_MAX_BYTES:
        return text
    room = PART_MAX_BYTES - len(_DIGEST_SIGN) - _DIGEST_CHARS
    return f"{_truncated(readable, room) or _EMPTY}{_DIGEST_SIGN}{_digest(text)}"


def title_part(title: str) -> str:
    """Return a title as part of a link's name. A title without letters and digits keeps its symbols, such as emoji."""
    return _truncated(_readable(title) or _symbols(title), PART_MAX_BYTES) or _EMPTY


def project_of(folder: str) -> str:
    """Return the name of the project that a folder belongs to: its last part that is neither hidden nor a number."""
    parts = [part for part in re.split(r"[/\\]", folder) if part and not part.endswith(":")]
    named = (part for part in reversed(parts) if not part.startswith(".") and not part.isdigit())
    return next(named, "")


def _readable(text: str) -> str:
    """Return the letters and digits of a text in lower case; each run of other characters becomes one dash."""
    made = ""
    for char in unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).lower()):
        if _is_letter(char) or (_is_mark(char) and made and made[-1] != "-"):
            made += char
        elif made and made[-1] != "-":
            made += "-"
    return made.removesuffix("-")


def _symbols(text: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFC", text) if unicodedata.category(char) == "So")


def _case_folded(text: str) -> str:
    """Return a form that is equal for texts that differ only in case or normalisation, as some file systems compare."""
    upper = unicodedata.normalize("NFKC", text).upper()
    return unicodedata.normalize("NFKC", upper.casefold())


def _truncated(text: str, max_bytes: int) -> str:
    """Return the start of a text, at most `most` bytes, without splitting a character."""
    return text.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore").rstrip("-")


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(digest).decode().lower()[:_DIGEST_CHARS]


def _old_slug(text: str) -> str:
    return _NOT_OLD_SLUG.sub("-", text.lower()).strip("-")[:_OLD_SLUG_MAX].strip("-") or "x"


# ── user input → name ────────────────────────────────────────────────────────────────────────────


def is_name(text: str) -> bool:
    """Return whether `text` matches the grammar of names."""
    if text.isascii():
        return ASCII_NAME.fullmatch(text) is not None
    if len(text) > NAME_MAX_BYTES or not _is_letter(text[0]) or not unicodedata.is_normalized("NFC", text):
        return False
    before = ""
    for char in text:
        is_mark = _is_mark(char) and before not in _SEPARATORS
        if char != char.lower() or not (char in _SEPARATORS or _is_letter(char) or is_mark):
            return False
        before = char
    return len(text.encode()) <= NAME_MAX_BYTES


def checked_name(text: str) -> str:
    """Return `text`; `BadId` if it is not a valid name."""
    if not is_name(text):
        raise BadId(f"not a session name: {text[:60]!r}", hint=_HINT)
    return text


def split_name(name: str) -> tuple[str, int | None]:
    """Return a name as stem and number; a name without a number becomes a stem, with None."""
    stem, _, digits = name.rpartition("_")
    if stem and digits.isascii() and digits.isdigit() and len(digits) <= _NUMBER_MAX_DIGITS:
        return f"{stem}_", int(digits)
    return f"{name}_", None


def identity_in_name(name: str) -> tuple[str, str, int | None]:
    """Return the agent, the sender and the number in a name: texts as `name_part` writes them, empty in other names."""
    stem, number = split_name(name)
    agent, _, sender = stem.removesuffix("_").partition("_")
    return (agent, sender, number) if number is not None and sender and "_" not in sender else ("", "", number)


def _is_letter(char: str) -> bool:
    category = unicodedata.category(char)
    return (category[0] == "L" or category == "Nd") and char not in _INVISIBLE


def _is_mark(char: str) -> bool:
    return unicodedata.category(char) in ("Mn", "Mc") and char not in _INVISIBLE
