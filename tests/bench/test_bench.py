"""Every bench still runs, with tiny sizes; no assertion is about time. `make bench` judges speed."""

import math
import os
from types import ModuleType

import pytest

import bench.__main__
from bench import (
    appends,
    commands,
    first_request,
    forks,
    imports,
    loads,
    many_sessions,
    picks,
    redaction,
    sizes,
    startup,
    steps,
    stores,
    tails,
)
from bench.__main__ import ROOT, Sizes, concerns, measure
from bench.report import page

TINY = Sizes(megabytes=(1,), listed=(3,), searched=(10,), picked=12, held=(20,), imported=((3, 1),))
CONSTANTS: dict[ModuleType, dict[str, object]] = {
    appends: {"SYNCED_ROUNDS": 3, "UNSYNCED_ROUNDS": 3},
    commands: {"MESSAGES_A_SESSION": 5, "ROUNDS": 1, "SEARCHES": 1, "COMMON": 0, "RARE": 1},
    first_request: {"ROUNDS": 1},
    forks: {"SIZES": (2, 4, 8), "ROUNDS": 1},
    imports: {"ROUNDS": ((100, 1),)},
    loads: {"MESSAGES": 10, "ROUNDS": 1},
    many_sessions: {"RATES": 1, "COUNTS": (2, 3), "MOST": 3, "ENTRIES": 16},
    picks: {"FEW": 2, "ROUNDS": 1},
    redaction: {"ROUNDS": 1, "TEXTS": ((1_000, 2, 2.0),), "STREAMED": 1, "HOSTILE_SIZES": (100, 1_000)},
    sizes: {"TURNS": 2},
    startup: {"ROUNDS": 1},
    steps: {"TURNS": 2, "HISTORY": 2},
    stores: {
        "ROUNDS": 3,
        "MESSAGES": 20,
        "TAIL": 5,
        "FOUND_SESSIONS": 2,
        "FOUND_MESSAGES": 4,
        "SHOWN": 2,
        "LOADS": 1,
        "FINDS": 1,
    },
    tails: {"ROUNDS": 1},
}
# The number of rows that each bench adds to the document.
FIGURES = {
    "append": 6,
    "files": 9,
    "sqlite": 8,
    "postgres": 8,
    "load": 3,
    "wake": 3,
    "ls": 1,
    "search": 2,
    "pick": 2,
    "memory": 13,
    "startup": 5,
    "request": 1,
    "step": 1,
    "redaction": 7,
    "fork": 2,
    "import": 6,
    "size": 3,
}


@pytest.fixture
def _tiny(monkeypatch, tmp_path):
    for module, values in CONSTANTS.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(ROOT)


@pytest.mark.usefixtures("_tiny")
@pytest.mark.parametrize("name", dict(concerns()))
def test_a_bench_gives_its_figures(name, tmp_path, capsys):
    found = measure(str(tmp_path), TINY, only=name)
    assert len(found) == FIGURES[name]
    for figure in found:
        assert math.isfinite(figure.ratio)
        assert figure.ratio >= 0
        assert figure.measured
        assert figure.what in page(found, str(tmp_path), full=False)
    assert len([line for line in capsys.readouterr().out.splitlines() if "goal" in line]) == len(found)
    assert not os.path.exists(tmp_path / "0")


def test_one_bench_alone_writes_no_document(monkeypatch, capsys):
    """`python -m bench --only NAME`: only a whole run writes the document."""
    monkeypatch.setattr("sys.argv", ["bench", "--only", "redaction"])
    monkeypatch.setattr(bench.__main__, "USUAL", TINY)
    monkeypatch.setattr(bench.__main__, "cache_bytecode", lambda folder: None)
    monkeypatch.setattr(bench.__main__, "write_page", lambda *given: pytest.fail("a document was written"))
    for name, value in CONSTANTS[redaction].items():
        monkeypatch.setattr(redaction, name, value)
    bench.__main__.main()
    assert f"{FIGURES['redaction']} figures" in capsys.readouterr().out
