"""Project and user folders: the repository root, the folders down to the working folder, the git branch.

Everything is read from files: no program is run, and opening a file never blocks, whatever a repository contains.
"""

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Literal

CONFIG_FILE = "config.toml"
_HEAD_MAX_BYTES = 4_096
_REF = "ref: refs/heads/"
_IS_LINUX: bool = sys.platform == "linux"
_XDG_PLACES = {
    "cache": ("XDG_CACHE_HOME", ".cache"),
    "config": ("XDG_CONFIG_HOME", ".config"),
    "data": ("XDG_DATA_HOME", ".local/share"),
    "state": ("XDG_STATE_HOME", ".local/state"),
}


def home_folder(environ: Mapping[str, str]) -> str:
    """Return the home folder of the user."""
    return environ.get("HOME") or os.path.expanduser("~")


def user_folder(kind: Literal["cache", "config", "data", "state"], environ: Mapping[str, str] | None = None) -> str:
    """Return wakelog's own folder of a kind, whether it exists or not.

    It is in the folder that the XDG variable names if that is absolute; else at its XDG place in the home folder, if it
    exists there or this is Linux; else where the platform keeps such files.
    """
    given = os.environ if environ is None else environ
    variable, place = _XDG_PLACES[kind]
    if os.path.isabs(given.get(variable, "")):
        return os.path.join(given[variable], "wakelog")
    folder = os.path.join(home_folder(given), place, "wakelog")
    if _IS_LINUX or os.path.isdir(folder):
        return folder
    found: str = getattr(importlib.import_module("platformdirs"), f"user_{kind}_dir")("wakelog", appauthor=False)
    return found


def config_folder(environ: Mapping[str, str]) -> str:
    """Return the configuration folder of the user, whether it exists or not."""
    return user_folder("config", environ)


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
