"""Message text that commands read, entries that they print, and notes on stderr about both."""

import contextlib
import os
import sys
from collections.abc import Sequence

from wakelog.cli.ui.errors import note
from wakelog.cli.ui.options import SharedOptions
from wakelog.cli.ui.output import put, put_lines
from wakelog.cli.ui.quantities import plural
from wakelog.cli.ui.safe_text import first_line, visible
from wakelog.errors import UsageError
from wakelog.log.content import Text
from wakelog.log.entry import Entry, Message, Queued
from wakelog.ports.catalogs import Catalog


def note_unread(catalog: Catalog) -> None:
    """Report on stderr the sessions that could not be read or summarised, and so are missing from the results."""
    _note_inaccessible(catalog.inaccessible())
    failed = catalog.unsummarised()
    if failed:
        name, reason = next(iter(failed.items()))
        rest = f", and {plural(len(failed) - 1, 'more session')}" if len(failed) > 1 else ""
        note(
            f"cannot summarise {visible(name)}: {first_line(reason)}{rest}; `wakelog verify {visible(name)}` checks it"
        )


def _note_inaccessible(names: Sequence[str]) -> None:
    if names:
        listed = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        sessions = plural(len(names), "session")
        note(f"no access to {sessions}: {listed}; check the owner and permissions of the logs")


def working_folder() -> str:
    """Return the working folder as encodable text; empty if it no longer exists."""
    with contextlib.suppress(OSError):
        return os.fsencode(os.getcwd()).decode(errors="replace")
    return ""


def note_clipped(entry: Entry) -> None:
    """Note on stderr that a text was too long for one line, and which blob holds all of it."""
    message = entry.value.message if isinstance(entry.value, Message | Queued) else None
    for part in message.parts if message is not None else ():
        if isinstance(part, Text) and part.blob is not None:
            note(
                f"a text of {part.blob.bytes:,} bytes is too long for one log line: the model sees its beginning and "
                f"its end; the whole text is stored as blob {part.blob.digest}"
            )


def single_text(words: tuple[str, ...]) -> str:
    """Return the one text that was given. Several words are refused: the shell dropped the spaces between them."""
    if len(words) > 1:
        raise UsageError(f"expected one text, got {len(words)} words", hint="put the text in quotes")
    return words[0]


def read_stdin() -> str:
    """Return all of standard input. `UsageError` if it is not UTF-8."""
    if sys.stdin.isatty():
        note("type the message and end it with Ctrl-D")
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise UsageError("standard input is not UTF-8 text", hint="a message must be UTF-8 text") from None


def put_entry(shared: SharedOptions, entry: Entry) -> None:
    """Print the written entry: as stored with `--json`, else its id."""
    put_lines([entry.raw]) if shared.json else put(entry.id)
