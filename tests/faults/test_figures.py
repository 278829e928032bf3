"""The table of figures in `docs/reliability.md` is written by the rigs themselves."""

import pytest

from tests.faults.figures import Figure, write


def figure(**given):
    return Figure(
        **{
            "rig": "power cut",
            "store": "files",
            "planned": 3,
            "applied": 3,
            "acknowledged": 9,
            "lost": 0,
        }
        | given
    )


def test_rows_are_replaced_and_others_stay(tmp_path):
    path = tmp_path / "reliability.md"
    path.write_text("Before.\n<!-- figures: written by `make test-faults` -->\n<!-- end of figures -->\nBehind.\n")
    write([figure(), figure(store="SQLite")], "2026-01-01", str(path))
    write([figure(planned=1_300, applied=1_300)], "2026-01-02", str(path))
    text = path.read_text()
    assert text.startswith("Before.\n")
    assert text.endswith("Behind.\n")
    assert "| power cut | files | 1,300 | 1,300 | 9 | 0 | 2026-01-02 |\n" in text
    assert "| power cut | SQLite | 3 | 3 | 9 | 0 | 2026-01-01 |\n" in text
    assert text.count("| power cut |") == 2


def test_a_rig_that_applies_fewer_faults_than_planned_fails(record):
    with pytest.raises(AssertionError, match="applied=2"):
        record(figure(applied=2))
