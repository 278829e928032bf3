"""Figures of the fault rigs: each rig records what it planned, applied and found; the run writes a table of them.

A rig records one `Figure` for each of its runs. With `--write-figures` (`make test-faults`) the table in
`docs/reliability.md` is replaced with those of this run; the rows of rigs that did not run are left as they are.
"""

import datetime as dt
import os
import re
from collections.abc import Callable

import msgspec
import pytest

DOCUMENT = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "reliability.md")
_BEGIN, _END = "<!-- figures: written by `make test-faults` -->", "<!-- end of figures -->"
_HEAD = "| rig | store | faults planned | applied | acknowledged | runs that lost some | day |\n" + "|---" * 7 + "|\n"
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|.*$", re.MULTILINE)


class Figure(msgspec.Struct, frozen=True):
    """What one run of a rig came to: `lost` counts the faults behind which something acknowledged was missing.

    A control is a rig of its own, whose name says so: it must lose something.
    """

    rig: str
    store: str
    planned: int
    applied: int
    acknowledged: int
    lost: int

    def row(self, day: str) -> str:
        """The figure as a row of the table."""
        counts = f"{self.planned:,} | {self.applied:,} | {self.acknowledged:,} | {self.lost:,}"
        return f"| {self.rig} | {self.store} | {counts} | {day} |"


_FIGURES = pytest.StashKey[list[Figure]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-figures", action="store_true", help="write the figures of the fault rigs into the docs")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FIGURES] = []


@pytest.fixture
def record(pytestconfig: pytest.Config) -> Callable[[Figure], None]:
    """Records a figure of a rig. A fault that was planned and not applied fails the test: it proves nothing."""

    def keep(figure: Figure) -> None:
        assert figure.applied == figure.planned, figure
        pytestconfig.stash[_FIGURES].append(figure)

    return keep


def pytest_sessionfinish(session: pytest.Session) -> None:
    figures = session.config.stash.get(_FIGURES, [])
    if figures and session.config.getoption("--write-figures"):
        write(figures, dt.datetime.now(dt.UTC).date().isoformat())


def write(figures: list[Figure], day: str, path: str = DOCUMENT) -> None:
    """Replaces the rows of these rigs in the table of a document; other rows stay."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(_BEGIN)
    table, after = rest.split(_END)
    rows = {(found[1], found[2]): found[0] for found in _ROW.finditer(table) if found[1] not in ("rig", "---")}
    rows |= {(figure.rig, figure.store): figure.row(day) for figure in figures}
    lines = "".join(f"{rows[key]}\n" for key in sorted(rows))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{_BEGIN}\n{_HEAD}{lines}{_END}{after}")
