"""Where a project is: its top folder, the folders from there to where somebody works, its branch.

Read from files alone: no program is run, and nothing that a repository holds in their place makes anybody wait.
"""

import os

_HEAD_MAX_BYTES = 4_096
_REF = "ref: refs/heads/"


def folders_down(cwd: str) -> list[str]:
    """The folders from the top of the git repository down to one in it; outside of git that one alone. Real paths."""
    at = os.path.realpath(cwd)
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
