"""The tables of a catalog in SQLite, made anew: in a file of their own, or where those of a store were lost.

They are what the migrations of a SQLite store say of the catalog, so that there is one description of them.
"""

import sqlite3
from collections.abc import Iterator

from wakelog.stores.catalog.tables import CATALOG_VERSION
from wakelog.stores.database.migrations import migrations

_TABLES = ("catalog", "sessions", "bookmarks", "entries", "words")


def make(db: sqlite3.Connection) -> None:
    """Empty tables of this version, whatever stood there; inside a transaction of the caller's."""
    for table in _TABLES:
        db.execute(f"DROP TABLE IF EXISTS {table}")
    for step in migrations("sqlite"):
        if step.name.endswith("catalog.sql"):
            for statement in _statements(step.sql):
                db.execute(statement)
    db.execute("UPDATE catalog SET version = ?", (CATALOG_VERSION,))


def _statements(sql: str) -> Iterator[str]:
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
