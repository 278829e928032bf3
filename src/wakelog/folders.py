"""Project and user folders: the repository root, the folders down to the working folder, the git branch.

Everything is read from files: no program is run, and opening a file never blocks, whatever a repository contains.
"""

import os
from collections.abc import Mapping

CONFIG_FILE = "config.toml"
_HEAD_MAX_BYTES = 4_096
_REF = "ref: refs/heads/"


def home_folder(environ: Mapping[str, str]) -> str:
    """Return the home folder of the user."""
    return environ.get("HOME") or os.path.expanduser("~")


def config_folder(environ: Mapping[str, str]) -> str:
    """Return the configuration folder of the user, whether it exists or not."""
    return os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home_folder(environ), ".config"), "wakelog")


def is_configured(environ: Mapping[str, str]) -> bool:
    """Return whether the user has a configuration file or names one, without reading it."""
    return bool(environ.get("WAKELOG_CONFIG")) or os.path.lexists(os.path.join(config_folder(environ), CONFIG_FILE))


def folders_from_root(cwd: str) -> list[str]:
    """Return the folders from the git root down to `cwd`; outside of git only `cwd`. Real paths.

    An empty path is the working folder of this process.
    """
    try:
        at = os.path.realpath(cwd)
    except (FileNotFoundError, ValueError):
        # The working folder was deleted, or a log contains an impossible path: neither is in a project.
        at = os.sep
    root = git_root(at) or at
    inside = os.path.relpath(at, root)
    folders = [root]
    for name in inside.split(os.sep) if inside != "." else ():
        folders.append(os.path.join(folders[-1], name))
    return folders


def open_nonblocking(path: str, flags: int) -> int:
    """Opener for `open` that does not block if the path is a named pipe."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def git_root(folder: str) -> str | None:
    """Return the top folder of the git repository that contains a folder; None outside of git."""
    at = os.path.abspath(folder)
    while not os.path.exists(os.path.join(at, ".git")):
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above
    return at


def git_branch(folder: str) -> str:
    """Return the branch that is checked out, or the first 12 characters of the commit; empty outside of git."""
    root = git_root(folder)
    head = _read_first_line(os.path.join(_git_folder(root), "HEAD")) if root is not None else ""
    return head.removeprefix(_REF) if head.startswith(_REF) else head[:12]


def _git_folder(root: str) -> str:
    """Return the git folder of a repository; in a worktree, `.git` is a file that contains its path."""
    dot_git = os.path.join(root, ".git")
    pointer = "" if os.path.isdir(dot_git) else _read_first_line(dot_git)
    return os.path.join(root, pointer.removeprefix("gitdir: ")) if pointer else dot_git


def _read_first_line(path: str) -> str:
    """Return the first line of a small file; empty if it cannot be read."""
    try:
        with open(path, "rb", opener=open_nonblocking) as file:
            return file.read(_HEAD_MAX_BYTES).decode(errors="replace").partition("\n")[0].strip()
    except OSError:
        return ""
