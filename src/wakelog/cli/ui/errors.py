"""Errors and exit codes of the command line: one line with what failed and what to do, and a code.

Exit codes, the first that applies: 130 interrupted, 2 usage, 3 not found, 5 conflict, lease lost or store busy, 7
refused because of who owns or may write to a file, 1 failed, 6 needs a person, 4 damaged (the output is still given),
0. No user action prints a traceback, unless `WAKELOG_TRACEBACK=1` is set.
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from wakelog.cli import load
from wakelog.cli.ui.safe_text import json_line, visible
from wakelog.errors import Conflict, NotFound, StoreBusy, Untrusted, UsageError, WakelogError

if TYPE_CHECKING:
    from wakelog.log.lines import Damage

INTERRUPTED = 130
USAGE = 2
NOT_FOUND = 3
CONFLICT = 5
UNTRUSTED = 7
FAILED = 1
NEEDS_ATTENTION = 6
DAMAGED = 4
# The code a shell reports for a process that SIGPIPE ended.
PIPE_CLOSED = 141
_DAMAGE_SHOWN = 5
BUNDLE_HINT = "`wakelog export -f bundle` writes one file with the log, its blobs and the sessions it needs"


def exit_code(error: BaseException) -> int:
    """Return the exit code of an exception."""
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, click.UsageError | UsageError):
        return USAGE
    if isinstance(error, NotFound):
        return NOT_FOUND
    if isinstance(error, Untrusted):
        return UNTRUSTED
    return CONFLICT if isinstance(error, Conflict | StoreBusy) else FAILED


def report_error(error: BaseException, *, as_json: bool) -> int:
    """Print an error on stderr and return its exit code."""
    code = exit_code(error)
    if code == INTERRUPTED:
        return code
    if os.environ.get("WAKELOG_TRACEBACK"):
        load("traceback").print_exception(error)
    kind, message, hint = _error_parts(error)
    if as_json:
        problem = {"kind": kind, "message": visible(message), "hint": visible(hint)}
        _write_stderr(json_line({"error": problem}).decode())
    else:
        _write_stderr(f"wakelog: {visible('; '.join(filter(None, (message, hint))))}\n")
    return code


def _error_parts(error: BaseException) -> tuple[str, str, str]:
    """Return the kind, the message and the hint of an exception."""
    if isinstance(error, WakelogError):
        return error.kind, error.message, error.hint
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "wakelog"
        return "usage", " ".join(error.format_message().split()).rstrip("."), f"see `{path} --help`"
    if isinstance(error, click.ClickException):
        return "error", error.format_message(), ""
    if isinstance(error, OSError):
        what = os.strerror(error.errno) if error.errno else str(error)
        kind = "no_access" if isinstance(error, PermissionError) else "store"
        return kind, f"{error.filename}: {what}" if error.filename else what, ""
    if isinstance(error, MemoryError | RecursionError):
        return "error", f"the input is too large for one process ({type(error).__name__})", ""
    description = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return "bug", f"internal error: {description}", "set WAKELOG_TRACEBACK=1 for a traceback"


def note(text: str) -> None:
    """Print one line on stderr."""
    _write_stderr(f"wakelog: {visible(text)}\n")


def note_damage(
    session: str, damage: "Sequence[Damage]", *, brief: bool = False, rest: str = "the rest is served"
) -> None:
    """Report damage on stderr, with its places unless `brief`. `rest` says what became of the other entries."""
    for item in () if brief else damage[:_DAMAGE_SHOWN]:
        where = f"line {item.line}, byte {item.offset}" if item.line else f"byte {item.offset}"
        note(f"{item.session or session}: {where}: {item.reason}")
    if damage:
        places = "a damaged place" if len(damage) == 1 else f"{len(damage)} damaged places"
        note(f"{session} has {places}, {rest}; `wakelog doctor {session}` explains")


def note_damage_before_append(session: str, damage: "Sequence[Damage]") -> None:
    """Report on stderr, after an append, the damage that was found before it."""
    if any(item.kind == "torn" for item in damage):
        note(f"{session} ended in an incomplete line that was never acknowledged; the log records this now")
    note_damage(session, [item for item in damage if item.kind != "torn"], brief=True)


def exit_if_damaged(session: str, damage: "Sequence[Damage]") -> None:
    """Report damage and exit with `DAMAGED`, after the output was given; return if there is none."""
    note_damage(session, damage)
    if damage:
        raise click.exceptions.Exit(DAMAGED)


def _write_stderr(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        # stderr cannot be written, so there is no way to report that.
        return
