"""docs/library.md and docs/async.md are run: its programs print what they say, and every name in it exists."""

import importlib
import re
from pathlib import Path

import pytest

from tests.loopback.model_answers import Say
from tests.loopback.models import ModelServer
from tests.programs import check_printed, programs
from wakelog import errors
from wakelog.ports import catalogs, runtime, stores

PROGRAMS = [*programs("library.md"), *programs("async.md")]
TEXT = (Path(__file__).parent.parent / "docs" / "library.md").read_text()


def test_there_are_programs():
    assert len(PROGRAMS) == 7


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_prints_its_last_comment(program, tmp_path):
    with ModelServer(without_tools=True) as server:
        server.play([Say("Three degrees.")])
        model = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k", "NO_PROXY": "127.0.0.1"}
        check_printed(program, tmp_path, model)


def test_every_port_and_suite_is_there():
    """The table of ports names protocols and suites that exist."""
    rows = re.findall(r"^\| (`.*?`) \|.*\| (.*?) \|$", TEXT, re.MULTILINE)
    assert len(rows) == 6
    for named, suites in rows:
        for name in re.findall(r"`(\w+)`", named):
            assert any(hasattr(port, name) for port in (catalogs, runtime, stores)), name
        for suite in re.findall(r"`(\w+)`", suites):
            importlib.import_module(f"wakelog.testing.{suite}")


def test_every_module_and_error_is_there():
    for name in re.findall(r"`(wakelog\.[\w.]+)`", TEXT):
        module, _, last = name.rpartition(".")
        assert last[0].islower() or hasattr(importlib.import_module(module), last), name
        if last[0].islower():
            importlib.import_module(name)
    raised = TEXT[TEXT.index("## Errors") :]
    assert all(hasattr(errors, name) for name in re.findall(r"`([A-Z]\w+)`", raised))
