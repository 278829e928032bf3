"""Excerpts of search hits: one line of text of limited length, cut by FTS5, with the matches enclosed in «»."""

EXCERPT_MAX_CHARS = 400
_WORDS = 24
SNIPPET = "snippet(words, 0, '«', '»', '…', 24)"
# Enough text for `beginning` to build an excerpt from.
BEGINNING_CHARS = 8 * EXCERPT_MAX_CHARS


def tidy(snippet: str) -> str:
    """Return an FTS5 snippet as one line; if longer than `EXCERPT_MAX_CHARS`, cut around its first match."""
    excerpt = " ".join(snippet.split())
    if len(excerpt) <= EXCERPT_MAX_CHARS:
        return excerpt
    start = max(0, excerpt.find("«") - EXCERPT_MAX_CHARS // 4)
    piece = excerpt[start : start + EXCERPT_MAX_CHARS - 3]
    is_open = piece.rfind("«") > piece.rfind("»")
    return f"{'…' if start else ''}{piece}{'»' if is_open else ''}…"


def beginning(text: str) -> str:
    """Return the first words of a text, for a query without search words; reads `BEGINNING_CHARS` characters."""
    words = text[:BEGINNING_CHARS].split()
    is_all = len(words) <= _WORDS and len(text) < BEGINNING_CHARS
    return tidy(" ".join(words[:_WORDS]) + ("" if is_all else "…"))
