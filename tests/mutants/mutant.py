"""What a mutant is, and how it is planted: one exact replacement in a copy of the source."""

import os
import shutil
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCE = os.path.join(ROOT, "src")


class Mutant(NamedTuple):
    """One bug. `breaks` are the laws and requirement rows it offends; `red` the tests that must say so."""

    name: str
    breaks: str
    file: str
    old: str
    new: str
    red: tuple[str, ...]


def plant(mutant: Mutant | None, folder: str) -> str:
    """Copies the source to a folder, with the mutant in it (or without any); gives the path to import from."""
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
    """A source text with the bug in it."""
    found = text.count(mutant.old)
    if found != 1:
        raise LookupError(f"{mutant.name}: its piece of {mutant.file} is there {found} times: let it follow the code")
    return text.replace(mutant.old, mutant.new)
