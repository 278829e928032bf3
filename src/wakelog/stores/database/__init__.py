"""What SQLite and PostgreSQL share: the whole port over rows of bytes, and the schemas of their tables."""
