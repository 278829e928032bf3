"""The schemas of the databases: numbered files of SQL, applied in their order, each once.

A file that has been released is never changed; what is to be different goes into the next one.
"""

import os
import re
from collections.abc import Iterator
from functools import cache

import msgspec

_NAME = re.compile(r"(\d{3})_[a-z_]+\.sql")


class Migration(msgspec.Struct, frozen=True):
    """One step from a version to the next."""

    version: int
    name: str
    sql: str


@cache
def migrations(kind: str) -> tuple[Migration, ...]:
    """All steps of one kind of database, the first one first."""
    return tuple(sorted(_read(os.path.join(os.path.dirname(__file__), "schema", kind)), key=lambda step: step.version))


def _read(folder: str) -> Iterator[Migration]:
    for name in os.listdir(folder):
        found = _NAME.fullmatch(name)
        if found:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                yield Migration(int(found[1]), name, file.read())


def newest(kind: str) -> int:
    """The version that this wakelog writes."""
    return migrations(kind)[-1].version
