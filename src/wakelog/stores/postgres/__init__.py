"""The PostgreSQL store: `tables.py` and `adding.py` hold its statements, `pool.py` its connections."""

from wakelog.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
