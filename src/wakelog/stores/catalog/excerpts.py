"""Excerpts: a line of text around what matched, which stands in «». FTS5 cuts them; no text makes one long."""

EXCERPT_MAX_CHARS = 400
_WORDS = 24
SNIPPET = "snippet(words, 0, '«', '»', '…', 24)"
# As much of a text as its beginning can need.
BEGINNING_CHARS = 8 * EXCERPT_MAX_CHARS


def tidy(snippet: str) -> str:
    """What FTS5 cut, on one line; where its words are endless, what is near the first match."""
    excerpt = " ".join(snippet.split())
    if len(excerpt) <= EXCERPT_MAX_CHARS:
        return excerpt
    start = max(0, excerpt.find("«") - EXCERPT_MAX_CHARS // 4)
    piece = excerpt[start : start + EXCERPT_MAX_CHARS - 3]
    is_open = piece.rfind("«") > piece.rfind("»")
    return f"{'…' if start else ''}{piece}{'»' if is_open else ''}…"


def beginning(text: str) -> str:
    """The first words of a text in which nothing was looked for; `BEGINNING_CHARS` of it are enough."""
    words = text[:BEGINNING_CHARS].split()
    is_all = len(words) <= _WORDS and len(text) < BEGINNING_CHARS
    return tidy(" ".join(words[:_WORDS]) + ("" if is_all else "…"))
