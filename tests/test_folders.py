"""Project folder and branch as git would say, read from files alone; a hostile repository cannot block (law 13)."""

import os
import subprocess

import platformdirs
import pytest

from wakelog import folders
from wakelog.folders import folders_from_root, git_branch, git_root, user_folder


def git(folder, *words):
    config = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *config, *words], cwd=folder, check=True, capture_output=True)


def test_branches_worktrees_and_detached_heads(tmp_path):
    """As git says: in a repository, below it, in a worktree of it, and with a detached head."""
    repo, tree = tmp_path / "repo", tmp_path / "tree"
    (repo / "a" / "b").mkdir(parents=True)
    git(repo, "init")
    assert git_branch(str(repo / "a" / "b")) == "main"
    git(repo, "commit", "--allow-empty", "-m", "one")
    git(repo, "worktree", "add", "-b", "side/branch", str(tree))
    assert (git_branch(str(tree)), git_branch(str(repo))) == ("side/branch", "main")
    git(repo, "checkout", "--detach")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, text=True, check=True).stdout
    assert git_branch(str(repo)) == commit[:12]
    assert git_root(str(repo / "a")) == str(repo)


def test_hostile_git_files_become_at_most_a_short_line(tmp_path):
    """Law 13: whatever stands in the place of git's files, the result is at most a short line."""
    (tmp_path / ".git").mkdir()
    assert git_branch(str(tmp_path)) == ""
    (tmp_path / ".git" / "HEAD").write_bytes(b"ref: refs/heads/" + b"x" * 100_000 + b"\nmore")
    assert len(git_branch(str(tmp_path))) < 5_000


def test_a_pipe_in_the_place_of_a_file_does_not_block(tmp_path):
    """Law 13: reading does not wait for a writer."""
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "HEAD")
    assert git_branch(str(tmp_path)) == ""


def test_the_folders_from_the_repository_to_here(tmp_path):
    """From the top of the repository; links are resolved."""
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    (repo / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(repo / "a")
    assert folders_from_root(str(repo / "a" / "b")) == [str(repo), str(repo / "a"), str(repo / "a" / "b")]
    assert folders_from_root(str(tmp_path / "link")) == [str(repo), str(repo / "a")]
    assert folders_from_root(str(tmp_path)) == [str(tmp_path)]


PLACES = {"cache": ".cache", "config": ".config", "data": ".local/share", "state": ".local/state"}


@pytest.mark.parametrize("kind", PLACES)
def test_a_user_folder_follows_an_absolute_variable(kind):
    """The XDG variable wins if it is absolute; a relative one is ignored, as its specification says."""
    variable = f"XDG_{kind.upper()}_HOME"
    assert user_folder(kind, {variable: "/x", "HOME": "/h"}) == "/x/wakelog"
    assert user_folder(kind, {variable: "x", "HOME": "/h"}) == f"/h/{PLACES[kind]}/wakelog"


@pytest.mark.parametrize("kind", PLACES)
def test_a_user_folder_of_an_earlier_version_is_used_on_every_platform(kind, tmp_path, monkeypatch):
    """Where the platform keeps such files elsewhere, a folder that exists at the XDG place wins."""
    monkeypatch.setattr(folders, "_IS_LINUX", False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_folder(kind, {"HOME": str(tmp_path)}) == getattr(platformdirs, f"user_{kind}_dir")("wakelog", False)
    (tmp_path / PLACES[kind] / "wakelog").mkdir(parents=True)
    monkeypatch.setattr(platformdirs, f"user_{kind}_dir", lambda *_, **__: "/elsewhere")
    assert user_folder(kind, {"HOME": str(tmp_path)}) == f"{tmp_path}/{PLACES[kind]}/wakelog"
    assert user_folder(kind, {"HOME": str(tmp_path / "other")}) == "/elsewhere"
