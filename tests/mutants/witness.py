"""A pytest plugin for runs with a mutant: it checks which source is imported, and records the outcome of each test.

It is loaded by name (`-p tests.mutants.witness`) and reads two variables: where wakelog must come from, and
where to write. Generated examples are the same on every run and are not shrunk: red is all that is asked.
"""

import json
import os

import hypothesis
import pytest
from hypothesis import Phase

import wakelog

FROM = "WAKELOG_MUTANT_FROM"
REPORT = "WAKELOG_MUTANT_REPORT"
ended: dict[str, str] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Check, before any test, that the planted source is imported."""
    expected = os.environ[FROM]
    assert str(wakelog.__file__).startswith(expected + os.sep), f"{wakelog.__file__} is tested, not {expected}"
    phases = [Phase.explicit, Phase.generate]
    hypothesis.settings.register_profile("mutants", phases=phases, derandomize=True, database=None, deadline=None)
    hypothesis.settings.load_profile("mutants")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """The outcome of a test is the worst of its phases."""
    if report.failed or report.nodeid not in ended:
        ended[report.nodeid] = "red" if report.failed else "green"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the outcomes."""
    with open(os.environ[REPORT], "w", encoding="utf-8") as file:
        json.dump(ended, file)
