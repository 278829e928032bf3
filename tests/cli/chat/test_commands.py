"""The meaning of a typed line: a message is never taken for a command, nor a command for a message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.cli.chat.commands import ACTIONS, COMMANDS, IgnoredLine, RunCommand, SendMessage, command_usage, parse_line


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("hello", SendMessage("hello")),
        ("  indented", SendMessage("  indented")),
        ("two\nlines\n", SendMessage("two\nlines")),
        ("/etc/passwd is missing", SendMessage("/etc/passwd is missing")),
        ("/Users/me", SendMessage("/Users/me")),
        ("//help", SendMessage("/help")),
        ("", IgnoredLine()),
        (" \n ", IgnoredLine()),
        ("/tree", RunCommand("tree")),
        ("/tree ", RunCommand("tree")),
        ("/", RunCommand("help")),
        ("/?", RunCommand("help")),
        ("/fork", RunCommand("fork")),
        ("/fork  12", RunCommand("fork", "12")),
        ("/rename The  parser", RunCommand("rename", "The  parser")),
        ("/steer first\nsecond", RunCommand("steer", "first\nsecond")),
        ("/compact Keep the names.", RunCommand("compact", "Keep the names.")),
    ],
)
def test_meaning(typed, meant):
    assert parse_line(typed) == meant


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("/treee", "unknown command /treee; did you mean /tree?"),
        ("/forkk 12", "unknown command /forkk; did you mean /fork?"),
        ("/exit", "unknown command /exit; did you mean /quit?"),
        ("/resume", "unknown command /resume; did you mean /open?"),
        ("/xyzzy", "unknown command /xyzzy; /help lists all"),
        ("/rename", "/rename TITLE: set the session's title"),
        ("/tree now", "/tree takes no argument"),
    ],
)
def test_an_invalid_command_says_what_to_do(typed, why):
    assert parse_line(typed) == IgnoredLine(why)


@given(st.text())
def test_every_text_has_a_meaning(typed):
    """A message keeps every word; a text that begins like a command is never sent."""
    found = parse_line(typed)
    if isinstance(found, SendMessage):
        assert found.text == typed.strip("\n") or "/" + found.text == typed.strip("\n")
        assert found.text.strip()


def test_every_command_has_an_action_and_a_description():
    assert list(COMMANDS) == list(ACTIONS)
    assert all(command.help and len(command_usage(command)) <= 24 for command in COMMANDS.values())
