"""Sync many files at once: the waits overlap, and each file gets its own result.

A sync is mostly waiting, and a file system commits concurrent syncs together. `KernelSync` submits them with Linux
native AIO: one call submits all, one more waits for all. Linux accepts the sync of a file's content as an asynchronous
operation (`IOCB_CMD_FDSYNC`, since 4.18) and returns for each file the result of `fdatasync`. The C library has no
functions for these system calls, so they are made by number. 64 sessions that append at once reach 1.5 times the rate
of `ThreadSync`, with half the CPU time for each entry. Where the kernel does not support them, `ThreadSync` uses
a few threads. `FilesystemSync` instead makes one `syncfs` call, which writes everything that is unwritten on the file
system. Its cost depends on what other programs write there, so it is used only on request.
Rule 1: files that the kernel does not accept are synced with `fdatasync`, one after the other.
Rule 2: if results are missing, all files of the call count as failed. They are not synced again, because a second sync
may report success for data that the first one lost.
Rule 3: an AIO context is used by one caller at a time, and belongs to the process that created it.
Loaded on first use: appends to one session at a time do not need it.
"""

import ctypes
import errno
import os
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from wakelog.errors import UsageError

# io_setup, io_destroy, io_getevents, io_submit
_SYSCALL_NUMBERS = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
_FDSYNC = 3
SYNCS_MAX = 128


class _Request(ctypes.Structure):
    """`struct iocb` on a little-endian machine."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("flags", ctypes.c_int32),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("descriptor", ctypes.c_uint32),
        ("unused", ctypes.c_uint64 * 5),
    )


class _Event(ctypes.Structure):
    """`struct io_event`."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("result", ctypes.c_int64),
        ("more", ctypes.c_int64),
    )


class KernelSync:
    """See `FileSync`. The constructor raises `OSError` where the kernel does not support or allow these calls."""

    def __init__(self) -> None:
        system = os.uname()
        # A 32-bit program on a 64-bit machine has other system call numbers.
        if system.sysname != "Linux" or system.machine not in _SYSCALL_NUMBERS or ctypes.sizeof(ctypes.c_void_p) != 8:
            raise OSError(errno.ENOSYS, "asynchronous syncs are not supported here")
        self._setup, self._destroy, self._getevents, self._submit = _SYSCALL_NUMBERS[system.machine]
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.syscall.restype = ctypes.c_long
        self._turn = threading.Lock()
        self._requests = (_Request * SYNCS_MAX)()
        self._addresses = (ctypes.c_void_p * SYNCS_MAX)()
        self._events = (_Event * SYNCS_MAX)()
        for at in range(SYNCS_MAX):
            self._requests[at].data, self._requests[at].opcode = at, _FDSYNC
            self._addresses[at] = ctypes.addressof(self._requests) + at * ctypes.sizeof(_Request)
        self._context: ctypes.c_ulong | None = None
        self._pid = os.getpid()
        self._open_context()

    def _open_context(self) -> ctypes.c_ulong:
        """The AIO context of this process, created on first use."""
        if self._context is None:
            made = ctypes.c_ulong(0)
            self._call(self._setup, ctypes.c_long(SYNCS_MAX), ctypes.byref(made))
            self._context = made
            self._end = weakref.finalize(self, self._libc.syscall, ctypes.c_long(self._destroy), made)
            # A thread may still wait for results when the process exits, which ends the context anyway.
            self._end.atexit = False
        return self._context

    def _reset_after_fork(self) -> None:
        """Reset the state in a forked child: contexts are not inherited, and the parent's lock may have been held."""
        if self._pid != os.getpid():
            if self._context is not None:
                self._end.detach()
            self._context, self._turn, self._pid = None, threading.Lock(), os.getpid()

    def sync(self, descriptors: Sequence[int]) -> list[OSError | None]:
        """See `FileSync`."""
        failures: list[OSError | None] = []
        for start in range(0, len(descriptors), SYNCS_MAX):
            failures += self._sync_some(descriptors[start : start + SYNCS_MAX])
        return failures

    def _sync_some(self, descriptors: Sequence[int]) -> list[OSError | None]:
        if len(descriptors) == 1:
            return [fdatasync(descriptors[0])]
        self._reset_after_fork()
        with self._turn:
            try:
                context = self._open_context()
            except OSError:
                return list(map(fdatasync, descriptors))
            try:
                failures, taken = self._submit_all(context, descriptors)
                self._wait(context, taken, failures)
            except BaseException as error:
                self._close_context()
                if isinstance(error, OSError):
                    return [error] * len(descriptors)
                raise
        return failures

    def _submit_all(self, context: ctypes.c_ulong, descriptors: Sequence[int]) -> tuple[list[OSError | None], int]:
        """Submit all syncs; return the errors known so far and the number of results to wait for."""
        failures: list[OSError | None] = [None] * len(descriptors)
        for request, descriptor in zip(self._requests, descriptors, strict=False):
            request.descriptor = descriptor
        at = taken = 0
        while at < len(descriptors):
            rest = ctypes.byref(self._addresses, at * ctypes.sizeof(ctypes.c_void_p))
            try:
                more = self._call(self._submit, context, ctypes.c_long(len(descriptors) - at), rest)
            except OSError:
                more = 0
            at, taken = at + more, taken + more
            if not more:
                failures[at] = fdatasync(descriptors[at])
                at += 1
        return failures, taken

    def _wait(self, context: ctypes.c_ulong, taken: int, failures: list[OSError | None]) -> None:
        while taken:
            count = ctypes.c_long(taken)
            try:
                got = self._call(self._getevents, context, count, count, ctypes.byref(self._events), None)
            except InterruptedError:
                continue
            for event in self._events[:got]:
                failures[event.data] = _os_error(-event.result) if event.result < 0 else None
            taken -= got

    def _call(self, number: int, *arguments: object) -> int:
        result: int = self._libc.syscall(ctypes.c_long(number), *arguments)
        if result < 0:
            raise _os_error(ctypes.get_errno())
        return result

    def _close_context(self) -> None:
        if self._context is not None:
            self._end()
        self._context = None

    def close(self) -> None:
        """See `FileSync`."""
        self._reset_after_fork()
        with self._turn:
            self._close_context()


def fdatasync(descriptor: int) -> OSError | None:
    """Sync the content of one file; return the error, or None."""
    try:
        os.fdatasync(descriptor)
    except OSError as error:
        return error
    return None


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


# More threads than this only compete for the interpreter lock.
_THREADS = 16
# Older versions of Linux do not report write errors from syncfs.
_SYNCFS_REPORTS_ERRORS = (5, 8)


class FileSync(Protocol):
    """A way to make the content of files durable."""

    def sync(self, descriptors: Sequence[int]) -> list[OSError | None]:
        """Sync the content of files; return the error of each, or None, in the order given."""
        ...

    def close(self) -> None:
        """Release threads and kernel resources; the next use creates them again."""
        ...


def open_file_sync() -> FileSync:
    """The best available way to sync files individually and concurrently: in the kernel, else in threads."""
    try:
        return KernelSync()
    except OSError:
        return ThreadSync()


class ThreadSync:
    """Syncs each file in one of a few threads. A forked child process starts its own threads."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._pid = os.getpid()

    def sync(self, descriptors: Sequence[int]) -> list[OSError | None]:
        """See `FileSync`. The calling thread syncs the first share itself, so a single file needs no other thread."""
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
        """See `FileSync`."""
        if self._threads is not None and self._pid == os.getpid():
            self._threads.shutdown(wait=False)
        self._threads = None


class FilesystemSync:
    """One `syncfs` for all files of a file system: fast if other programs write little there, else slow."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "syncfs") or _linux_version() < _SYNCFS_REPORTS_ERRORS:
            raise UsageError(
                "this system does not report errors of syncfs",
                hint="use Linux 5.8 or newer, or sync each file (the default)",
            )

    def sync(self, descriptors: Sequence[int]) -> list[OSError | None]:
        """See `FileSync`. An error does not show which file failed, so it counts for all files of that file system."""
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
        """See `FileSync`. Does nothing: no resources are held."""


def _sync_each(descriptors: Sequence[int]) -> list[OSError | None]:
    return list(map(fdatasync, descriptors))


def _linux_version() -> tuple[int, int]:
    """The major and minor version of the Linux kernel; (0, 0) on other systems."""
    system = os.uname()
    major, _, rest = system.release.partition(".")
    minor = rest.partition(".")[0].partition("-")[0]
    is_known = system.sysname == "Linux" and major.isdigit() and minor.isdigit()
    return (int(major), int(minor)) if is_known else (0, 0)
