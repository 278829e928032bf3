"""Where the agent finds itself: folder, day, system, branch of git. Read from files, so that no program is run."""

import os
import platform

from wakelog.log.times import iso
from wakelog.ports import Occasion

_HEAD_MAX_BYTES = 4_096
_REF = "ref: refs/heads/"


class Environment:
    """See `ports.Hook`."""

    name = "environment"

    async def before_run(self, occasion: Occasion) -> str:
        """See `ports.Hook`."""
        cwd = occasion.cwd or os.getcwd()
        lines = [
            f"folder: {cwd}",
            f"date: {iso(occasion.now_ms)[:10]}",
            f"system: {platform.system()} {platform.machine()}",
        ]
        branch = git_branch(cwd)
        if branch:
            lines.append(f"git branch: {branch}")
        return "\n".join(["<environment>", *lines, "</environment>"])


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
        with open(path, "rb") as file:
            return file.read(_HEAD_MAX_BYTES).decode(errors="replace").partition("\n")[0].strip()
    except OSError:
        return ""
