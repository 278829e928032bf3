"""What people type into a search, as a value that no database can misread.

    word  "a phrase"  prefix*  -not  -"not this"
    agent:NAME  sender:NAME  cwd:FOLDER  tool:NAME  type:TYPE  since:2026-11-01  since:2d  -agent:"a name"

Everything must match, in any order; what follows a minus must not. Pure: what counts from now is counted by
whoever has the time. Rule: nothing typed reaches a database but as a value of its own or inside quotes, so
operators and column names of any query language have no power here, and hostile text is text.
"""

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from wakelog.errors import BadQuery
from wakelog.log.times import iso, parse_ms

FieldName = Literal["agent", "sender", "cwd", "tool", "type", "since"]

QUERY_MAX_CHARS = 2_000
TERMS_MAX = 64
_TERM = re.compile(
    r"(?P<minus>-?)(?:"
    r'(?P<field>agent|sender|cwd|tool|type|since):(?:"(?P<quoted>[^"]*)"|(?P<value>[^\s"]*))'
    r'|"(?P<phrase>[^"]*)"(?P<open>\*?)'
    r'|(?P<word>[^\s"]+))'
    r'|(?P<stray>")'
)
_SPAN = re.compile(r"([0-9]{1,6})([smhdw])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_HINT = 'use words, "a phrase", prefix*, -not and agent: sender: cwd: tool: type: since:'
_SINCE_HINT = "write a day, a time, or how long ago: since:2026-11-01, since:2026-11-01T09:30:00Z, since:2d"


class Term(msgspec.Struct, frozen=True):
    """One thing to look for in the text, or to leave out."""

    text: str
    prefix: bool = False
    without: bool = False


class Field(msgspec.Struct, frozen=True):
    """One thing that must hold of the entry or its session, or must not."""

    name: FieldName
    value: str
    without: bool = False


class Query(msgspec.Struct, frozen=True):
    """What is looked for. Without a wanted term, the newest entries that the rest leaves."""

    terms: tuple[Term, ...] = ()
    fields: tuple[Field, ...] = ()

    @property
    def wanted(self) -> tuple[Term, ...]:
        """What must stand in the text."""
        return tuple(term for term in self.terms if not term.without)

    @property
    def unwanted(self) -> tuple[Term, ...]:
        """What must not."""
        return tuple(term for term in self.terms if term.without)


def parse(query: str) -> Query:
    """A query, or `BadQuery`. What holds no letter and no digit is looked past."""
    if len(query) > QUERY_MAX_CHARS:
        raise BadQuery(f"the query is longer than {QUERY_MAX_CHARS:,} characters", hint="search for fewer words")
    found = [_part(match) for match in _TERM.finditer(as_text(query))]
    terms = tuple(part for part in found if isinstance(part, Term) and _says_something(part))
    fields = tuple(part for part in found if isinstance(part, Field))
    if len(terms) + len(fields) > TERMS_MAX:
        raise BadQuery(f"the query has more than {TERMS_MAX} words", hint="search for fewer words")
    if not terms and not fields:
        raise BadQuery("the query holds no word to search for", hint=_HINT)
    if all(term.without for term in terms) and all(field.without for field in fields):
        raise BadQuery("the query only says what to leave out", hint="add a word to search for")
    return Query(terms, fields)


def with_folders(query: str, whole: Callable[[str], str]) -> str:
    """The same query with each `cwd:` made whole: what a relative folder means only its asker knows."""

    def replaced(found: re.Match[str]) -> str:
        folder = found["quoted"] or found["value"] or ""
        if found["field"] != "cwd" or not folder.strip() or folder.startswith("/"):
            return found[0]
        named = whole(folder)
        if '"' in named:
            raise BadQuery(f"a query cannot name the folder {named}", hint="its name holds a quote; leave `cwd:` out")
        return f'{found["minus"]}cwd:"{named}"'

    return _TERM.sub(replaced, query)


def as_text(typed: str) -> str:
    """`typed` as every database can hold it: what is no Unicode text comes out as a mark, NUL as a space."""
    return typed.encode("utf-8", "replace").decode().replace("\0", " ")


def bound(field: Field, now_ms: int) -> tuple[str | int, ...]:
    """The values that a database compares with, for the condition that a field stands for."""
    match field.name:
        case "cwd":
            # The folder itself, or what the paths below it begin with.
            return field.value.rstrip("/") or "/", field.value.rstrip("/") + "/"
        case "tool":
            return (listed([field.value]),)
        case "since":
            return (_since_ms(field.value, now_ms),)
    return (field.value,)


def listed(names: list[str]) -> str:
    """Names as one text in which each can be found whole: every one between two line ends."""
    return "".join(f"\n{as_text(name).replace(chr(10), ' ')}\n" for name in names)


# ── parts ────────────────────────────────────────────────────────────────────────────────────────


def _part(found: re.Match[str]) -> Term | Field:
    without = bool(found["minus"])
    if found["stray"] or (found["value"] == "" and found.string[found.end() :].startswith('"')):
        raise BadQuery("a quote is opened but not closed", hint=_HINT)
    if found["field"] is not None:
        return _field(found["field"], found["quoted"] or found["value"] or "", without=without)
    if found["phrase"] is not None:
        return Term(found["phrase"], bool(found["open"]), without)
    return Term(found["word"].removesuffix("*"), found["word"].endswith("*"), without)


def _field(name: str, value: str, *, without: bool) -> Field:
    if not value.strip():
        raise BadQuery(f"`{name}:` is given without a value", hint=f'write {name}:VALUE, or "{name}:" to search for it')
    field = msgspec.convert({"name": name, "value": value, "without": without}, Field)
    if field.name == "since":
        _since_ms(value, 0)
    return field


def _since_ms(value: str, now_ms: int) -> int:
    """The moment that `since:` names, in milliseconds since 1970."""
    span = _SPAN.fullmatch(value)
    if span:
        return now_ms - int(span[1]) * _UNIT_MS[span[2]]
    day_ms = parse_ms(f"{value}T00:00:00Z")
    moment_ms = parse_ms(value) if day_ms is None else day_ms
    # A day that no calendar has would be read as one of the next month.
    if moment_ms is None or (day_ms is not None and iso(day_ms)[:10] != value):
        raise BadQuery(f"`since:` does not understand {value[:40]!r}", hint=_SINCE_HINT)
    return moment_ms


def _says_something(term: Term) -> bool:
    return any(char.isalnum() for char in term.text)
