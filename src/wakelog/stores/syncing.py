"""Syncing many files at once: the waits overlap, and each file gets an answer of its own.

A sync is mostly waiting, and a file system writes out what several of them ask for together. So a few
threads are kept for it, and nothing else is ever done in them.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

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

    def sync(self, descriptors: Sequence[int]) -> list[OSError | None]:
        """Syncs the content of files; what went wrong with each, in the order given."""
        hands = min(_THREADS, len(descriptors))
        begun = [self._threads.submit(_sync_each, descriptors[hand::hands]) for hand in range(1, hands)]
        failures: list[OSError | None] = [None] * len(descriptors)
        # The first share is ours: one file alone is synced without waking anybody.
        failures[0::hands] = _sync_each(descriptors[0::hands])
        for hand, share in enumerate(begun, 1):
            failures[hand::hands] = share.result()
        return failures

    def close(self) -> None:
        """Lets the threads end."""
        if self.are_ours:
            self._threads.shutdown(wait=False)


def _sync_each(descriptors: Sequence[int]) -> list[OSError | None]:
    return [_sync(descriptor) for descriptor in descriptors]


def _sync(descriptor: int) -> OSError | None:
    try:
        os.fdatasync(descriptor)
    except OSError as error:
        return error
    return None
