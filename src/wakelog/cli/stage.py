"""Environment of the demos: shows real commands and runs them in a temporary store.

It uses no session of the user and no network.
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
    """Prints text, shows commands and runs them in a temporary store."""

    def __init__(self, seen: Look, folder: str) -> None:
        self._look = seen
        self._folder = folder
        # The user's configuration must not affect the demo.
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
        """Return the folder of the store."""
        return self._environment["WAKELOG_STORE"]

    def path(self, name: str) -> str:
        """Return the path of a file in the temporary folder."""
        return os.path.join(self._folder, name)

    def chapter(self, title: str, text: str) -> None:
        """Print a heading and a text."""
        line = self._look.sign("──", "--")
        put(f"\n{self._look.paint('mark', f'{line} {title}')}")
        self.say(text)

    def say(self, text: str) -> None:
        """Print a wrapped text between two commands."""
        put("")
        for line in wrap(" ".join(text.split()), min(self._look.columns, 90)):
            put(line)

    def run(self, *arguments: str, expected: int = 0) -> None:
        """Show a command and run it to its end. `WakelogError` if its exit code is not `expected`."""
        process = self.start(*arguments)
        self.ended(arguments[0], process.wait(), expected)

    def start(self, *arguments: str, seen: bool = True) -> "subprocess.Popen[bytes]":
        """Show a command and start it. Its output is shown or, with `seen=False`, left in its pipe."""
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
        """Check the exit code of a command that ended; `WakelogError` if it is not `expected`."""
        if code != expected:
            raise WakelogError(f"the demo's `wakelog {name}` ended with {code}, not {expected}")
        if expected:
            put(self._look.paint("dim", f"(exit code {expected}: {_MEANINGS[expected]})"))

    def remark(self, text: str) -> None:
        """Print a dimmed remark that is neither a command nor its output."""
        put(self._look.paint("dim", text))
