"""`make bench-peers` still measures wakelog, with tiny sizes; no assertion is about time.

The other libraries are not installed where tests run; each of them is then a line of the table that says so.
"""

import importlib.util
import tempfile

import pytest

from bench.peers import __main__ as peers
from bench.peers import server
from bench.peers.__main__ import ROOT, Sizes, measure
from bench.peers.one import Result
from bench.peers.peer import FLOORS, ROWS
from bench.peers.server import stop_amid
from bench.peers.table import section

TINY = Sizes(count=6, rounds=1)
OURS = [row for row in (*FLOORS.values(), *ROWS) if row.is_ours]
OTHERS = [row for row in ROWS if not row.is_ours]
LIBRARIES = {
    "langgraph_saver": "langchain_core",
    "openai_session": "agents",
    "adk_service": "google.adk",
    "eventsourcing_app": "eventsourcing",
}


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def _checked(row, result):
    assert isinstance(result, Result), f"{row.name}: {result}"
    assert result.name == row.name
    assert len(result.append.runs) == TINY.count
    assert result.stored > 0
    assert result.lasting.acknowledged > 0
    assert result.lasting.lost == 0
    assert (result.fork is None) == (row in FLOORS.values())


@pytest.mark.strace
@pytest.mark.parametrize("row", [row for row in OURS if row.kind != "postgresql"], ids=lambda row: row.name)
def test_wakelog_and_the_floors_are_measured(row, tmp_path):
    result = measure(row, str(tmp_path), lambda: tempfile.mkdtemp(dir=tmp_path), TINY)
    _checked(row, result)
    assert row.title in section({row: result}, {}, {"cores": "2"}, full=False)


def test_rows_on_postgresql_are_measured_and_keep_what_they_acknowledged(own_postgres, tmp_path, monkeypatch):
    monkeypatch.setattr(server, "_STOP_AFTER", 5)
    monkeypatch.setattr(server, "_EVERYTHING", 1_000)
    rows = [row for row in OURS if row.kind == "postgresql"]
    found = {row: measure(row, str(tmp_path), own_postgres.new_database, TINY) for row in rows}
    for row, result in found.items():
        _checked(row, result)
    stops = stop_amid(own_postgres, rows)
    assert {name: stop.lost for name, stop in stops.items()} == {row.name: 0 for row in rows}
    assert "stop: 0 of" in section(found, stops, {"cores": "2"}, full=False)


@pytest.mark.parametrize("row", OTHERS, ids=lambda row: row.name)
def test_a_library_that_is_not_installed_is_a_line_of_the_table(row, tmp_path):
    library = LIBRARIES[row.module]
    if _is_installed(library):
        pytest.fail(f"{library} is installed here: this test is about its absence")
    result = measure(row, str(tmp_path), lambda: "", TINY)
    assert result == f"not installed: {library.partition('.')[0]}"
    assert f"| {row.title} | did not work here: {result} |" in section({row: result}, {}, {"cores": "2"}, full=False)


def test_without_wakelog_nothing_is_written(monkeypatch):
    """A table without wakelog's own rows would be useless, so it is an error."""
    monkeypatch.setattr("sys.argv", ["bench.peers"])
    monkeypatch.setattr(peers, "measure_all", lambda *given: ({OURS[-1]: "it moved"}, {}, "17"))
    monkeypatch.setattr(peers, "write_section", lambda text: pytest.fail("a section was written"))
    with pytest.raises(SystemExit, match=r"nothing is written: wakelog-postgresql \(it moved\)"):
        peers.main()


def _is_installed(library):
    try:
        return importlib.util.find_spec(library) is not None
    except ModuleNotFoundError:
        return False
