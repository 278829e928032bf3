"""Convert query terms to an FTS5 expression. All text is quoted, so user input never acts as an FTS5 operator."""

from collections.abc import Iterable

from wakelog.stores.catalog.query import Query, Term


def expression(query: Query) -> str:
    """Return the expression for the wanted and unwanted terms; empty if no term is wanted."""
    wanted, unwanted = all_of(query.wanted), any_of(query.unwanted)
    return f"({wanted}) NOT ({unwanted})" if wanted and unwanted else wanted


def all_of(terms: Iterable[Term]) -> str:
    """Return an expression that requires all of the terms."""
    return " AND ".join(map(_quoted, terms))


def any_of(terms: Iterable[Term]) -> str:
    """Return an expression that requires at least one of the terms."""
    return " OR ".join(map(_quoted, terms))


def _quoted(term: Term) -> str:
    text = term.text.replace('"', '""')
    return f'"{text}"*' if term.prefix else f'"{text}"'
