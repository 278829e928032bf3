"""Command line interface: the table of commands and the entry point `main`.

Rule 1: stdout is data, stderr is everything else; the `--json` shapes are stable (`docs/cli.md`).
Rule 2: modules are imported on demand. Only this file and `stores/__init__` import modules by name. This file imports
almost nothing, so that `--version` starts fast.
Rule 3: every stored string passes through `ui.safe_text` before it is written to a terminal.
Rule 4: modules of `commands` do not import each other; what they share is in `app` or `ui`.
Reading order: main, ui.options, ui.errors, ui.output, ui.terminal, then a command.
"""

import gc
import importlib
import sys
from types import ModuleType

from wakelog.version import VERSION

# Every command: its module and its summary, in the order and under the headings of `--help`.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "chat": ("commands.chat", "Talk with an agent on this terminal."),
        "run": ("commands.run", "Ask an agent once."),
        "wake": ("commands.wake", "Let a session go on from wherever it was left."),
        "cancel": ("commands.attention", "End the turn that a session is in."),
        "attention": ("commands.attention", "List what waits for a person, and decide it."),
        "rerun": ("commands.attention", "Have a tool run again, on a branch of its own."),
        "service": ("commands.service", "Wake sessions on boot and by a timer."),
    },
    "Write": {
        "new": ("commands.append", "Begin a session."),
        "append": ("commands.append", "Say something at the head of a session."),
        "compact": ("commands.append", "Let a summary stand for what came before."),
        "rename": ("commands.rename", "Give a session a title."),
        "label": ("commands.rename", "Name an entry."),
        "archive": ("commands.rename", "Put a session away, or bring it back."),
        "end": ("commands.rename", "End a session for good."),
    },
    "Branch": {
        "tree": ("commands.tree", "Draw every branch of a session."),
        "head": ("commands.fork", "Show or move the place where the next entry goes."),
        "fork": ("commands.fork", "Branch from an entry, here or into a new session."),
    },
    "Read": {
        "ls": ("commands.ls", "List sessions, the newest first."),
        "show": ("commands.show", "Show what was said and done."),
        "context": ("commands.context", "Show what the model would see."),
        "tail": ("commands.tail", "Show the last entries, and follow."),
        "search": ("commands.ls", "Search the text of all sessions."),
        "usage": ("commands.context", "Add up tokens and cost, each call once."),
        "export": ("commands.export", "Write a session out as JSONL, Markdown or JSON."),
        "copy": ("commands.copy", "Copy sessions to another store."),
    },
    "Check": {
        "verify": ("commands.verify", "Prove that nobody touched a log."),
        "replay": ("commands.replay", "Let a session happen again from its log alone."),
        "doctor": ("commands.verify", "Explain damage; write a clean copy."),
        "du": ("commands.du", "Show what takes up space."),
        "gc": ("commands.du", "Remove blobs that no log names."),
    },
    "More": {
        "config": ("commands.config", "Show the configuration and where it comes from, or check it."),
        "demo": ("demo.command", "Take a tour in a store of its own."),
        "completions": ("commands.completions", "Print a completion script for your shell."),
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
    code: int = load("wakelog.cli.main").run(sys.argv[1:])
    gc.freeze()
    return code
