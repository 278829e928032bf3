"""Run the tests that a mutant names against a copy of the source with that mutant in it, and check that they fail.

A mutant is dead if every test it names turned red. A run in which a named test was not even collected, or
which did not come to an end, proves nothing and counts as survival.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from tests.mutants.mutant import ROOT, Mutant, plant
from tests.mutants.witness import FROM, REPORT
from tests.patience import PATIENCE_VARIABLE

PATIENCE_S = 300
# A test that waits in vain because of the mutant turns red in time.
_TEST_PATIENCE_S = 60
# All of the tests that any mutant names, one after the other.
_PATIENCE_WITH_ALL_S = 1_800


class Verdict(NamedTuple):
    """The result for a mutant: whether it is dead, and why."""

    mutant: Mutant
    is_dead: bool
    why: str


def judge(mutant: Mutant) -> Verdict:
    """Plant a mutant and run the tests that it names."""
    try:
        ended = tested(mutant, mutant.red, patience_s=PATIENCE_S)
    except (LookupError, RuntimeError) as error:
        return Verdict(mutant, is_dead=False, why=str(error))
    except subprocess.TimeoutExpired:
        return Verdict(mutant, is_dead=False, why=f"its tests hung for {PATIENCE_S} s, and said nothing")
    quiet = [test for test in mutant.red if outcome(ended, test) != "red"]
    if quiet:
        return Verdict(mutant, is_dead=False, why="not red: " + ", ".join(quiet))
    return Verdict(mutant, is_dead=True, why=f"{len(mutant.red)} red")


def green_without(tests: Sequence[str]) -> list[str]:
    """The tests that fail without any mutant; empty, if all pass."""
    ended = tested(None, tests, patience_s=_PATIENCE_WITH_ALL_S)
    return [test for test in tests if outcome(ended, test) != "green"]


def outcome(ended: dict[str, str], test: str) -> str:
    """The outcome of a named test: one with parameters is red if one of its cases is."""
    found = {how for node, how in ended.items() if node == test or node.startswith((test + "[", test + "::"))}
    return "red" if "red" in found else "green" if found else "missing"


def tested(mutant: Mutant | None, tests: Sequence[str], *, patience_s: float) -> dict[str, str]:
    """Run tests with a mutant, or with none; return the outcome of each."""
    with tempfile.TemporaryDirectory(prefix="wakelog-mutant-") as folder:
        report, place = os.path.join(folder, "report"), plant(mutant, folder)
        more = {"PYTHONPATH": os.pathsep.join((place, ROOT)), "PYTHONDONTWRITEBYTECODE": "1"}
        if mutant is not None:
            more[PATIENCE_VARIABLE] = str(_TEST_PATIENCE_S)
        done = subprocess.run(
            [*_PYTEST, "--basetemp", os.path.join(folder, "tmp"), *tests],
            cwd=ROOT,
            env={**os.environ, **more, FROM: place, REPORT: report, "HYPOTHESIS_STORAGE_DIRECTORY": folder},
            capture_output=True,
            text=True,
            timeout=patience_s,
            check=False,
        )
        # 0: all green, 1: some red. Anything else is a run that did not happen.
        if done.returncode not in (0, 1) or not os.path.exists(report):
            raise RuntimeError(f"pytest ended with {done.returncode}: {(done.stdout + done.stderr)[-600:]}")
        with open(report, encoding="utf-8") as file:
            return dict(json.load(file))


_PYTEST = [
    sys.executable,
    "-m",
    "pytest",
    "-q",
    "-p",
    "tests.mutants.witness",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
]
