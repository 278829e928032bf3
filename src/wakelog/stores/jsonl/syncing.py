"""Making many files durable at once: the waits overlap, and each file gets an answer of its own.

A sync is mostly waiting, and a file system writes out what several of them ask for together. So the kernel is handed
all of them (`kernel_syncs.py`) or, where it takes none, a few threads are kept for it. `FilesystemSync` is the other
way: one wait for everything that is unwritten on the file system, whoever wrote it. What it costs is decided by the
neighbours, so it must be asked for.
"""

import ctypes
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from wakelog.errors import UsageError
from wakelog.stores.jsonl.kernel_syncs import KernelSyncs, fdatasync

# More threads than this only hand the interpreter to one another.
_THREADS = 16
# Before this Linux keeps what went wrong to itself.
_SYNCFS_TELLS = (5, 8)


class Sync(Protocol):
    """A way to make the content of files durable."""

    def sync(self, descriptors: Sequence[int]) -> list[OSError | None]:
        """Syncs the content of files; what went wrong with each, in the order given."""
        ...

    def close(self) -> None:
        """Lets go of what it holds; the next use takes it anew."""
        ...


def file_syncs() -> Sync:
    """A sync a file, side by side in the best way there is here."""
    try:
        return KernelSyncs()
    except OSError:
        return ThreadSyncs()


class ThreadSyncs:
    """A sync a file, by a few threads. They belong to the process that made them."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._pid = os.getpid()

    def sync(self, descriptors: Sequence[int]) -> list[OSError | None]:
        """See `Sync`. The first share is ours: one file alone is synced without waking anybody."""
        hands = min(_THREADS, len(descriptors))
        begun = [self._hands().submit(_sync_each, descriptors[hand::hands]) for hand in range(1, hands)]
        failures: list[OSError | None] = [None] * len(descriptors)
        failures[0::hands] = _sync_each(descriptors[0::hands])
        for hand, share in enumerate(begun, 1):
            failures[hand::hands] = share.result()
        return failures

    def _hands(self) -> ThreadPoolExecutor:
        if self._threads is None or self._pid != os.getpid():
            self._threads, self._pid = ThreadPoolExecutor(_THREADS, "wakelog-sync"), os.getpid()
        return self._threads

    def close(self) -> None:
        """See `Sync`."""
        if self._threads is not None and self._pid == os.getpid():
            self._threads.shutdown(wait=False)
        self._threads = None


class FilesystemSync:
    """One `syncfs` for all files of a file system. Fast where few others write there, and slow where many do."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "syncfs") or _linux() < _SYNCFS_TELLS:
            raise UsageError(
                "this system cannot say whether a file system was synced",
                hint="it takes Linux 5.8 or newer; sync each file instead",
            )

    def sync(self, descriptors: Sequence[int]) -> list[OSError | None]:
        """See `Sync`. If it fails nobody knows which file it was: it was all of them."""
        systems = [os.fstat(descriptor).st_dev for descriptor in descriptors]
        chosen = dict(zip(systems, descriptors, strict=True))
        failures = {system: self._syncfs(descriptor) for system, descriptor in chosen.items()}
        return [failures[system] for system in systems]

    def _syncfs(self, descriptor: int) -> OSError | None:
        if self._libc.syncfs(descriptor) == 0:
            return None
        number = ctypes.get_errno()
        return OSError(number, os.strerror(number))

    def close(self) -> None:
        """See `Sync`; nothing is held."""


def _sync_each(descriptors: Sequence[int]) -> list[OSError | None]:
    return list(map(fdatasync, descriptors))


def _linux() -> tuple[int, int]:
    """The version of the kernel, as far as it counts; (0, 0) for others."""
    system = os.uname()
    major, _, rest = system.release.partition(".")
    minor = rest.partition(".")[0].partition("-")[0]
    is_known = system.sysname == "Linux" and major.isdigit() and minor.isdigit()
    return (int(major), int(minor)) if is_known else (0, 0)
