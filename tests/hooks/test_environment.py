"""VIEW-7: the environment block has folder, date, system and branch, from files alone."""

import asyncio

from wakelog.hooks.builtin import EnvironmentHook
from wakelog.ports.runtime import HookContext


def occasion(cwd):
    return HookContext("s", "u1", "crab", "user", str(cwd), "Hi.", 1_767_225_600_000)


def said(cwd):
    return asyncio.run(EnvironmentHook().before_run(occasion(cwd)))


def test_outside_of_git(tmp_path):
    """Folder, date and system; no branch."""
    text = said(tmp_path)
    assert f"folder: {tmp_path}\ndate: 2026-01-01\nsystem: " in text
    assert "git branch" not in text
    assert text.startswith("<environment>\n")
    assert text.endswith("\n</environment>")


def test_the_branch(tmp_path):
    """The branch that is checked out, also in a folder below the top of the repository."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "a").mkdir()
    assert "git branch: main\n" in said(tmp_path / "a")
