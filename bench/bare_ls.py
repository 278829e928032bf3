"""The floor of `ls`: click and sqlite3, the files' stats compared with the stored ones, one query, the rows printed."""

import os
import sqlite3
import sys

import click


@click.command()
@click.argument("store")
@click.argument("database")
def ls(store: str, database: str) -> None:
    db = sqlite3.connect(database)
    known = {name: (size, changed) for name, size, changed in db.execute("SELECT name, size, changed FROM files")}
    with os.scandir(store) as entries:
        for entry in entries:
            if entry.name.endswith(".jsonl"):
                found = entry.stat(follow_symlinks=False)
                if known.pop(entry.name[:-6], None) != (found.st_size, found.st_mtime_ns):
                    sys.exit("the floor's table is not up to date")
    rows = db.execute("SELECT row FROM files ORDER BY updated DESC, name")
    sys.stdout.buffer.write(b"".join(row + b"\n" for (row,) in rows))


if __name__ == "__main__":
    ls()
