"""The work: the messages that every peer is given, and their size in the storage.

A message is numbered and 1,000 characters long, so that a message that was read can be told from all others.
"""

import glob
import os
import sqlite3

import psycopg

from bench.made import Words
from bench.peers.peer import Kind

SIZE = 1_000
_TABLES = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
"""


def messages(count: int) -> list[str]:
    """Return so many messages, the same ones in every process."""
    words = Words()
    return [f"{number:06} {_prose(words)}"[:SIZE] for number in range(count)]


def _prose(words: Words) -> str:
    text = ""
    while len(text) < SIZE:
        text += words.text(SIZE) + " "
    return text


def stored(kind: Kind, place: str) -> int:
    """Return the bytes in a place: files as they are, databases after a checkpoint, tables with their indexes."""
    if kind == "postgresql":
        with psycopg.connect(place) as db:
            found = db.execute(_TABLES).fetchone()
            assert found is not None
            return int(found[0])
    if kind == "sqlite":
        _checkpoint(place)
    paths = (os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names)
    return sum(os.lstat(path).st_size for path in paths)


def _checkpoint(place: str) -> None:
    for path in glob.glob(os.path.join(place, "*.sqlite")):
        db = sqlite3.connect(path)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        db.close()
