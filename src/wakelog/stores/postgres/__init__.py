"""PostgreSQL store. `tables.py` and `adding.py` have the SQL statements, `pool.py` the connections."""

from wakelog.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
