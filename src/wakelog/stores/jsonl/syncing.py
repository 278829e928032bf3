"""Sync many files at once: the waits overlap, and each file gets its own result.

A sync is mostly waiting, and a file system commits concurrent syncs together. So all of them are submitted to the
kernel as asynchronous operations (`kernel_syncs.py`) or, where it does not support that, to a few threads.
`FilesystemSync` instead makes one `syncfs` call, which writes everything that is unwritten on the file system. Its cost
depends on what other programs write there, so it is used only on request.
"""

import ctypes
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from wakelog.errors import UsageError
from wakelog.stores.jsonl.kernel_syncs import KernelSyncs, fdatasync

# More threads than this only compete for the interpreter lock.
_THREADS = 16
# Older versions of Linux do not report write errors from syncfs.
_SYNCFS_TELLS = (5, 8)


class Sync(Protocol):
    """A way to make the content of files durable."""

    def sync(self, descriptors: Sequence[int]) -> list[OSError | None]:
        """Sync the content of files; return the error of each, or None, in the order given."""
        ...

    def close(self) -> None:
        """Release threads and kernel resources; the next use creates them again."""
        ...


def file_syncs() -> Sync:
    """The best available way to sync files individually and concurrently: in the kernel, else in threads."""
    try:
        return KernelSyncs()
    except OSError:
        return ThreadSyncs()


class ThreadSyncs:
    """Syncs each file in one of a few threads. A forked child process starts its own threads."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._pid = os.getpid()

    def sync(self, descriptors: Sequence[int]) -> list[OSError | None]:
        """See `Sync`. The calling thread syncs the first share itself, so a single file needs no other thread."""
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
    """One `syncfs` for all files of a file system: fast if other programs write little there, else slow."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "syncfs") or _linux() < _SYNCFS_TELLS:
            raise UsageError(
                "this system cannot say whether a file system was synced",
                hint="it takes Linux 5.8 or newer; sync each file instead",
            )

    def sync(self, descriptors: Sequence[int]) -> list[OSError | None]:
        """See `Sync`. An error does not show which file failed, so it counts for all files of that file system."""
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
        """See `Sync`. Does nothing: no resources are held."""


def _sync_each(descriptors: Sequence[int]) -> list[OSError | None]:
    return list(map(fdatasync, descriptors))


def _linux() -> tuple[int, int]:
    """The major and minor version of the Linux kernel; (0, 0) on other systems."""
    system = os.uname()
    major, _, rest = system.release.partition(".")
    minor = rest.partition(".")[0].partition("-")[0]
    is_known = system.sysname == "Linux" and major.isdigit() and minor.isdigit()
    return (int(major), int(minor)) if is_known else (0, 0)
