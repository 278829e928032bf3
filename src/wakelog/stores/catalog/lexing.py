"""The words of a text as FTS5 cuts them, for a database that would cut them otherwise.

PostgreSQL has parsers of its own, which depend on the locale of the server and take paths, numbers and tags apart in
their own way. So texts are cut here, in a SQLite that holds nothing: what one store finds, all stores find. Its
excerpts come from there too.
"""

import sqlite3
from collections.abc import Sequence

from wakelog.stores.catalog.excerpts import SNIPPET, beginning, tidy

_TABLES = (
    "CREATE VIRTUAL TABLE cut USING fts5 (text, content = '', columnsize = 0, tokenize = 'unicode61')",
    "CREATE VIRTUAL TABLE tokens USING fts5vocab (cut, instance)",
    "CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'unicode61')",
)
_ROWS = """
SELECT doc, group_concat(term, ' ') FROM (SELECT doc, term FROM tokens ORDER BY doc, offset) GROUP BY doc
"""
_EXCERPT = "SELECT " + SNIPPET + " FROM words WHERE words MATCH ?"  # noqa: S608 - constants


class Lexing:
    """A SQLite in memory that cuts texts."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        # A word of more than 32 KiB is cut, and that may be in the middle of a character.
        self._db.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for statement in _TABLES:
            self._db.execute(statement)

    def folded(self, texts: Sequence[str]) -> list[str]:
        """The words of each text in their order, folded (no capitals, no accents), with a space between two."""
        self._db.execute("BEGIN")
        try:
            self._db.executemany("INSERT INTO cut (rowid, text) VALUES (?, ?)", list(enumerate(texts)))
            found = dict(self._db.execute(_ROWS))
        finally:
            self._db.execute("ROLLBACK")
        return [found.get(at, "") for at in range(len(texts))]

    def excerpt(self, text: str, match: str) -> str:
        """The place in a text that an FTS5 expression finds; its beginning if there is none."""
        self._db.execute("BEGIN")
        try:
            self._db.execute("INSERT INTO words (text) VALUES (?)", (text,))
            found = self._db.execute(_EXCERPT, (match,)).fetchone()
        finally:
            self._db.execute("ROLLBACK")
        return tidy(found[0]) if found is not None else beginning(text)

    def close(self) -> None:
        """Lets go of it."""
        self._db.close()
