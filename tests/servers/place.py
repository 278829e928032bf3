"""Where the servers of one run live, and as whom they run.

A place is a folder named for the process that owns it: the workers of one run find the same one, and the keeper
removes it with everything that runs there once the owner has ended. PostgreSQL and pgbouncer refuse to run as
root, so that root runs them as `nobody`, who owns the folder; anybody else runs them as himself.
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
    """A server that a test needs cannot be had; the message is one line that says what to do."""


class Place:
    """The folder of one owner, kept until the owner has ended."""

    def __init__(self, owner: int) -> None:
        self.user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self.folder = os.path.join(_temporary(), f"wakelog-{owner}-{_begun(owner)}")
        self._claim(owner)

    def path(self, name: str) -> str:
        """Something in the folder."""
        return os.path.join(self.folder, name)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """One process at a time: what the workers of a run share is made under this."""
        with open(self.path("lock"), "a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def run(self, *command: str) -> str:
        """Runs a command as the user of this place and gives what it printed."""
        done: subprocess.CompletedProcess[bytes] = subprocess.run(
            command, **self._manner(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False
        )
        said = done.stdout.decode(errors="replace").strip()
        if done.returncode:
            raise Unavailable(f"{os.path.basename(command[0])} failed: {' '.join(said.split()) or done.returncode}")
        return said

    def spawn(self, *command: str, log: str) -> subprocess.Popen[bytes]:
        """Starts a server as the user of this place. It is a child, so that its end is seen by who started it."""
        with open(log, "ab") as file:
            return subprocess.Popen(
                command, **self._manner(), stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )

    def _manner(self) -> dict[str, Any]:
        """As whom, where and with which surroundings every program runs here."""
        who = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", "HOME": self.folder}
        return {**who, "cwd": self.folder, "env": env, "stdin": subprocess.DEVNULL}

    def write(self, name: str, text: str) -> str:
        """A file that the servers of this place, and nobody else, may read."""
        path = self.path(name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        self.give(path)
        return path

    def give(self, path: str) -> None:
        """Makes a path the property of the user that servers run as."""
        if self.user:
            os.chown(path, self.user.pw_uid, self.user.pw_gid, follow_symlinks=False)

    def _claim(self, owner: int) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.folder, 0o700)
            self.give(self.folder)
        # Anybody may write to the temporary folder: a folder that somebody else put there first is not ours.
        mine = os.lstat(self.folder)
        if mine.st_uid not in {os.geteuid(), self.user.pw_uid if self.user else os.geteuid()} or mine.st_mode & 0o077:
            raise Unavailable(f"{self.folder} belongs to somebody else: remove it")
        with self.lock():
            if not os.path.exists(self.path("kept")):
                command = [sys.executable, "-I", "-S", KEEPER, str(owner), self.folder]
                started = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                self.write("kept", started.stdout)


def free_port() -> int:
    """A port that nobody listens on, outside the range from which outgoing connections take theirs."""
    for _ in range(100):
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise Unavailable("no free port between 20000 and 32000 on 127.0.0.1")


def enterable(folder: str) -> bool:
    """Whether every user may go as far as this folder."""
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
