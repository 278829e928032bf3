"""Create the catalog tables in SQLite: in an index file, or in a store whose catalog tables were lost.

The statements come from the catalog migrations of the SQLite store, so that the schema is defined in one place.
"""

import sqlite3
from collections.abc import Iterator

from wakelog.stores.catalog.tables import CATALOG_VERSION
from wakelog.stores.database.migrations import migrations

_TABLES = ("catalog", "sessions", "bookmarks", "entries", "words")


def make(db: sqlite3.Connection) -> None:
    """Drop the catalog tables and create empty ones of this version. The caller provides the transaction."""
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
