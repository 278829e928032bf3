"""The command `demo`: a tour. Real commands, run one after the other in a store of their own, with their output.

The store is a temporary folder that is removed at the end: nobody's sessions are touched, nothing is
asked of a network. What is damaged on the way is damaged by this file, byte by byte, as a disk would.
"""

import os
import shlex
import subprocess
import sys
import tempfile

from wakelog.cli.draw import Look, look, wrap
from wakelog.cli.options import Asked, command
from wakelog.cli.output import put
from wakelog.errors import WakelogError

_SESSION = "demo_you_1"
_MEANINGS = {4: "damaged; the output is still given"}


@command(
    "demo",
    examples="""
    wakelog demo
    wakelog demo | less
    """,
    json=False,
)
def demo(asked: Asked) -> None:
    """Take a tour: a session is written, branched, folded, damaged on purpose and recovered."""
    with tempfile.TemporaryDirectory(prefix="wakelog-demo-") as folder:
        tour = _Tour(look(asked.color), folder)
        for part in (_write, _branch, _fold, _damage, _recover, _find):
            part(tour)
        _goodbye(tour)


class _Tour:
    """Says what happens next, shows the command, runs it."""

    def __init__(self, seen: Look, folder: str) -> None:
        self._look = seen
        self._folder = folder
        self._environment = {
            **os.environ,
            "WAKELOG_STORE": os.path.join(folder, "sessions"),
            "XDG_CACHE_HOME": os.path.join(folder, "cache"),
            "WAKELOG_PAGER": "cat",
            ("FORCE_COLOR" if seen.colour else "NO_COLOR"): "1",
        }

    @property
    def log(self) -> str:
        """The file of the session that the tour is about."""
        return os.path.join(self._folder, "sessions", f"{_SESSION}.jsonl")

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
        """Shows a command and runs it. It must end as it is expected to."""
        put(f"\n{self._look.paint('bold', f'$ wakelog {shlex.join(arguments)}')}")
        sys.stdout.flush()
        done = subprocess.run(  # noqa: S603 - our own command with our own words
            [sys.executable, "-m", "wakelog", *arguments],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode != expected:
            raise WakelogError(f"the demo's `wakelog {arguments[0]}` ended with {done.returncode}, not {expected}")
        if expected:
            put(self._look.paint("dim", f"(exit code {expected}: {_MEANINGS[expected]})"))


def _write(tour: _Tour) -> None:
    tour.chapter(
        "A session is written", "A session is a file of JSON lines. What is said is an entry; each is durable."
    )
    tour.run("new", "--agent", "demo", "--sender", "you", "--title", "The flaky login test")
    tour.run("append", _SESSION, "test_login fails now and then. Why?")
    tour.run("append", _SESSION, "--role", "assistant", "It reads the clock. Freeze the clock, or allow some slack.")
    tour.run("append", _SESSION, "Freeze the clock.")
    tour.run("append", _SESSION, "--role", "assistant", "Done: the clock is frozen, and all 42 tests pass.")
    tour.run("show", _SESSION)


def _branch(tour: _Tour) -> None:
    tour.chapter(
        "It is branched",
        "Every entry names the one before it, so a session is a tree. Going back deletes nothing: the head moves, and "
        "what is said next grows beside what was said before.",
    )
    tour.run("label", _SESSION, "2", "two ways")
    tour.run("fork", f"{_SESSION}:two ways")
    tour.run("append", _SESSION, "Allow a second of slack instead.")
    tour.run("append", _SESSION, "--role", "assistant", "Done: a second of slack. 41 tests pass, one is skipped.")
    tour.run("tree", _SESSION)


def _fold(tour: _Tour) -> None:
    tour.chapter(
        "It is folded",
        "A compaction lets a summary stand for what came before. The model then sees the summary; the log keeps all.",
    )
    tour.run("compact", _SESSION, "--summary", "The flaky login test now allows a second of slack; 41 tests pass.")
    tour.run("append", _SESSION, "Why is one skipped?")
    tour.run("context", _SESSION)
    tour.run("verify", _SESSION)


def _damage(tour: _Tour) -> None:
    tour.chapter(
        "It is damaged", "Now a bit flips in the fourth line, and the last line is cut in half, as by a crash."
    )
    with open(tour.log, "r+b") as file:
        lines = file.readlines()
        file.seek(sum(map(len, lines[:3])) + 1)
        file.write(bytes([lines[3][1] ^ 0x04]))
        file.truncate(sum(map(len, lines)) - len(lines[-1]) // 2)
    tour.run("tail", _SESSION, "-n", "2", expected=4)
    tour.say("The rest is served, the harm is named. `verify` finds what no longer fits, `doctor` explains it.")
    tour.run("verify", _SESSION, expected=4)
    tour.run("doctor", _SESSION, expected=4)


def _recover(tour: _Tour) -> None:
    tour.chapter("It is recovered", "A log is never rewritten. A clean copy goes into a new file, and proves itself.")
    tour.run("doctor", _SESSION, "--salvage", "clean.jsonl", expected=4)
    tour.run("verify", "clean.jsonl")
    tour.run("show", "clean.jsonl")
    tour.say("The damaged session goes on, too: the next append notes the cut line and stands behind it.")
    tour.run("append", _SESSION, "Are you still there?")


def _find(tour: _Tour) -> None:
    tour.chapter(
        "It is found again", "Lists and searches answer from an index in the cache that may be deleted at any time."
    )
    tour.run("search", "slack")
    tour.run("ls")
    tour.run("export", "clean.jsonl", "--format", "md")


def _goodbye(tour: _Tour) -> None:
    tour.chapter("Where to go next", "That was all in a temporary folder, which is gone now. To begin for real:")
    put("")
    put("    wakelog new --title 'My first session'")
    put("    wakelog append @latest 'Hello'")
    put("    wakelog show @latest")
    tour.say(
        "docs/cli.md describes every command, docs/format.md every byte of a log; `wakelog --help` lists the rest."
    )
