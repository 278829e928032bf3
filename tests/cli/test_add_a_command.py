"""`docs/add-a-command.md` is run: the command and its test work as they are printed there."""

import sys
import types

import pytest

from tests.programs import programs
from wakelog import cli

MODULE, TEST = programs("add-a-command.md")


@pytest.fixture
def installed(monkeypatch):
    """Add the command of the page to the table of commands."""
    module = types.ModuleType("wakelog.cli.commands.count")
    exec(compile(MODULE, "docs/add-a-command.md", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(cli.COMMANDS, "count", ("commands.count", "Count the messages of a session by role."))


def test_the_page_is_true(installed, shell, story):
    """The printed test passes with the printed module."""
    printed: dict[str, types.FunctionType] = {}
    exec(compile(TEST, "docs/add-a-command.md", "exec"), printed)
    printed["test_messages_are_counted"](shell, story)
