"""What people type into a search, made into a query that FTS5 cannot misread.

    word  "a phrase"  prefix*  -not  -"not this"

Every word must match, in any order; what follows a minus must not. Rule: nothing typed reaches FTS5
outside quotes, so its own operators and column names have no power here, and hostile text is text.
"""

import re

import msgspec

from wakelog.errors import BadQuery

QUERY_MAX_CHARS = 2_000
TERMS_MAX = 64
_TERM = re.compile(r'(?P<minus>-?)(?:"(?P<phrase>[^"]*)"(?P<open>\*?)|(?P<word>[^\s"]+))|(?P<stray>")')
_HINT = 'use words, "a phrase", prefix* and -not'


class Term(msgspec.Struct, frozen=True):
    """One thing to look for, or to leave out."""

    text: str
    prefix: bool = False
    without: bool = False


def fts_query(query: str) -> str:
    """The FTS5 expression of a query, or `BadQuery`."""
    terms = parse(query)
    wanted = " AND ".join(_quoted(term) for term in terms if not term.without)
    unwanted = " OR ".join(_quoted(term) for term in terms if term.without)
    return f"({wanted}) NOT ({unwanted})" if unwanted else wanted


def parse(query: str) -> tuple[Term, ...]:
    """The terms of a query. What holds no letter and no digit is looked past."""
    if len(query) > QUERY_MAX_CHARS:
        raise BadQuery(f"the query is longer than {QUERY_MAX_CHARS:,} characters", hint="search for fewer words")
    terms = tuple(term for found in _TERM.finditer(as_text(query)) if _says_something(term := _term(found)))
    if len(terms) > TERMS_MAX:
        raise BadQuery(f"the query has more than {TERMS_MAX} words", hint="search for fewer words")
    if not terms:
        raise BadQuery("the query holds no word to search for", hint=_HINT)
    if all(term.without for term in terms):
        raise BadQuery("the query only says what to leave out", hint="add a word to search for")
    return terms


def as_text(typed: str) -> str:
    """`typed` as SQLite can hold it: what is no Unicode text comes out as a mark, NUL as a space."""
    return typed.encode("utf-8", "replace").decode().replace("\0", " ")


def _term(found: re.Match[str]) -> Term:
    if found["stray"]:
        raise BadQuery("a quote is opened but not closed", hint=_HINT)
    without = bool(found["minus"])
    if found["phrase"] is not None:
        return Term(found["phrase"], bool(found["open"]), without)
    return Term(found["word"].removesuffix("*"), found["word"].endswith("*"), without)


def _says_something(term: Term) -> bool:
    return any(char.isalnum() for char in term.text)


def _quoted(term: Term) -> str:
    text = term.text.replace('"', '""')
    return f'"{text}"*' if term.prefix else f'"{text}"'
