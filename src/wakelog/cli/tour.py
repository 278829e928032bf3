"""Tour (`demo --tour`): write, branch, compact, damage, recover and find a session.

The damage is made by this module, which flips a bit and cuts the file.
"""

import os

from wakelog.cli.output import put
from wakelog.cli.stage import Stage

_SESSION = "demo_you_1"


def tour(stage: Stage) -> None:
    """Run all parts of the tour in order."""
    for part in (_write, _branch, _fold, _damage, _recover, _find, _goodbye):
        part(stage)


def _write(stage: Stage) -> None:
    stage.chapter(
        "A session is written", "A session is a file of JSON lines. What is said is an entry; each is durable."
    )
    stage.run("new", "--agent", "demo", "--sender", "you", "--title", "The flaky login test")
    stage.run("append", _SESSION, "test_login fails now and then. Why?")
    stage.run("append", _SESSION, "--role", "assistant", "It reads the clock. Freeze the clock, or allow some slack.")
    stage.run("append", _SESSION, "Freeze the clock.")
    stage.run("append", _SESSION, "--role", "assistant", "Done: the clock is frozen, and all 42 tests pass.")
    stage.run("show", _SESSION)


def _branch(stage: Stage) -> None:
    stage.chapter(
        "It is branched",
        "Every entry names the one before it, so a session is a tree. Going back deletes nothing: the head moves, and "
        "what is said next grows beside what was said before.",
    )
    stage.run("label", _SESSION, "2", "two ways")
    stage.run("fork", f"{_SESSION}:two ways")
    stage.run("append", _SESSION, "Allow a second of slack instead.")
    stage.run("append", _SESSION, "--role", "assistant", "Done: a second of slack. 41 tests pass, one is skipped.")
    stage.run("tree", _SESSION)


def _fold(stage: Stage) -> None:
    stage.chapter(
        "It is folded",
        "A compaction lets a summary stand for what came before. The model then sees the summary; the log keeps all.",
    )
    stage.run("compact", _SESSION, "--summary", "The flaky login test now allows a second of slack; 41 tests pass.")
    stage.run("append", _SESSION, "Why is one skipped?")
    stage.run("context", _SESSION)
    stage.run("verify", _SESSION)


def _damage(stage: Stage) -> None:
    stage.chapter(
        "It is damaged", "Now a bit flips in the fourth line, and the last line is cut in half, as by a crash."
    )
    with open(os.path.join(stage.sessions, f"{_SESSION}.jsonl"), "r+b") as file:
        lines = file.readlines()
        file.seek(sum(map(len, lines[:3])) + 1)
        file.write(bytes([lines[3][1] ^ 0x04]))
        file.truncate(sum(map(len, lines)) - len(lines[-1]) // 2)
    stage.run("tail", _SESSION, "-n", "2", expected=4)
    stage.say("The rest is served, the harm is named. `verify` finds what no longer fits, `doctor` explains it.")
    stage.run("verify", _SESSION, expected=4)
    stage.run("doctor", _SESSION, expected=4)


def _recover(stage: Stage) -> None:
    stage.chapter("It is recovered", "A log is never rewritten. A clean copy goes into a new file, and proves itself.")
    stage.run("doctor", _SESSION, "--salvage", "clean.jsonl", expected=4)
    stage.run("verify", "clean.jsonl")
    stage.run("show", "clean.jsonl")
    stage.say("The damaged session goes on, too: the next append notes the cut line and stands behind it.")
    stage.run("append", _SESSION, "Are you still there?")


def _find(stage: Stage) -> None:
    stage.chapter(
        "It is found again", "Lists and searches answer from an index in the cache that may be deleted at any time."
    )
    stage.run("search", "slack")
    stage.run("ls")
    stage.run("export", "clean.jsonl", "--format", "md")


def _goodbye(stage: Stage) -> None:
    stage.chapter("Where to go next", "That was all in a temporary folder, which is gone now. To begin for real:")
    put("")
    put("    wakelog new --title 'My first session'")
    put("    wakelog append @latest 'Hello'")
    put("    wakelog show @latest")
    stage.say(
        "docs/cli.md describes every command, docs/format.md every byte of a log; `wakelog --help` lists the rest."
    )
