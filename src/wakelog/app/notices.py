"""Notices and progress for the user: the front end registers receivers; without one they are dropped.

`OutputClosed` ends a command when the reader of its output has left. This module imports nothing, because every command
loads it.
"""


class OutputClosed(BaseException):
    """The reader of stdout has closed the pipe; the rest of the output is not needed.

    It ends the command, as Ctrl-C does. It is not a channel failure, which would be retried.
    """
