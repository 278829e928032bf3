"""Parse a typed line: a message or a slash command. Pure; `doing.py` executes the commands.

A command is a slash and a word of letters, then a space or the end: `/etc/passwd is missing` is a message. A second
slash (`//help`) sends the line without the first one. An unknown command is never sent as a message; the nearest
command is suggested instead.
"""

import difflib
import re
from typing import Literal, TypeAlias

import msgspec

Takes: TypeAlias = Literal["", "entry", "model", "session", "text", "tool"]


class Command(msgspec.Struct, frozen=True):
    """A command: name, help text, kind and display of its argument, and whether the argument is required."""

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
# Names that other programs use.
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
    """A command with its argument."""

    name: str
    given: str = ""


class Nothing(msgspec.Struct, frozen=True):
    """A line that does nothing, with the reason in one line; empty for a blank line."""

    why: str = ""


Meaning: TypeAlias = Say | Do | Nothing


def meaning(typed: str) -> Meaning:
    """Return the meaning of a typed text."""
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
    """Return what to type to send `words` as a message."""
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
    """Return how a command is typed."""
    return f"/{command.name} {command.shown}".rstrip()
