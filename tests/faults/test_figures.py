"""The table of figures in `docs/reliability.md` is written by the rigs themselves."""

import subprocess

import pytest

from tests.faults.figures import Figure, write
from tests.faults.processes import INTERPRETER, PATIENCE_S, environment

TABLE = "Before.\n<!-- figures: written by `make test-faults` -->\n<!-- end of figures -->\nBehind.\n"


def figure(rig="power cut", store="files", planned=3, applied=3, checked=9, violations=0, control=""):
    return Figure(rig, store, planned, applied, (checked, "entries"), (violations, "lost"), control)


def test_rows_are_replaced_and_others_stay(tmp_path):
    path = tmp_path / "reliability.md"
    path.write_text(TABLE)
    write([figure(), figure(store="SQLite")], "2026-01-01", str(path))
    write([figure(planned=1_300, applied=1_300)], "2026-01-02", str(path))
    text = path.read_text()
    assert text.startswith("Before.\n")
    assert text.endswith("Behind.\n")
    assert "| power cut | files | 1,300 | 1,300 | 9 entries | 0 lost | 2026-01-02 |\n" in text
    assert "| power cut | SQLite | 3 | 3 | 9 entries | 0 lost | 2026-01-01 |\n" in text
    assert text.count("| power cut |") == 2


def test_figures_of_one_rig_and_store_add_up(tmp_path):
    path = tmp_path / "reliability.md"
    path.write_text(TABLE)
    write([figure(), figure(violations=2, control="no sync"), figure(), figure(store="SQLite")], "today", str(path))
    rows = path.read_text().splitlines()[4:-2]
    assert rows == [
        "| power cut | SQLite | 3 | 3 | 9 entries | 0 lost | today |",
        "| power cut | files | 6 | 6 | 18 entries | 0 lost | today |",
        "| power cut (control: no sync) | files | 3 | 3 | 9 entries | 2 lost | today |",
    ]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"applied": 2}, "applied=2"),
        ({"planned": 0, "applied": 0}, "planned=0"),
        ({"checked": 0}, "checked="),
        ({"violations": 1}, "violations="),
        ({"control": "no sync"}, "control='no sync'"),
    ],
    ids=["not applied", "no fault", "nothing checked", "a violation", "a control without one"],
)
def test_a_figure_that_proves_nothing_fails_its_test(wrong, why):
    figure().check()
    figure(violations=1, control="no sync").check()
    with pytest.raises(AssertionError, match=why):
        figure(**wrong).check()


RIG = """
import pytest
from tests.faults.figures import Figure

@pytest.mark.parametrize("run", range(4))
def test_rig(run, record):
    record(Figure("power cut", "files", 1, 1, (10, "entries"), (0, "lost")))
"""


@pytest.mark.parametrize("processes", ["0", "2"])
def test_figures_of_all_test_processes_are_written(tmp_path, processes):
    """Under xdist each worker process sends its figures to the process that writes the table."""
    (tmp_path / "reliability.md").write_text(TABLE)
    (tmp_path / "test_rig.py").write_text(RIG)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    words = ["-p", "tests.faults.figures", "-n", processes, "--write-figures", "--figures-file", "reliability.md"]
    command = [INTERPRETER, "-m", "pytest", "-q", *words, "test_rig.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), check=False, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout
    assert "| power cut | files | 4 | 4 | 40 entries | 0 lost |" in (tmp_path / "reliability.md").read_text()
