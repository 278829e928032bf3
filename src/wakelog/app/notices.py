"""Notices and progress for the user: a front end registers receivers; without receivers they are dropped.

`OutputClosed` ends a command when the reader of its output has left. This module imports next to nothing, because every
command loads it.
"""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

ProgressCallback: TypeAlias = Callable[[int, int], None]
"""Called with the number of items that are done, and of all items."""


class OutputClosed(BaseException):
    """The reader of stdout has closed the pipe; the rest of the output is not needed.

    It ends the command, as Ctrl-C does. It is not a channel failure, which would be retried.
    """


class _Receivers:
    notify: Callable[[str], None] | None = None
    progress: Callable[[str], AbstractContextManager[ProgressCallback | None]] | None = None


def set_receivers(
    notify: Callable[[str], None], progress: Callable[[str], AbstractContextManager[ProgressCallback | None]]
) -> None:
    """Register the functions of this process's front end that display notices and progress."""
    _Receivers.notify = staticmethod(notify)
    _Receivers.progress = staticmethod(progress)


def notify(text: str) -> None:
    """Pass one line to the user."""
    if _Receivers.notify is not None:
        _Receivers.notify(text)


def progress(what: str) -> AbstractContextManager[ProgressCallback | None]:
    """Return a context with a callback for the progress of long work; None if it is not displayed."""
    return contextlib.nullcontext() if _Receivers.progress is None else _Receivers.progress(what)
