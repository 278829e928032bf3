"""Processes that kill themselves at a given point: forked from a program that has loaded everything and has no threads.

Nothing here waits for time. A worker dies at a place that is named beforehand (after so many characters were
displayed), by its own SIGKILL, so that no line of Python runs behind it; its parent sees the signal.
"""

import os
import signal
import sys
import traceback

KILLED = -signal.SIGKILL


def die():
    """Kill this process with SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)


def in_child(work):
    """Run a function in a process of its own; return its exit status, negative for a signal."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - the parent is told by the exit code, a reader by the lines
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Deadly:
    """A channel whose process is killed as soon as a number of characters of a reply has been displayed."""

    def __init__(self, channel, chars):
        self.name = channel.name
        self._channel = channel
        self._chars = chars

    async def begin(self, reply_id, attempt):
        await self._channel.begin(reply_id, attempt)
        if self._chars == 0:
            die()

    async def delta(self, reply_id, offset, text):
        await self._channel.delta(reply_id, offset, text)
        if offset + len(text) >= self._chars:
            die()

    async def reset(self, reply_id):
        await self._channel.reset(reply_id)

    async def end(self, reply_id):
        await self._channel.end(reply_id)
