"""SQLite store: all sessions in one file. `tables.py` has the SQL statements, `file.py` the connections."""

from wakelog.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
