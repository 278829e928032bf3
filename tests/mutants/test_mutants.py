"""The mutants themselves: all can be planted, all rows are broken by one, and a few are killed on every run.

`make mutants` plants them all; here a handful shows that planting, importing and judging work.
"""

import os

import pytest

from tests.mutants.mutant import ROOT, SOURCE, Mutant, changed
from tests.mutants.run import green_without, judge, outcome
from tests.mutants.table import MUST_BREAK, MUTANTS

QUICK = (
    "the same seq twice",
    "lines split at U+2028 too",
    "head entries are ignored",
    "a started tool counts as not begun",
    "a creator takes over a number in use",
)


def text_of(*path: str) -> str:
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_can_be_planted(mutant):
    """A mutant that no longer applies protects nothing: it must follow the code."""
    text = text_of(SOURCE, "wakelog", mutant.file)
    assert changed(mutant, text) != text
    compile(changed(mutant, text), mutant.file, "exec")
    for test in mutant.red:
        path, *_, name = test.partition("[")[0].split("::")
        # A store's own test class gets its tests from a suite that all stores share.
        folder = os.path.join(SOURCE, "wakelog", "testing")
        suites = [text_of(folder, file) for file in sorted(os.listdir(folder)) if file.endswith("_suite.py")]
        written = text_of(ROOT, path) + "".join(suites)
        assert f"def {name}(" in written, f"{test} is no longer there"


def test_every_row_is_broken_by_one():
    """For each law and requirement met so far there is a planted bug, and no two mutants share a name."""
    broken = {row.strip() for mutant in MUTANTS for row in mutant.breaks.split(",")}
    assert set(MUST_BREAK) - broken == set()
    assert broken - set(MUST_BREAK) == set()
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25


def test_a_mutant_that_does_not_apply_fails_loudly():
    """Exact text or nothing."""
    stray = Mutant("stray", "law 1", "log/end.py", "no such text", "", ("tests/log/test_end.py::test_places",))
    with pytest.raises(LookupError):
        changed(stray, "some other text")
    assert not judge(stray).is_dead


def test_a_harmless_mutant_survives():
    """The judge can say no: a change that breaks nothing kills no test."""
    harmless = Mutant(
        "harmless", "law 1", "log/end.py", "self.seq = -1", "self.seq = 0 - 1", ("tests/log/test_end.py::test_places",)
    )
    assert not judge(harmless).is_dead
    assert green_without(harmless.red) == []


def test_a_test_that_is_not_there_is_not_red():
    """A run that collected nothing proves nothing."""
    missing = ("tests/log/test_end.py::test_that_nobody_wrote",)
    assert not judge(MUTANTS[0]._replace(red=missing)).is_dead
    assert outcome({"tests/a.py::test_b[1]": "green", "tests/a.py::test_b[2]": "red"}, "tests/a.py::test_b") == "red"
    assert outcome({"tests/a.py::test_bc": "red"}, "tests/a.py::test_b") == "missing"


@pytest.mark.parametrize("name", QUICK)
def test_a_few_are_killed_on_every_run(name):
    """Each of these turns the tests it names red."""
    verdict = judge(next(mutant for mutant in MUTANTS if mutant.name == name))
    assert verdict.is_dead, verdict.why
