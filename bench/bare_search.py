"""The floor of `search`: sqlite3 alone, the same FTS5 query with its excerpts over the same text, the hits printed."""

import json
import sqlite3
import sys

_QUERY = """
SELECT s.id, s.name, e.id, e.type, e.timestamp, snippet(words, 0, '«', '»', '…', 24)
FROM words JOIN entries AS e ON e.rowid = words.rowid JOIN sessions AS s ON s.key = e.session
WHERE words MATCH ? ORDER BY rank LIMIT 50
"""


def search(database: str, word: str) -> None:
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    keys = ("session", "name", "entry", "type", "timestamp", "excerpt")
    for hit in db.execute(_QUERY, (f'"{word}"',)):
        print(json.dumps(dict(zip(keys, hit, strict=True)), ensure_ascii=False))


if __name__ == "__main__":
    search(*sys.argv[1:])
