"""A mutant is one planted bug: a piece of a function is replaced in a copy of the source.

The piece is found by its syntax tree (`locate.py`), so layout, comments and messages may change around it.
"""

import os
import shutil
from typing import NamedTuple

from tests.mutants.locate import NotFound, replaced

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCE = os.path.join(ROOT, "src")


class Mutant(NamedTuple):
    """One bug. `breaks` are the laws and requirement rows it offends; `red` the tests that must fail with it.

    `place` is a file below `src/wakelog` and the innermost function or class around the change, as in
    `log/integrity.py::LogEnd.seal`; the file alone stands for its module level. `locate.py` describes `old` and `new`.
    """

    name: str
    breaks: str
    place: str
    old: str
    new: str
    red: tuple[str, ...]
    occurrence: int | None = None

    @property
    def file(self) -> str:
        """The changed file, relative to `src/wakelog`."""
        return self.place.partition("::")[0]


def plant(mutant: Mutant | None, folder: str) -> str:
    """Copy the source to a folder, with the mutant in it (or without any); return the path to import from."""
    place = os.path.join(folder, "src")
    shutil.copytree(SOURCE, place, ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is not None:
        path = os.path.join(place, "wakelog", mutant.file)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(changed(mutant, text))
    return place


def changed(mutant: Mutant, text: str) -> str:
    """Return a source text with the bug in it."""
    try:
        return replaced(text, mutant.place.partition("::")[2], mutant.old, mutant.new, mutant.occurrence)
    except NotFound as error:
        raise NotFound(f"{mutant.name}: {mutant.file}: {error}") from None
