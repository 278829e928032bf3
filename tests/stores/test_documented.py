"""docs/stores.md is run: its programs print what they say, and every address in its table opens."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from wakelog.stores import open_store

TEXT = (Path(__file__).parents[2] / "docs" / "stores.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_there_are_programs():
    assert len(PROGRAMS) == 2


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_prints_its_last_comment(program, tmp_path):
    said = re.search(r"(?:^# .*\n)+\Z", program, re.MULTILINE)[0]
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (re.sub(r"^# ", "", said, flags=re.MULTILINE), "")


def test_every_address_opens(tmp_path, monkeypatch, postgres_url):
    """ST-4: the word before the colon says which store it is, and there are no others."""
    monkeypatch.chdir(tmp_path)
    kinds = re.findall(r"^\| [\w ]+ \| .*?`(\w+):.*?` .*?\|", TEXT, re.MULTILINE)
    assert kinds == ["jsonl", "sqlite", "postgresql", "memory"]
    for address in ("jsonl:folder", "folder", "sqlite:file.db", "memory:", postgres_url):
        store = open_store(address)
        assert list(store.sessions()) == []
        store.close()
    assert list(tmp_path.iterdir()) == []
