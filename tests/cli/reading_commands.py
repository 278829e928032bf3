"""The commands that read a session, found in the program itself, so that a new one is tried by every test of this kind.

A new command that takes a session, and a new flag of an old one, is expected to read the session and to report what it
cannot read, unless it is put into one of the tables.
"""

import click

from wakelog.cli import COMMANDS
from wakelog.cli.main import wakelog

# Commands that read no log, or all of its bytes without decoding them.
READS_NO_ENTRIES = {"service", "new", "config", "demo", "completions", "du", "gc", "import"}
# Commands that list: they name the damaged session, and exit with 0. The words after the command.
LISTS = {"ls": [], "search": ["three"], "questions": []}
# Commands that write: they report that the session is damaged, and exit with 0.
WRITES = {
    "append": ["crab_user_1", "hi"],
    "compact": ["crab_user_1", "--summary", "all of it"],
    "rename": ["crab_user_1", "title"],
    "end": ["crab_user_1"],
    "label": ["crab_user_1", "1", "name"],
    "archive": ["crab_user_1"],
    "fork": ["crab_user_1", "--new-session"],
    "cancel": ["crab_user_1"],
    "rerun": ["crab_user_1:3"],
}
# Commands that run an agent. `chat` needs a terminal and has its own tests.
RUNS = {"chat", "run", "wake"}
# The arguments that a command needs besides the session.
MORE = {"copy": ["--to", "elsewhere"], "handoff": ["--to", "pi", "--dry-run"]}
# Flags that do not read the session, or make the command wait.
NOT_TRIED = {
    ("tail", "--follow"),
    ("show", "--follow"),
    ("copy", "--all"),
    ("context", "--exact"),
    ("usage", "--all"),
    ("audit", "--all"),
    ("verify", "--all"),
}
NOT_TRIED |= {
    ("questions", flag)
    for flag in ("--approve", "--deny", "--ran", "--did-not-run", "--unknown", "--run-again", "--dismiss", "--wake")
}
SHARED = {"--help", "--pager"}


def command_of(name):
    return wakelog.get_command(click.Context(wakelog), name)


def takes_a_session(name):
    return any(param.name in ("session", "sessions") for param in command_of(name).params)


def reading_commands(session):
    """Return every command that reads a session, with the session and the arguments that it needs."""
    names = sorted(set(COMMANDS) - READS_NO_ENTRIES - set(WRITES) - RUNS)
    return [(name, session, *MORE.get(name, [])) for name in names if takes_a_session(name)]


def ways_to_read():
    """Return every command that reads a session, as it is and with each of its flags."""
    for name, *rest in reading_commands("crab_user_1"):
        words = [name, *rest]
        yield words
        flags = {
            param.opts[-1] for param in command_of(name).params if isinstance(param, click.Option) and param.is_flag
        }
        yield from ([*words, flag] for flag in sorted(flags - SHARED) if (name, flag) not in NOT_TRIED)
