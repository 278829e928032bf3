"""Signal dispositions of a test run, whichever way it was started.

`nohup` starts a program with SIGHUP ignored, and a shell without job control starts a background job with SIGINT and
SIGQUIT ignored. Children inherit that through `exec`, so that a test which ends a child with such a signal would wait
for ever. A handler is not inherited: with one in place of "ignored", the run goes on ignoring the signal and its
children begin with the default.
"""

import signal

INHERITED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def let_children_begin_with_defaults() -> None:
    """Replace "ignored" by a handler for the signals that tests send to their children."""
    for number in INHERITED:
        if signal.getsignal(number) is signal.SIG_IGN:
            # `asyncio` and the tests of it expect Python's own handler of SIGINT, and an interrupt ends the run.
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else _ignore)


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing, as if the signal were ignored."""
