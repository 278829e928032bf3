"""Where a project is: its top folder, the folders from there to where somebody works, its branch; where one's own
files lie.

Read from files alone: no program is run, and nothing that a repository holds in their place makes anybody wait.
"""

import os
from collections.abc import Mapping

CONFIG_FILE = "config.toml"
_HEAD_MAX_BYTES = 4_096
_REF = "ref: refs/heads/"


def home_folder(environ: Mapping[str, str]) -> str:
    """Where somebody is at home."""
    return environ.get("HOME") or os.path.expanduser("~")


def config_folder(environ: Mapping[str, str]) -> str:
    """The folder of one's own files, there or not."""
    return os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home_folder(environ), ".config"), "wakelog")


def is_configured(environ: Mapping[str, str]) -> bool:
    """Whether somebody has a configuration of their own, without a look into it."""
    return bool(environ.get("WAKELOG_CONFIG")) or os.path.lexists(os.path.join(config_folder(environ), CONFIG_FILE))


def folders_down(cwd: str) -> list[str]:
    """The folders from the top of the git repository down to one in it; outside of git that one alone. Real paths.

    An empty path is where this process is.
    """
    try:
        at = os.path.realpath(cwd)
    except (FileNotFoundError, ValueError):
        # The folder we are in is gone, or a log names one that no system could have: neither is in a project.
        at = os.sep
    root = git_root(at) or at
    inside = os.path.relpath(at, root)
    folders = [root]
    for name in inside.split(os.sep) if inside != "." else ():
        folders.append(os.path.join(folders[-1], name))
    return folders


def without_waiting(path: str, flags: int) -> int:
    """Opens for `open`: a pipe in the place of a file would wait for somebody to write into it."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def git_root(folder: str) -> str | None:
    """The top folder of the git repository that a folder lies in."""
    at = os.path.abspath(folder)
    while not os.path.exists(os.path.join(at, ".git")):
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above
    return at


def git_branch(folder: str) -> str:
    """The branch that is checked out, or the start of a commit's name; empty outside of git."""
    root = git_root(folder)
    head = _read(os.path.join(_git_folder(root), "HEAD")) if root is not None else ""
    return head.removeprefix(_REF) if head.startswith(_REF) else head[:12]


def _git_folder(root: str) -> str:
    """A worktree has a file where other repositories have a folder; it says where that is."""
    dot_git = os.path.join(root, ".git")
    said = "" if os.path.isdir(dot_git) else _read(dot_git)
    return os.path.join(root, said.removeprefix("gitdir: ")) if said else dot_git


def _read(path: str) -> str:
    """The first line of a small file; empty where there is none."""
    try:
        with open(path, "rb", opener=without_waiting) as file:
            return file.read(_HEAD_MAX_BYTES).decode(errors="replace").partition("\n")[0].strip()
    except OSError:
        return ""
