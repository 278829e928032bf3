"""Schema migrations: numbered SQL files, each applied once, in order.

A released file is never changed; changes go into a new file.
"""

import os
import re
from collections.abc import Iterator
from functools import cache

import msgspec

_NAME = re.compile(r"(\d{3})_[a-z_]+\.sql")


class Migration(msgspec.Struct, frozen=True):
    """The step to one schema version."""

    version: int
    name: str
    sql: str


@cache
def migrations(kind: str) -> tuple[Migration, ...]:
    """All migrations of one kind of database, in order."""
    return tuple(sorted(_read(os.path.join(os.path.dirname(__file__), "schema", kind)), key=lambda step: step.version))


def _read(folder: str) -> Iterator[Migration]:
    for name in os.listdir(folder):
        found = _NAME.fullmatch(name)
        if found:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                yield Migration(int(found[1]), name, file.read())


def newest(kind: str) -> int:
    """The schema version of this wakelog."""
    return migrations(kind)[-1].version
