"""Terms as an FTS5 expression. Every text stands in quotes, so that nothing typed is an operator of FTS5's."""

from collections.abc import Iterable

from wakelog.stores.catalog.query import Query, Term


def expression(query: Query) -> str:
    """What must match and what must not; empty if no word is wanted."""
    wanted, unwanted = all_of(query.wanted), any_of(query.unwanted)
    return f"({wanted}) NOT ({unwanted})" if wanted and unwanted else wanted


def all_of(terms: Iterable[Term]) -> str:
    """All of these terms."""
    return " AND ".join(map(_quoted, terms))


def any_of(terms: Iterable[Term]) -> str:
    """At least one of them."""
    return " OR ".join(map(_quoted, terms))


def _quoted(term: Term) -> str:
    text = term.text.replace('"', '""')
    return f'"{text}"*' if term.prefix else f'"{text}"'
