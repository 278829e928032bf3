"""docs/stores.md is run: its programs print what they state, and every address in its table opens."""

import re
from pathlib import Path

import pytest

from tests.programs import check_printed, programs
from wakelog.errors import UsageError
from wakelog.stores import open_store
from wakelog.stores.urls import SCHEMES

TEXT = (Path(__file__).parents[2] / "docs" / "stores.md").read_text()
PROGRAMS = programs("stores.md")


def test_there_are_programs():
    assert len(PROGRAMS) == 2


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_prints_its_last_comment(program, tmp_path):
    check_printed(program, tmp_path)


def test_every_address_opens(tmp_path, monkeypatch, postgres_url):
    """ST-6: the scheme before the colon selects the store, and there are no others."""
    monkeypatch.chdir(tmp_path)
    kinds = re.findall(r"^\| [\w ]+ \| .*?`(\w+):.*?` .*?\|", TEXT, re.MULTILINE)
    assert kinds == [scheme.name for scheme in SCHEMES]
    paths = [f"{scheme.name}:place-{scheme.name}" for scheme in SCHEMES if scheme.is_path]
    for address in ("folder", "memory:", postgres_url, *paths):
        store = open_store(address)
        assert list(store.sessions()) == []
        store.close()
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_scheme_is_refused(tmp_path, monkeypatch):
    """ST-6: a typing error creates no folder; an existing folder may have any name."""
    monkeypatch.chdir(tmp_path)
    for address in ("sqlit:file.db", "gopher://x", "a:b"):
        with pytest.raises(UsageError, match="unknown store scheme"):
            open_store(address)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a:b").mkdir()
    assert list(open_store("a:b").sessions()) == []
