"""What a typed line means: never a command by mistake, never said by mistake."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.cli.chat.commands import COMMANDS, Do, Nothing, Say, meaning, usage_of
from wakelog.cli.chat.doing import _DOINGS


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("hello", Say("hello")),
        ("  indented", Say("  indented")),
        ("two\nlines\n", Say("two\nlines")),
        ("/etc/passwd is missing", Say("/etc/passwd is missing")),
        ("/Users/me", Say("/Users/me")),
        ("//help", Say("/help")),
        ("", Nothing()),
        (" \n ", Nothing()),
        ("/tree", Do("tree")),
        ("/tree ", Do("tree")),
        ("/", Do("help")),
        ("/?", Do("help")),
        ("/fork", Do("fork")),
        ("/fork  12", Do("fork", "12")),
        ("/rename The  parser", Do("rename", "The  parser")),
        ("/steer first\nsecond", Do("steer", "first\nsecond")),
        ("/compact Keep the names.", Do("compact", "Keep the names.")),
    ],
)
def test_meaning(typed, meant):
    assert meaning(typed) == meant


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("/treee", "there is no command /treee; did you mean /tree?"),
        ("/forkk 12", "there is no command /forkk; did you mean /fork?"),
        ("/exit", "there is no command /exit; did you mean /quit?"),
        ("/resume", "there is no command /resume; did you mean /open?"),
        ("/xyzzy", "there is no command /xyzzy; /help lists them"),
        ("/rename", "/rename TITLE: give the session a title"),
        ("/tree now", "/tree takes nothing behind it"),
    ],
)
def test_what_cannot_be_followed_says_what_to_do(typed, why):
    assert meaning(typed) == Nothing(why)


@given(st.text())
def test_every_text_means_something(typed):
    """A message keeps every word; nothing that begins like a command is said."""
    found = meaning(typed)
    if isinstance(found, Say):
        assert found.text == typed.strip("\n") or "/" + found.text == typed.strip("\n")
        assert found.text.strip()


def test_every_command_is_done_and_explained():
    assert list(COMMANDS) == list(_DOINGS)
    assert all(command.help and len(usage_of(command)) <= 24 for command in COMMANDS.values())
