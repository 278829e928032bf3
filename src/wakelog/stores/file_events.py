"""File events: notifications of changes to files and folders by Linux inotify, without a dependency.

There is one inotify instance for each process, because the system limits their number per user (128 by default). One
daemon thread reads its events and wakes the followers of the path. Where inotify is not available (other systems, no
free instance or watch), `PathWatches.set` returns False, and the caller polls. Even with inotify a caller looks again
at intervals: changes that another machine makes on a shared file system cause no events.
"""

import contextlib
import functools
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wakelog.stores import load

MODIFIED = 0x002
CREATED = 0x100 | 0x080
"""A file or folder was created in a folder, or moved into it."""
_GONE = 0x400 | 0x800
_OVERFLOW = 0x4000
_IGNORED = 0x8000
_EVENT = struct.Struct("iIII")
_READ_BYTES = 64 * 1024

Wake = Callable[[], None]


class FileEvents:
    """The inotify instance of this process and the followers of its paths."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._descriptor = -1
        self._wakes: dict[int, list[Wake]] = {}

    def add(self, path: str, mask: int, wake: Wake) -> int | None:
        """Call `wake` from the event thread when `path` changes; return the number of the watch, or None."""
        library = _inotify()
        if library is None:
            return None
        with self._lock:
            if self._descriptor < 0 and not self._start(library):
                return None
            watch: int = library.inotify_add_watch(self._descriptor, os.fsencode(path), mask | _GONE)
            if watch < 0:
                return None
            self._wakes.setdefault(watch, []).append(wake)
            return watch

    def remove(self, watch: int, wake: Wake) -> None:
        """Stop calling `wake`; the last one of a path ends its watch."""
        library = _inotify()
        with self._lock:
            wakes = self._wakes.get(watch)
            if wakes is None or library is None:
                return
            wakes.remove(wake)
            if not wakes:
                del self._wakes[watch]
                library.inotify_rm_watch(self._descriptor, watch)

    def _start(self, library: Any) -> bool:
        """Create the instance and the thread that reads it."""
        self._descriptor = library.inotify_init1(os.O_CLOEXEC)
        if self._descriptor < 0:
            return False
        threading.Thread(target=self._read, name="wakelog-file-events", daemon=True).start()
        return True

    def _read(self) -> None:
        while True:
            try:
                raw = os.read(self._descriptor, _READ_BYTES)
            except OSError:
                return
            with self._lock:
                for wake in self._concerned(raw):
                    wake()

    def _concerned(self, raw: bytes) -> list[Wake]:
        """The functions to call for a block of events, each once."""
        found: dict[Wake, None] = {}
        at = 0
        while at < len(raw):
            watch, mask, _, length = _EVENT.unpack_from(raw, at)
            at += _EVENT.size + length
            known = list(self._wakes.values()) if mask & _OVERFLOW else [self._wakes.get(watch, [])]
            found |= {wake: None for wakes in known for wake in wakes}
            if mask & _IGNORED:
                # The file is gone, and its watch with it.
                self._wakes.pop(watch, None)
        return list(found)

    def forget(self) -> None:
        """Close the descriptor that a forked process has inherited; the parent keeps its own."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._begin()


_EVENTS = FileEvents()
os.register_at_fork(after_in_child=_EVENTS.forget)


class PathWatches:
    """The watched paths of one follower: added and removed as the set of paths changes."""

    def __init__(self, wake: Wake) -> None:
        self._wake = wake
        self._watches: dict[str, int] = {}

    def set(self, paths: Mapping[str, int]) -> bool:
        """Watch exactly these paths, given with their masks; return whether all of them are watched."""
        for path in [path for path in self._watches if path not in paths]:
            _EVENTS.remove(self._watches.pop(path), self._wake)
        for path, mask in paths.items():
            if path not in self._watches and (watch := _EVENTS.add(path, mask, self._wake)) is not None:
                self._watches[path] = watch
        return len(self._watches) == len(paths)


@contextlib.contextmanager
def watching_paths(wake: Wake) -> Iterator[PathWatches]:
    """Watches of one follower, which end with the block."""
    watches = PathWatches(wake)
    try:
        yield watches
    finally:
        watches.set({})


@functools.cache
def _inotify() -> Any:
    """The C library if it has inotify, else None. Loaded on first use: importing ctypes takes milliseconds."""
    if not sys.platform.startswith("linux"):
        return None
    with contextlib.suppress(ImportError, OSError):
        library = load("ctypes").CDLL(None)
        return library if hasattr(library, "inotify_init1") else None
    return None
