"""Syncing many files at once: the waits overlap, and each file gets an answer of its own.

A sync is mostly waiting, and a file system writes out what several of them ask for together. So a few
threads are kept for it, and nothing else is ever done in them.
"""

import os
from concurrent.futures import Future, ThreadPoolExecutor

# More threads than this only hand the interpreter to one another.
_THREADS = 16


class Syncs:
    """Threads that sync. They belong to the process that made them."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "wakelog-sync")
        self._pid = os.getpid()

    @property
    def are_ours(self) -> bool:
        """Whether the threads live in this process, and not in the one it was forked from."""
        return self._pid == os.getpid()

    def begin(self, descriptor: int) -> "Future[OSError | None]":
        """Begins to sync the content of a file; what comes of it is what went wrong, if anything did."""
        return self._threads.submit(_sync, descriptor)

    def close(self) -> None:
        """Lets the threads end."""
        if self.are_ours:
            self._threads.shutdown(wait=False)


def _sync(descriptor: int) -> OSError | None:
    try:
        os.fdatasync(descriptor)
    except OSError as error:
        return error
    return None
