"""Code shared by the SQLite and PostgreSQL stores: `ports.Store` over rows of bytes, and the schema migrations."""
