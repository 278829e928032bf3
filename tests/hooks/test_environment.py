"""VIEW-7: the environment block says where the agent finds itself, from files alone."""

import asyncio
import subprocess

from wakelog.hooks.environment import Environment, git_branch, git_root
from wakelog.ports import Occasion


def occasion(cwd):
    return Occasion("s", "u1", "crab", "user", str(cwd), "Hi.", 1_767_225_600_000)


def said(cwd):
    return asyncio.run(Environment().before_run(occasion(cwd)))


def git(folder, *words):
    config = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *config, *words], cwd=folder, check=True, capture_output=True)


def test_outside_of_git(tmp_path):
    """Folder, day and system; no branch where there is none."""
    text = said(tmp_path)
    assert f"folder: {tmp_path}\ndate: 2026-01-01\nsystem: " in text
    assert "git branch" not in text
    assert text.startswith("<environment>\n")
    assert text.endswith("\n</environment>")


def test_branches_worktrees_and_loose_commits(tmp_path):
    """What git itself would say, in a repository, below it, in a worktree of it, and on no branch at all."""
    repo, tree = tmp_path / "repo", tmp_path / "tree"
    (repo / "a" / "b").mkdir(parents=True)
    git(repo, "init")
    assert "git branch: main" in said(repo / "a" / "b")
    git(repo, "commit", "--allow-empty", "-m", "one")
    git(repo, "worktree", "add", "-b", "side/branch", str(tree))
    assert (git_branch(str(tree)), git_branch(str(repo))) == ("side/branch", "main")
    git(repo, "checkout", "--detach")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, text=True, check=True).stdout
    assert git_branch(str(repo)) == commit[:12]
    assert git_root(str(repo / "a")) == str(repo)


def test_a_repository_that_is_none(tmp_path):
    """Law 13: what a hostile folder holds in the place of git's files is at most a short line."""
    (tmp_path / ".git").mkdir()
    assert git_branch(str(tmp_path)) == ""
    (tmp_path / ".git" / "HEAD").write_bytes(b"ref: refs/heads/" + b"x" * 100_000 + b"\nmore")
    assert len(git_branch(str(tmp_path))) < 5_000
