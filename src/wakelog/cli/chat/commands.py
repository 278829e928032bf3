"""What a typed line means: something to say, or one of a few commands. Pure; what a command does stands in `doing.py`.

A command is a slash and a word of letters, then a space or the end: `/etc/passwd is missing` is something to say. A
second slash (`//help`) says the line as it is, without the first one. A word that is no command is never said by
mistake: the nearest command is named instead.
"""

import difflib
import re
from typing import Literal, TypeAlias

import msgspec

Takes: TypeAlias = Literal["", "entry", "model", "session", "text", "tool"]


class Command(msgspec.Struct, frozen=True):
    """A command: its name, what stands behind it, whether it can be left out, and what it does."""

    name: str
    help: str
    takes: Takes = ""
    shown: str = ""
    needs: bool = False


COMMANDS = {
    command.name: command
    for command in (
        Command("fork", "go on from here, or from an entry, in a session of its own", "entry", "[ENTRY]"),
        Command("tree", "draw every branch"),
        Command("head", "show the head, or go on from an earlier entry", "entry", "[ENTRY]"),
        Command("retry", "try a turn that has failed again"),
        Command("compact", "let a summary stand for what came before", "text", "[INSTRUCTIONS]"),
        Command("model", "show the model, or change it", "model", "[PROVIDER:NAME]"),
        Command("ask", "show which tools run unasked, or let one ask again", "tool", "[TOOL]"),
        Command("rename", "give the session a title", "text", "TITLE", needs=True),
        Command("new", "begin another session with the next message"),
        Command("open", "go on with another session", "session", "SESSION", needs=True),
        Command("steer", "say it to a busy agent at its next step", "text", "TEXT", needs=True),
        Command("attention", "show what waits for you"),
        Command("context", "show what the model sees"),
        Command("usage", "show what was spent"),
        Command("help", "show the commands and keys"),
        Command("quit", "leave; the session stays"),
    )
}
# What other programs call it.
_MEANT = {
    **dict.fromkeys(("exit", "q", "bye"), "quit"),
    **dict.fromkeys(("clear", "reset"), "new"),
    **dict.fromkeys(("resume", "switch", "load"), "open"),
    **dict.fromkeys(("rewind", "undo", "goto"), "head"),
    **dict.fromkeys(("cost", "tokens", "status"), "usage"),
    **dict.fromkeys(("branch",), "fork"),
    **dict.fromkeys(("summarise", "summarize", "fold"), "compact"),
    **dict.fromkeys(("title", "name"), "rename"),
    **dict.fromkeys(("approve", "pending"), "attention"),
    **dict.fromkeys(("again", "redo"), "retry"),
    **dict.fromkeys(("allow", "permissions", "tools"), "ask"),
    **dict.fromkeys(("interrupt",), "steer"),
}
_COMMAND = re.compile(r"/([a-z?]*)(?:\s+(.*))?", re.DOTALL)


class Say(msgspec.Struct, frozen=True):
    """A message."""

    text: str


class Do(msgspec.Struct, frozen=True):
    """A command, with what stands behind it."""

    name: str
    given: str = ""


class Nothing(msgspec.Struct, frozen=True):
    """A line that cannot be followed; why, in one line. Empty for a line that says nothing."""

    why: str = ""


Meaning: TypeAlias = Say | Do | Nothing


def meaning(typed: str) -> Meaning:
    """What a typed text means."""
    text = typed.strip("\n")
    if not text.strip():
        return Nothing()
    if text.startswith("//"):
        return Say(text[1:])
    found = _COMMAND.fullmatch(text.rstrip())
    if found is None:
        return Say(text)
    return _command(found[1], (found[2] or "").strip())


def as_typed(words: str) -> str:
    """What to type in order to say something."""
    return f"/{words}" if words.startswith("/") else words


def _command(word: str, given: str) -> Meaning:
    name = "help" if word in ("", "?") else word
    command = COMMANDS.get(name)
    if command is None:
        close = [_MEANT[name]] if name in _MEANT else difflib.get_close_matches(name, COMMANDS, n=1)
        meant = f"did you mean /{close[0]}?" if close else "/help lists them"
        return Nothing(f"there is no command /{name}; {meant}")
    if command.needs and not given:
        return Nothing(f"/{name} {command.shown}: {command.help}")
    if given and not command.takes:
        return Nothing(f"/{name} takes nothing behind it")
    return Do(name, given)


def usage_of(command: Command) -> str:
    """How a command is typed."""
    return f"/{command.name} {command.shown}".rstrip()
