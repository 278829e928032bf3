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
        "chat": ("commands.chat", "Chat with an agent in this terminal."),
        "run": ("commands.run", "Send one prompt to an agent and print its reply."),
        "wake": ("commands.wake", "Continue a session from its last state."),
        "cancel": ("commands.questions", "Cancel the current turn of a session."),
        "questions": ("commands.questions", "List questions and tools that may have run, or decide one."),
        "rerun": ("commands.questions", "Run a tool again, on a new branch."),
        "service": ("commands.service", "Wake sessions at boot and by a timer."),
    },
    "Write": {
        "new": ("commands.append", "Create a session."),
        "append": ("commands.append", "Append a message at the head of a session."),
        "compact": ("commands.append", "Replace older messages by a summary in the context."),
        "rename": ("commands.rename", "Set the title of a session."),
        "label": ("commands.rename", "Label an entry."),
        "archive": ("commands.rename", "Archive a session, or restore it."),
        "end": ("commands.rename", "End a session permanently."),
    },
    "Branch": {
        "tree": ("commands.tree", "Draw every branch of a session."),
        "head": ("commands.fork", "Show or move the head, where the next entry goes."),
        "fork": ("commands.fork", "Branch from an entry, in this session or a new one."),
    },
    "Read": {
        "ls": ("commands.ls", "List sessions, newest first."),
        "show": ("commands.show", "Show the transcript of a session."),
        "context": ("commands.context", "Show the context that the model would get."),
        "tail": ("commands.tail", "Show the last entries, or follow new ones."),
        "search": ("commands.ls", "Search the text of all sessions."),
        "usage": ("commands.context", "Add up tokens and cost of the model calls."),
        "audit": ("commands.audit", "List every tool call, and who or what allowed it."),
        "export": (
            "commands.export",
            "Export a session as JSONL, Markdown or JSON, or for another agent.",
        ),
        "handoff": ("commands.export", "Hand a session to another agent, in its own place."),
        "copy": ("commands.copy", "Copy sessions to another store."),
        "import": ("commands.import_sessions", "Import the sessions of other agents."),
    },
    "Check": {
        "verify": ("commands.verify", "Check that a log and its blobs are unchanged."),
        "replay": ("commands.replay", "Replay a session from its log."),
        "doctor": ("commands.verify", "Explain what is damaged, what was kept and what to do."),
        "du": ("commands.du", "Show the disk usage of each log."),
        "gc": ("commands.du", "Remove blobs that no log refers to."),
    },
    "More": {
        "config": ("commands.config", "Show the configuration with its sources, or check it."),
        "demo": ("demo.command", "Run a demonstration in a temporary store."),
        "completions": ("commands.completions", "Print a shell completion script."),
    },
}
COMMANDS = {name: place for section in SECTIONS.values() for name, place in section.items()}
ALIASES = {"list": "ls"}
# Allocations before the first garbage collection: more than any command makes while it loads.
_OBJECTS_LOADED = 100_000


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
