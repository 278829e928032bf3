"""An error of usage is one line, with what to do, before anything is written."""

import pytest

from wakelog.log.entry import Terminated


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "wakelog: a chat needs a terminal; without one, use `wakelog run"),
        (("--model", "demo"), 2, "wakelog: a chat needs a terminal"),
    ],
)
def test_without_a_terminal(shell, words, code, said):
    answer = shell.process("chat", *words, typed=b"hello\n")
    assert (answer.code, answer.raw, answer.err.count("\n")) == (code, b"", 1)
    assert answer.err.startswith(said)


def test_on_a_dumb_terminal(shell):
    answer = shell.terminal("chat", env={"TERM": "dumb"})
    assert (answer.code, "needs a terminal" in answer.out) == (2, True)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--model", "nobody:x"), 2, "nobody"),
        (("--model", "scripted:/no/such/script"), 2, "/no/such/script"),
        (("--tools", "nothing"), 2, "unknown tool 'nothing'"),
        (("--cwd", "/no/such/folder"), 2, "folder /no/such/folder does not exist"),
        (("--strategy", "odd"), 2, "unknown strategy"),
        (("nobody",), 3, "no session nobody"),
        (("-c",), 3, "; `wakelog chat` creates one\n"),
        (("-c", "--pick"), 2, "more than one session is selected"),
        (("@latest", "-c"), 2, "more than one session is selected"),
        (("--frobnicate",), 2, "no such option"),
    ],
)
def test_one_line_and_nothing_written(shell, words, code, said):
    words = words if "--model" in words else (*words, "--model", "demo")
    answer = shell.terminal("chat", *words, columns=200)
    shown = answer.out.lower()
    assert (answer.code, shown.count("\n"), said.lower() in shown) == (code, 1, True), shown
    assert not shell.store.exists() or not list(shell.store.glob("*.jsonl"))


def test_a_missing_key(shell, monkeypatch):
    """How to set one, and what works without."""
    pytest.importorskip("anthropic")
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    answer = shell.terminal("chat", "--model", "anthropic:claude-x", columns=200)
    assert (answer.code, answer.out.count("\n")) == (2, 1)
    assert "ANTHROPIC_API_KEY" in answer.out
    assert "--model demo" in answer.out
    assert not shell.store.exists() or not list(shell.store.glob("*.jsonl"))


def test_without_a_model(shell, monkeypatch):
    """No model is chosen by default: one line says how to name one, and what works without a key."""
    monkeypatch.delenv("WAKELOG_MODEL")
    answer = shell.terminal("chat", columns=200)
    assert (answer.code, answer.out.count("\n")) == (2, 1)
    assert "no model is set" in answer.out
    assert "--model demo" in answer.out


def test_sessions_that_cannot_be_continued(shell, story):
    story.user("hello")
    answer = shell.terminal("chat", "crab_user_1:1", "--model", "demo")
    assert (answer.code, "continues from the head" in answer.out) == (2, True)
    answer = shell.terminal("chat", "crab_user_1", "--agent", "other", "--model", "demo")
    assert (answer.code, "--agent applies only to a new session" in answer.out) == (2, True)
    story.session.append(Terminated())
    before = (shell.store / "crab_user_1.jsonl").read_bytes()
    answer = shell.terminal("chat", "crab_user_1", "--model", "demo")
    assert (answer.code, "is terminated" in answer.out) == (5, True)
    assert (shell.store / "crab_user_1.jsonl").read_bytes() == before
