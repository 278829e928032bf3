"""Command line interface: the table of commands and the entry point `main`.

Rule 1: stdout is data, stderr is everything else; the `--json` shapes are stable (`docs/cli.md`).
Rule 2: modules are imported on demand. Only this file and `stores/__init__` import modules by name. This file imports
almost nothing, so that `--version` starts fast.
Rule 3: every stored string passes through `safe` before it is written to a terminal.
Reading order: group, options, failures, places, addresses, safe, output, draw, then the commands.
"""

import gc
import importlib
import sys
from types import ModuleType

from wakelog.version import VERSION

# Every command: its module and its summary, in the order and under the headings of `--help`.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "chat": ("chat", "Talk with an agent on this terminal."),
        "run": ("run", "Ask an agent once."),
        "wake": ("wake", "Let a session go on from wherever it was left."),
        "cancel": ("deciding", "End the turn that a session is in."),
        "attention": ("deciding", "List what waits for a person, and decide it."),
        "rerun": ("deciding", "Have a tool run again, on a branch of its own."),
        "service": ("service", "Wake sessions on boot and by a timer."),
    },
    "Write": {
        "new": ("write", "Begin a session."),
        "append": ("write", "Say something at the head of a session."),
        "compact": ("write", "Let a summary stand for what came before."),
        "rename": ("marks", "Give a session a title."),
        "label": ("marks", "Name an entry."),
        "archive": ("marks", "Put a session away, or bring it back."),
        "end": ("ending", "End a session for good."),
    },
    "Branch": {
        "tree": ("trees", "Draw every branch of a session."),
        "head": ("branch", "Show or move the place where the next entry goes."),
        "fork": ("branch", "Branch from an entry, here or into a new session."),
    },
    "Read": {
        "ls": ("listing", "List sessions, the newest first."),
        "show": ("show", "Show what was said and done."),
        "context": ("read", "Show what the model would see."),
        "tail": ("tail", "Show the last entries, and follow."),
        "search": ("listing", "Search the text of all sessions."),
        "usage": ("read", "Add up tokens and cost, each call once."),
        "export": ("export", "Write a session out as JSONL, Markdown or JSON."),
        "copy": ("copy", "Copy sessions to another store."),
    },
    "Check": {
        "verify": ("check", "Prove that nobody touched a log."),
        "replay": ("replay", "Let a session happen again from its log alone."),
        "doctor": ("check", "Explain damage; write a clean copy."),
        "du": ("disk", "Show what takes up space."),
        "gc": ("collect", "Remove blobs that no log names."),
    },
    "More": {
        "config": ("config", "Show the configuration and where it comes from, or check it."),
        "demo": ("demo", "Take a tour in a store of its own."),
        "completions": ("completions", "Print a completion script for your shell."),
    },
}
COMMANDS = {name: place for section in SECTIONS.values() for name, place in section.items()}
ALIASES = {"list": "ls"}
# Allocations before the first garbage collection: more than any command makes while it loads.
_OBJECTS_LOADED = 50_000


def load(module: str) -> ModuleType:
    """Import a module by its full name and return it."""
    return importlib.import_module(module)


def main() -> int:
    """Run the command line of this process and return its exit code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        sys.stdout.write(f"wakelog {VERSION}\n")
        return 0
    # Objects that a command loads live until it ends. Collecting them every few hundred allocations, and once more at
    # exit, frees nothing and takes an eighth of the time of a short command.
    gc.set_threshold(_OBJECTS_LOADED)
    code: int = load("wakelog.cli.group").run(sys.argv[1:])
    gc.freeze()
    return code
