"""Errors: one line with what happened and what to do, and an exit code; never a traceback."""

import os

import pytest

from wakelog.cli import COMMANDS
from wakelog.cli.main import _SUGGESTIONS
from wakelog.cli.ui.errors import exit_code
from wakelog.errors import BadId, BadQuery, Conflict, Damaged, LeaseLost, NewerFormat, NotFound, StoreError, UsageError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (UsageError("x"), 2),
        (BadId("x"), 2),
        (BadQuery("x"), 2),
        (NotFound("x"), 3),
        (Conflict("x"), 5),
        (LeaseLost("x"), 5),
        (StoreError("x"), 1),
        (Damaged("x"), 1),
        (NewerFormat("x"), 1),
        (OSError("x"), 1),
        (ZeroDivisionError(), 1),
    ],
)
def test_exit_codes(error, code):
    assert exit_code(error) == code


@pytest.mark.parametrize(
    ("words", "kind", "code"),
    [
        (("show", "nobody"), "not_found", 3),
        (("show", "no body"), "bad_id", 2),
        (("search", '"'), "bad_query", 2),
        (("show",), "usage", 2),
        (("nothing",), "usage", 2),
        (("ls", "--limit", "x"), "usage", 2),
    ],
)
def test_errors_in_words_and_in_json(shell, words, kind, code):
    """`wakelog: what happened; what to do`, or an object of kind, message and hint; stdout stays empty."""
    plain = shell(*words)
    assert (plain.code, plain.out) == (code, "")
    assert plain.err.startswith("wakelog: ")
    assert "; " in plain.err
    told = shell(*words, "--json")
    assert (told.code, told.out) == (code, "")
    assert set(told.error) == {"kind", "message", "hint"}
    assert told.error["kind"] == kind
    assert told.error["message"] in plain.err


def test_json_after_two_dashes_is_text(shell):
    """`--json` after `--` is an argument, not the option."""
    assert shell("show", "nobody", "--").err.startswith("wakelog: ")
    assert shell("append", "nobody", "--", "--json").err.startswith("wakelog: ")


@pytest.mark.parametrize(
    ("typed", "meant"), [("shwo", "show"), ("serach", "search"), ("lst", "list"), ("exprot", "export")]
)
def test_typing_errors_get_a_suggestion(shell, typed, meant):
    assert f"did you mean {meant}" in shell(typed).err


@pytest.mark.parametrize(("typed", "meant"), [("rm", "archive"), ("log", "tree"), ("cat", "show"), ("grep", "search")])
def test_words_of_other_programs_are_understood(shell, typed, meant):
    assert f"did you mean {meant}?" in shell(typed).err


def test_every_suggested_word_is_a_command():
    assert set(_SUGGESTIONS.values()) <= set(COMMANDS)
    assert not set(_SUGGESTIONS) & set(COMMANDS)


def test_help_is_understood_as_a_command(shell):
    assert shell("help").out == shell("--help").out
    assert shell("help", "show").out == shell("show", "--help").out


def test_global_options_may_come_first(shell):
    assert shell("--json", "new").json["name"] == "agent_user_1"
    assert shell("--json", "show", "nobody").error["kind"] == "not_found"


@pytest.mark.parametrize("command", ["append", "rename"])
def test_a_text_without_quotes_is_not_guessed(shell, command):
    shell("new")
    answer = shell(command, "agent_user_1", "two", "words")
    assert answer.code == 2
    assert "quotes" in answer.err


def test_a_newer_log_is_refused_by_name(shell):
    """LOG-7: both versions are named."""
    (shell.folder / "new.jsonl").write_bytes(b'{"v":7,"seq":0,"type":"session","id":"s1","version":7}\n')
    for words in (("show", "new.jsonl"), ("append", "new.jsonl", "x"), ("doctor", "new.jsonl")):
        answer = shell(*words)
        assert answer.code == 1
        assert "format 7" in answer.err
        assert "upgrade" in answer.err


def test_an_empty_log(shell):
    """Nothing to show is no damage; nothing to verify or to append to is a failure that says what to do."""
    (shell.folder / "empty.jsonl").write_bytes(b"")
    for command in ("show", "tree", "context", "tail", "usage", "head"):
        assert shell(command, "empty.jsonl").code == 0, command
    for command in ("verify", "doctor"):
        assert shell(command, "empty.jsonl").code == 4, command
    answer = shell("append", "empty.jsonl", "x")
    assert answer.code == 1
    assert "doctor" in answer.err


def test_a_log_of_garbage(shell):
    (shell.folder / "bad.jsonl").write_bytes(b"\x00\xff\n[]\nnull\n" + b"[" * 100_000 + b"\n")
    for command in ("show", "tree", "context", "verify", "tail", "usage", "doctor", "head"):
        answer = shell(command, "bad.jsonl")
        assert answer.code == 4, command
        assert "Traceback" not in answer.err


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help_that_begins_with_examples(shell, command):
    answer = shell(command, "--help")
    assert answer.code == 0
    assert answer.out.startswith("Examples:\n  wakelog ")
    assert shell(command, "-h").out == answer.out


def test_the_help_of_wakelog_itself(shell):
    answer = shell("--help")
    assert answer.out == shell().out
    assert answer.out.index("Examples:") < answer.out.index("Options:")
    for name, (_, summary) in COMMANDS.items():
        assert f"  {name} " in answer.out
        assert summary in answer.out


def test_a_read_only_folder(shell, monkeypatch):
    """The refusal of the operating system is one line that says what to do."""
    monkeypatch.setattr(os, "mkdir", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "no")))
    answer = shell("new")
    assert answer.code == 1
    assert "permissions" in answer.err


def test_a_bug_is_one_line_too(shell, monkeypatch):
    """An unexpected exception is one line; a traceback is shown on request."""
    monkeypatch.setattr("wakelog.cli.commands.ls.StoreLocation", lambda _: 1 / 0)
    answer = shell("ls")
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert "WAKELOG_TRACEBACK" in answer.err
    monkeypatch.setenv("WAKELOG_TRACEBACK", "1")
    assert "Traceback" in shell("ls").err
