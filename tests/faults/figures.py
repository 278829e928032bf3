"""Figures of the fault rigs: each rig records what it planned, applied and found; the run writes a table of them.

A test records one `Figure` for each run of its rig. Figures of the same rig and store add up within a run of pytest,
also over the worker processes of xdist. With `--write-figures` (`make test-faults`) their rows in the table of
`docs/reliability.md` are replaced; the rows of rigs that did not run are left as they are.
"""

import datetime as dt
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

DOCUMENT = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "reliability.md")
_BEGIN, _END = "<!-- figures: written by `make test-faults` -->", "<!-- end of figures -->"
_HEAD = "| rig | store | faults planned | applied | checked | violations | day |\n" + "|---" * 7 + "|\n"
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|.*$", re.MULTILINE)


_STORES = {"jsonl": "files", "files": "files", "sqlite": "SQLite", "postgresql": "PostgreSQL"}


def store_name(url: str) -> str:
    """The name of a kind of store in the table, by the URL of a store or its scheme."""
    return _STORES[url.partition(":")[0]]


class Figure(msgspec.Struct, frozen=True):
    """What one run of a rig came to.

    `checked` counts what was looked at after the faults, `violations` what was found to be wrong; both say in words
    what they count. A control runs the rig without the protection: `control` says what was taken away.
    """

    rig: str
    store: str
    planned: int
    applied: int
    checked: tuple[int, str]
    violations: tuple[int, str]
    control: str = ""

    @property
    def name(self) -> str:
        """The name of the row: a control comes after its rig."""
        return f"{self.rig} (control: {self.control})" if self.control else self.rig

    def check(self) -> None:
        """Fails if a fault was not applied, a rule was violated, or a control found nothing: it proves nothing."""
        assert self.applied == self.planned > 0, self
        assert self.checked[0] > 0, self
        assert bool(self.violations[0]) == bool(self.control), self

    def plus(self, other: "Figure") -> "Figure":
        """Both figures, of the same rig and store, as one."""
        assert self.checked[1] == other.checked[1], (self, other)
        assert self.violations[1] == other.violations[1], (self, other)
        return msgspec.structs.replace(
            self,
            planned=self.planned + other.planned,
            applied=self.applied + other.applied,
            checked=(self.checked[0] + other.checked[0], self.checked[1]),
            violations=(self.violations[0] + other.violations[0], self.violations[1]),
        )

    def row(self, day: str) -> str:
        """The figure as a row of the table."""
        (checked, unit), (violations, violation) = self.checked, self.violations
        counts = f"{self.planned:,} | {self.applied:,} | {checked:,} {unit} | {violations:,} {violation}"
        return f"| {self.name} | {self.store} | {counts} | {day} |"


_FIGURES = pytest.StashKey[list[Figure]]()
Record = Callable[[Figure], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-figures", action="store_true", help="write the figures of the fault rigs into the docs")
    parser.addoption("--figures-file", default=DOCUMENT, help="the document whose table is written")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FIGURES] = []


@pytest.fixture
def record(pytestconfig: pytest.Config) -> Record:
    """Records a figure of a rig, and fails the test if the figure proves nothing or shows a violation."""

    def keep(figure: Figure) -> None:
        pytestconfig.stash[_FIGURES].append(figure)
        figure.check()

    return keep


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    figures = config.stash.get(_FIGURES, [])
    if hasattr(config, "workeroutput"):
        config.workeroutput["figures"] = msgspec.json.encode(figures).decode()
    elif figures and config.getoption("--write-figures"):
        write(figures, dt.datetime.now(dt.UTC).date().isoformat(), config.getoption("--figures-file"))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker process of xdist has ended: its figures are added to those of this process."""
    sent = getattr(node, "workeroutput", {}).get("figures", "[]")
    node.config.stash[_FIGURES] += msgspec.json.decode(sent, type=list[Figure])


def added_up(figures: Iterable[Figure]) -> dict[tuple[str, str], Figure]:
    """One figure for each rig and store."""
    sums: dict[tuple[str, str], Figure] = {}
    for figure in figures:
        key = (figure.name, figure.store)
        sums[key] = sums[key].plus(figure) if key in sums else figure
    return sums


def write(figures: Iterable[Figure], day: str, path: str = DOCUMENT) -> None:
    """Replaces the rows of these rigs in the table of a document; other rows stay."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(_BEGIN)
    table, after = rest.split(_END)
    rows = {(found[1], found[2]): found[0] for found in _ROW.finditer(table) if found[1] not in ("rig", "---")}
    rows |= {key: figure.row(day) for key, figure in added_up(figures).items()}
    lines = "".join(f"{rows[key]}\n" for key in sorted(rows))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{_BEGIN}\n{_HEAD}{lines}{_END}{after}")
