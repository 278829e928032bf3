"""The SQLite store: everything in one file. `tables.py` holds its statements, `file.py` its connections."""

from wakelog.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
