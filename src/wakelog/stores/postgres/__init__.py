"""PostgreSQL store. `tables.py` and `appends.py` have the SQL statements, `connections.py` the connections."""

from wakelog.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
