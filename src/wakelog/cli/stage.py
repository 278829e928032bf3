"""Where a demonstration takes place: real commands, shown and run, in a temporary store of their own.

Nobody's sessions are touched and nothing is asked of a network.
"""

import os
import shlex
import subprocess
import sys

from wakelog.cli.draw import Look, wrap
from wakelog.cli.output import put
from wakelog.errors import WakelogError

_MEANINGS = {4: "damaged; the output is still given", 6: "somebody is waited for"}


class Stage:
    """Says what happens next, shows the command, runs it, in a store that nobody else has."""

    def __init__(self, seen: Look, folder: str) -> None:
        self._look = seen
        self._folder = folder
        # Whatever is configured here is nothing to the play.
        around = {name: value for name, value in os.environ.items() if not name.startswith("WAKELOG_")}
        self._environment = {
            **around,
            "XDG_CONFIG_HOME": os.path.join(folder, "config"),
            "WAKELOG_STORE": os.path.join(folder, "sessions"),
            "XDG_CACHE_HOME": os.path.join(folder, "cache"),
            "WAKELOG_PAGER": "cat",
            ("FORCE_COLOR" if seen.colour else "NO_COLOR"): "1",
        }

    @property
    def sessions(self) -> str:
        """The folder of the store."""
        return self._environment["WAKELOG_STORE"]

    def path(self, name: str) -> str:
        """A file in the folder where everything takes place."""
        return os.path.join(self._folder, name)

    def chapter(self, title: str, text: str) -> None:
        """A heading, and what it is about."""
        line = self._look.sign("──", "--")
        put(f"\n{self._look.paint('mark', f'{line} {title}')}")
        self.say(text)

    def say(self, text: str) -> None:
        """A few words between two commands."""
        put("")
        for line in wrap(" ".join(text.split()), min(self._look.columns, 90)):
            put(line)

    def run(self, *arguments: str, expected: int = 0) -> None:
        """Shows a command and runs it to its end, which must be as expected."""
        process = self.start(*arguments)
        self.ended(arguments[0], process.wait(), expected)

    def start(self, *arguments: str, seen: bool = True) -> "subprocess.Popen[bytes]":
        """Shows a command and starts it; what it says is shown, or, not `seen`, left in its pipe."""
        put(f"\n{self._look.paint('bold', f'$ wakelog {shlex.join(arguments)}')}")
        sys.stdout.flush()
        return subprocess.Popen(  # noqa: S603 - our own command with our own words
            [sys.executable, "-m", "wakelog", *arguments],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=None if seen else subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def ended(self, name: str, code: int, expected: int) -> None:
        """A command came to its end; with another code than expected, so does the demonstration."""
        if code != expected:
            raise WakelogError(f"the demo's `wakelog {name}` ended with {code}, not {expected}")
        if expected:
            put(self._look.paint("dim", f"(exit code {expected}: {_MEANINGS[expected]})"))

    def remark(self, text: str) -> None:
        """What nobody typed and no command said."""
        put(self._look.paint("dim", text))
