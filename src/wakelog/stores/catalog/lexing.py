"""Tokenise text as SQLite FTS5 does, for databases with another tokeniser.

PostgreSQL's parsers depend on the locale of the server and split paths, numbers and tags differently. Texts are
tokenised here, in an empty in-memory SQLite database, so that all stores find the same entries. Excerpts are cut here
too.
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
    """An in-memory SQLite database that tokenises texts."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        # FTS5 cuts a word of more than 32 KiB, possibly in the middle of a character.
        self._db.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for statement in _TABLES:
            self._db.execute(statement)

    def folded(self, texts: Sequence[str]) -> list[str]:
        """Return the tokens of each text in order, separated by spaces, in lower case and without accents."""
        self._db.execute("BEGIN")
        try:
            self._db.executemany("INSERT INTO cut (rowid, text) VALUES (?, ?)", list(enumerate(texts)))
            found = dict(self._db.execute(_ROWS))
        finally:
            self._db.execute("ROLLBACK")
        return [found.get(at, "") for at in range(len(texts))]

    def excerpt(self, text: str, match: str) -> str:
        """Return the part of a text that an FTS5 expression matches; its beginning if there is no match."""
        self._db.execute("BEGIN")
        try:
            self._db.execute("INSERT INTO words (text) VALUES (?)", (text,))
            found = self._db.execute(_EXCERPT, (match,)).fetchone()
        finally:
            self._db.execute("ROLLBACK")
        return tidy(found[0]) if found is not None else beginning(text)

    def close(self) -> None:
        """Close the database."""
        self._db.close()
