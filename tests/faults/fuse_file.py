"""One file served over FUSE: the part of the kernel's protocol that a loop device on it needs.

The protocol is spoken directly on `/dev/fuse` (version 7.31, `linux/fuse.h`), so no library has to be installed. The
caller says what a read, a write and a flush do; a raised `OSError` is what the loop device reports as the disk's error.
"""

import ctypes
import errno
import os
import stat
import struct
from typing import Protocol

NAME = "disk"
_MINOR = 31
# A write of the loop device must arrive as one: were it split and the second part refused, FUSE would report a short
# write, and a loop device takes that for a success.
_MAX_WRITE = 1024 * 1024
_BIG_WRITES, _MAX_PAGES = 1 << 5, 1 << 22
_ROOT, _FILE = 1, 2
_NOSUID, _NODEV = 2, 4

_IN = struct.Struct("<IIQQIIIHH")
_OUT = struct.Struct("<IiQ")
_READ_WRITE = struct.Struct("<QQIIQII")
_ATTR = struct.Struct("<6Q10I")
_LOOKUP, _FORGET, _GETATTR, _SETATTR, _OPEN, _READ, _WRITE, _STATFS = 1, 2, 3, 4, 14, 15, 16, 17
_RELEASE, _FSYNC, _FLUSH, _INIT, _OPENDIR, _RELEASEDIR, _ACCESS, _BATCH_FORGET = 18, 20, 25, 26, 27, 29, 34, 42
_UNANSWERED = (_FORGET, _BATCH_FORGET)


class Disk(Protocol):
    """The content of the file."""

    size: int

    def read(self, offset: int, count: int) -> bytes: ...

    def write(self, offset: int, content: bytes) -> None: ...

    def flush(self) -> None: ...


def mounted(folder: str) -> int:
    """Mount a FUSE file system on a folder; return the descriptor of its requests. Closing it ends the file system."""
    fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"wakelog-disk", os.fsencode(folder), b"fuse", _NOSUID | _NODEV, options) != 0:
        raise OSError(ctypes.get_errno(), f"cannot mount FUSE: {os.strerror(ctypes.get_errno())}")
    return fuse


def answer_one(fuse: int, disk: Disk) -> None:
    """Read one request of the kernel and answer it."""
    request = os.read(fuse, _MAX_WRITE + 64 * 1024)
    _, opcode, unique, node, *_ = _IN.unpack_from(request)
    if opcode in _UNANSWERED:
        return
    try:
        body, error = _answer(opcode, node, request[_IN.size :], disk), 0
    except OSError as refused:
        body, error = b"", refused.errno or errno.EIO
    os.write(fuse, _OUT.pack(_OUT.size + len(body), -error, unique) + body)


def _answer(opcode: int, node: int, body: bytes, disk: Disk) -> bytes:
    if opcode == _INIT:
        flags, pages = _BIG_WRITES | _MAX_PAGES, _MAX_WRITE // 4096
        return struct.pack("<IIIIHHIIHHI7I", 7, _MINOR, 0, flags, 16, 12, _MAX_WRITE, 1, pages, 0, 0, *(0,) * 7)
    if opcode == _LOOKUP:
        if body.rstrip(b"\0") != NAME.encode():
            raise FileNotFoundError(errno.ENOENT, "")
        return struct.pack("<QQQQII", _FILE, 0, 3600, 3600, 0, 0) + _attributes(_FILE, disk)
    if opcode in (_GETATTR, _SETATTR):
        return struct.pack("<QII", 3600, 0, 0) + _attributes(node, disk)
    if opcode in (_OPEN, _OPENDIR):
        return struct.pack("<QII", 0, 0, 0)
    if opcode == _READ:
        _, offset, count, *_ = _READ_WRITE.unpack_from(body)
        return disk.read(offset, count)
    if opcode == _WRITE:
        _, offset, count, *_ = _READ_WRITE.unpack_from(body)
        disk.write(offset, body[_READ_WRITE.size : _READ_WRITE.size + count])
        return struct.pack("<II", count, 0)
    if opcode == _FSYNC:
        disk.flush()
        return b""
    if opcode == _STATFS:
        return struct.pack("<5Q10I", 0, 0, 0, 0, 0, 4096, 255, 4096, 0, *(0,) * 6)
    if opcode in (_RELEASE, _RELEASEDIR, _FLUSH, _ACCESS):
        return b""
    raise OSError(errno.ENOSYS, "")


def _attributes(node: int, disk: Disk) -> bytes:
    size, mode = (disk.size, stat.S_IFREG | 0o600) if node == _FILE else (0, stat.S_IFDIR | 0o700)
    return _ATTR.pack(node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
