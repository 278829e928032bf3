"""A page cache over a device, simulated around the calls that the stores make: what a power cut would leave of a file.

The files are real, and are what the page cache shows. The device is kept here, page by page. A sync copies the pages
that were written since the last one; a sync that fails forgets them without copying, as the kernel may do, and all
later ones report success.
"""

import contextlib
import errno
import os

import pytest

_PAGE = 4096


class PageCache:
    """Replaces the system calls on the files of one folder, for one test."""

    def __init__(self, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = os.path.realpath(folder)
        self._device: dict[str, bytearray] = {}
        self._dirty: dict[str, set[int]] = {}
        self.failing: list[str] = []
        self.planned = self.applied = 0
        self.rewritten: list[tuple[int, int]] = []
        self._real = {name: getattr(os, name) for name in ("write", "pwrite", "fdatasync", "fsync")}
        for name in self._real:
            monkeypatch.setattr(os, name, getattr(self, name))

    def fail(self, *names: str) -> None:
        """Let the next call fail on a file of each of these names; a name that is given twice fails twice."""
        self.failing += names
        self.planned += len(names)

    def cut(self, path: str) -> bytes:
        """The content of a file after a power cut now."""
        return bytes(self._device.get(os.path.realpath(path), b""))

    def write(self, descriptor: int, content: bytes) -> int:
        place = os.fstat(descriptor).st_size if self._path(descriptor) else 0
        return self._written(descriptor, place, self._real["write"](descriptor, content))

    def pwrite(self, descriptor: int, content: bytes, place: int) -> int:
        count = self._written(descriptor, place, self._real["pwrite"](descriptor, content, place))
        self.rewritten.append((place, place + count))
        return count

    def _written(self, descriptor: int, place: int, count: int) -> int:
        if path := self._path(descriptor):
            self._dirty.setdefault(path, set()).update(range(place // _PAGE, (place + count - 1) // _PAGE + 1))
        return count

    def fdatasync(self, descriptor: int) -> None:
        path = self._path(descriptor)
        dirty = self._dirty.pop(path, set()) if path else set()
        if (name := os.path.basename(path)) in self.failing:
            self.failing.remove(name)
            self.applied += 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        for page in sorted(dirty):
            self._copy(path, page)

    def fsync(self, descriptor: int) -> None:
        self.fdatasync(descriptor)
        with contextlib.suppress(OSError):
            self._real["fsync"](descriptor)

    def _copy(self, path: str, page: int) -> None:
        """Copy a page to the device. A hole before it reads as zeros, as on a file system."""
        device, start = self._device.setdefault(path, bytearray()), page * _PAGE
        with open(path, "rb") as file:
            file.seek(start)
            content = file.read(_PAGE)
        device.extend(bytes(max(0, start - len(device))))
        device[start : start + len(content)] = content

    def _path(self, descriptor: int) -> str:
        """The path of a file in the folder; empty for all others."""
        path = os.readlink(f"/proc/self/fd/{descriptor}").removesuffix(" (deleted)")
        return path if path.startswith(self._folder + os.sep) else ""
