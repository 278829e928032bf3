"""The folder in which the servers of one run live, and the user that they run as.

A place is a folder named for the process that owns it: the workers of one run find the same one, and the keeper
removes it with everything that runs there once the owner has ended. PostgreSQL and pgbouncer refuse to run as
root, so that root runs them as the user `nobody`, who owns the folder; other users run them as themselves.
"""

import contextlib
import fcntl
import os
import pwd
import random
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

KEEPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keeper.py")
PATIENCE_S = 600


class Unavailable(Exception):
    """A server that a test needs is not available; the message is one line with a hint."""


class Place:
    """The folder of one owner, kept until the owner has ended."""

    def __init__(self, owner: int) -> None:
        self.user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self.folder = os.path.join(_temporary(), f"wakelog-{owner}-{_begun(owner)}")
        self._claim(owner)

    def path(self, name: str) -> str:
        """A path in the folder."""
        return os.path.join(self.folder, name)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """A lock for what the workers of a run create together."""
        with open(self.path("lock"), "a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def run(self, *command: str) -> str:
        """Run a command as the user of this place and return its output."""
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            command, **self._manner(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False
        )
        said = done.stdout.decode(errors="replace").strip()
        if done.returncode:
            raise Unavailable(f"{os.path.basename(command[0])} failed: {' '.join(said.split()) or done.returncode}")
        return said

    def spawn(self, *command: str, log: str) -> subprocess.Popen[bytes]:
        """Start a server as the user of this place, as a child, so that its end is seen here."""
        with open(log, "ab") as file:
            return subprocess.Popen(
                command, **self._manner(), stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )

    def _manner(self) -> dict[str, Any]:
        """The user, folder and environment of every program that runs here."""
        who = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", "HOME": self.folder}
        return {**who, "cwd": self.folder, "env": env, "stdin": subprocess.DEVNULL}

    def write(self, name: str, text: str) -> str:
        """A file that only the servers of this place may read."""
        path = self.path(name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        self.give(path)
        return path

    def give(self, path: str) -> None:
        """Change the owner of a path to the user that servers run as."""
        if self.user:
            os.chown(path, self.user.pw_uid, self.user.pw_gid, follow_symlinks=False)

    def _claim(self, owner: int) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.folder, 0o700)
            self.give(self.folder)
        # Every user may write to the temporary folder: a folder that another user put there first is not used.
        mine = os.lstat(self.folder)
        if mine.st_uid not in {os.geteuid(), self.user.pw_uid if self.user else os.geteuid()} or mine.st_mode & 0o077:
            raise Unavailable(f"{self.folder} belongs to another user: remove it")
        with self.lock():
            if not os.path.exists(self.path("kept")):
                command = [sys.executable, "-I", "-S", KEEPER, str(owner), self.folder]
                started = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                self.write("kept", started.stdout)


def free_port() -> int:
    """A free port outside of the range of outgoing connections."""
    for _ in range(100):
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise Unavailable("no free port between 20000 and 32000 on 127.0.0.1")


def enterable(folder: str) -> bool:
    """Whether every user may enter this folder."""
    while folder != "/":
        if not os.stat(folder).st_mode & stat.S_IXOTH:
            return False
        folder = os.path.dirname(folder)
    return True


def _temporary() -> str:
    folder = os.path.realpath(tempfile.gettempdir())
    return folder if os.geteuid() != 0 or enterable(folder) else "/tmp"


def _begun(pid: int) -> str:
    # The time since boot at which a process began makes its number unique; the name before it may hold spaces.
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[19]
