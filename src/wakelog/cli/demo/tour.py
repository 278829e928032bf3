"""Environment of the demos, and the tour (`demo --tour`): write, branch, compact, damage, recover and find a session.

`DemoShell` shows real commands and runs them in a temporary store; it uses no session of the user and no network. The
tour itself makes the damage: it flips a bit and cuts the file.
"""

import os
import shlex
import subprocess
import sys

from wakelog.cli.ui.output import put
from wakelog.cli.ui.terminal import TerminalStyle, wrap
from wakelog.errors import WakelogError

_MEANINGS = {4: "damaged; the output is still given", 6: "waits for a person"}


class DemoShell:
    """Prints text, shows commands and runs them in a temporary store."""

    def __init__(self, look: TerminalStyle, folder: str) -> None:
        self._look = look
        self._folder = folder
        # The user's configuration must not affect the demo.
        environ = {name: value for name, value in os.environ.items() if not name.startswith("WAKELOG_")}
        self._environment = {
            **environ,
            "XDG_CONFIG_HOME": os.path.join(folder, "config"),
            "WAKELOG_STORE": os.path.join(folder, "sessions"),
            "XDG_CACHE_HOME": os.path.join(folder, "cache"),
            "WAKELOG_PAGER": "cat",
            ("FORCE_COLOR" if look.colour else "NO_COLOR"): "1",
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
        line = self._look.symbol("──", "--")
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

    def start(self, *arguments: str, shown: bool = True) -> "subprocess.Popen[bytes]":
        """Show a command and start it. Its output is shown or, with `shown=False`, left in its pipe."""
        put(f"\n{self._look.paint('bold', f'$ wakelog {shlex.join(arguments)}')}")
        sys.stdout.flush()
        return subprocess.Popen(  # noqa: S603 - our own command and arguments
            [sys.executable, "-m", "wakelog", *arguments],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=None if shown else subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def ended(self, name: str, code: int, expected: int) -> None:
        """Check the exit code of a command that ended; `WakelogError` if it is not `expected`."""
        if code != expected:
            raise WakelogError(f"the demo's `wakelog {name}` ended with exit code {code}, not {expected}")
        if expected:
            put(self._look.paint("dim", f"(exit code {expected}: {_MEANINGS[expected]})"))

    def remark(self, text: str) -> None:
        """Print a dimmed remark that is neither a command nor its output."""
        put(self._look.paint("dim", text))


_SESSION = "demo_you_1"


def tour(stage: DemoShell) -> None:
    """Run all parts of the tour in order."""
    for part in (_write, _branch, _compact, _damage, _recover, _find, _goodbye):
        part(stage)


def _write(stage: DemoShell) -> None:
    stage.chapter(
        "Write a session", "A session is a file of JSON lines. Each message is an entry, and each entry is durable."
    )
    stage.run("new", "--agent", "demo", "--sender", "you", "--title", "The flaky login test")
    stage.run("append", _SESSION, "test_login fails now and then. Why?")
    stage.run("append", _SESSION, "--role", "assistant", "It reads the clock. Freeze the clock, or allow some slack.")
    stage.run("append", _SESSION, "Freeze the clock.")
    stage.run("append", _SESSION, "--role", "assistant", "Done: the clock is frozen, and all 42 tests pass.")
    stage.run("show", _SESSION)


def _branch(stage: DemoShell) -> None:
    stage.chapter(
        "Branch it",
        "Every entry names its parent, so a session is a tree. Going back deletes nothing: the head moves, and the "
        "next message begins a new branch beside the old one.",
    )
    stage.run("label", _SESSION, "2", "two options")
    stage.run("fork", f"{_SESSION}:two options")
    stage.run("append", _SESSION, "Allow a second of slack instead.")
    stage.run("append", _SESSION, "--role", "assistant", "Done: a second of slack. 41 tests pass, one is skipped.")
    stage.run("tree", _SESSION)


def _compact(stage: DemoShell) -> None:
    stage.chapter(
        "Compact it",
        "A compaction replaces older messages by a summary. The model then sees the summary; the log keeps everything.",
    )
    stage.run("compact", _SESSION, "--summary", "The flaky login test now allows a second of slack; 41 tests pass.")
    stage.run("append", _SESSION, "Why is one skipped?")
    stage.run("context", _SESSION)
    stage.run("verify", _SESSION)


def _damage(stage: DemoShell) -> None:
    stage.chapter("Damage it", "A bit of the fourth line is flipped, and the last line is cut in half, as by a crash.")
    with open(os.path.join(stage.sessions, f"{_SESSION}.jsonl"), "r+b") as file:
        lines = file.readlines()
        file.seek(sum(map(len, lines[:3])) + 1)
        file.write(bytes([lines[3][1] ^ 0x04]))
        file.truncate(sum(map(len, lines)) - len(lines[-1]) // 2)
    stage.run("tail", _SESSION, "-n", "2", expected=4)
    stage.say("The damage is reported, and the rest is shown. `verify` finds every change, `doctor` explains it.")
    stage.run("verify", _SESSION, expected=4)
    stage.run("doctor", _SESSION, expected=4)


def _recover(stage: DemoShell) -> None:
    stage.chapter("Recover it", "A log is never rewritten. A clean copy is written to a new file, and can be verified.")
    stage.run("doctor", _SESSION, "--salvage", "clean.jsonl", expected=4)
    stage.run("verify", "clean.jsonl")
    stage.run("show", "clean.jsonl")
    stage.say("The damaged session can be continued too: the next append records the incomplete line and follows it.")
    stage.run("append", _SESSION, "Are you still there?")


def _find(stage: DemoShell) -> None:
    stage.chapter("Find it", "Lists and searches use an index in the cache folder, which may be deleted at any time.")
    stage.run("search", "slack")
    stage.run("ls")
    stage.run("export", "clean.jsonl", "--format", "md")


def _goodbye(stage: DemoShell) -> None:
    stage.chapter("Where to go next", "All of this was in a temporary folder, which is removed now. To begin:")
    put("")
    put("    wakelog new --title 'My first session'")
    put("    wakelog append @latest 'Hello'")
    put("    wakelog show @latest")
    stage.say(
        "docs/cli.md describes every command, docs/format.md the format of a log; `wakelog --help` lists all commands."
    )
