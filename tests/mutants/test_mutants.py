"""Tests of the mutants: all can be planted, every law and requirement is broken by one.

A few are killed on every run.

`make mutants` plants them all; here a handful shows that planting, importing and judging work.
"""

import ast
import functools
import os

import pytest

from tests.mutants.mutant import ROOT, SOURCE, Mutant, changed
from tests.mutants.run import green_without, judge, outcome
from tests.mutants.table import MUST_BREAK, MUTANTS

QUICK = (
    "the same seq is assigned twice",
    "lines are split at U+2028 too",
    "head entries are ignored",
    "a started tool counts as not started",
    "a new session takes a number in use",
)


SUITES = os.path.join(SOURCE, "wakelog", "testing")


@functools.cache
def text_of(*path: str) -> str:
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


@functools.cache
def names_in(path: str) -> set[str]:
    """The functions of a test file, and of the suites from which a store's test class gets its tests."""
    suites = (text_of(SUITES, file) for file in sorted(os.listdir(SUITES)) if file.endswith("_suite.py"))
    trees = map(ast.parse, (text_of(ROOT, path), *suites))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, kinds)}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_can_be_planted(mutant):
    """A mutant that no longer applies protects nothing: it must follow the code."""
    text = text_of(SOURCE, "wakelog", mutant.file)
    planted = changed(mutant, text)
    assert planted != text
    compile(planted, mutant.file, "exec")
    for test in mutant.red:
        path, *_, name = test.partition("[")[0].split("::")
        assert name in names_in(path), f"{test} is no longer there"


def test_every_row_is_broken_by_one():
    """For each law and requirement met so far there is a planted bug, and no two mutants share a name."""
    broken = {row.strip() for mutant in MUTANTS for row in mutant.breaks.split(",")}
    assert set(MUST_BREAK) - broken == set()
    assert broken - set(MUST_BREAK) == set()
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25


def test_a_mutant_that_does_not_apply_is_an_error():
    """A piece of source that is missing is an error, not a dead mutant."""
    stray = Mutant(
        "stray", "law 1", "log/integrity.py::LogEnd.seal", "nothing", "0", ("tests/log/test_integrity.py::test_places",)
    )
    with pytest.raises(LookupError, match=r"stray: log/integrity\.py: not found in LogEnd\.seal: nothing"):
        changed(stray, text_of(SOURCE, "wakelog", stray.file))
    assert not judge(stray).is_dead


def test_a_harmless_mutant_survives():
    """A change that breaks nothing makes no test fail."""
    harmless = Mutant(
        "harmless",
        "law 1",
        "log/integrity.py::End.__init__",
        "self.seq = -1",
        "self.seq = 0 - 1",
        ("tests/log/test_integrity.py::test_places",),
    )
    assert not judge(harmless).is_dead
    assert green_without(harmless.red) == []


def test_a_missing_test_is_not_red():
    """A run that collected nothing proves nothing."""
    missing = ("tests/log/test_integrity.py::test_that_nobody_wrote",)
    assert not judge(MUTANTS[0]._replace(red=missing)).is_dead
    assert outcome({"tests/a.py::test_b[1]": "green", "tests/a.py::test_b[2]": "red"}, "tests/a.py::test_b") == "red"
    assert outcome({"tests/a.py::test_bc": "red"}, "tests/a.py::test_b") == "missing"


@pytest.mark.parametrize("name", QUICK)
def test_a_few_are_killed_on_every_run(name):
    """Each of these turns the tests it names red."""
    verdict = judge(next(mutant for mutant in MUTANTS if mutant.name == name))
    assert verdict.is_dead, verdict.why
