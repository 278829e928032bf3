"""Files in doubt: track bytes that may be missing on the device after a failed write or sync, and write them again.

After a failed sync the kernel may mark the pages it could not write as clean. A reader still gets their bytes from the
page cache and the next sync reports success, but after a power cut the bytes are gone, and with them every entry
behind them. So a file is in doubt from the last byte that is known to be synced.
Rule 1: nothing is acknowledged while a file is in doubt. The bytes are first read through the page cache, written again
at the same offsets, which marks their pages as dirty again, synced, and compared with what the device returns.
Rule 2: the size of the lock file marks the doubt for other processes: 0 is no doubt, N is doubt from byte N - 1 on.
A size needs no free block, so it can be set on a full disk, and it costs one system call to read.
Rule 3: the mark is read, written and removed under the lock. It need not survive a power cut, because reads after a
power cut come from the device; a mark that does survive only costs a rewrite.
Rule 4: where the mark cannot be written, this process remembers the doubt. Other processes are then not warned.
"""

import contextlib
import errno
import mmap
import os

from wakelog.errors import StoreError
from wakelog.stores.files import storage_error

# A process that reads the file while a block is rewritten may find zeros there, so a block is small.
_BLOCK_BYTES = 64 * 1024
# Start offsets of doubts whose mark could not be written, by device and inode of the lock file.
_UNMARKED: dict[tuple[int, int], int] = {}


def doubt_of(lock: int) -> int | None:
    """The offset from which the file of this lock is in doubt; None if it is not."""
    size = os.lseek(lock, 0, os.SEEK_END)
    if size:
        return size - 1
    return _UNMARKED.get(_identity(lock)) if _UNMARKED else None


def mark(lock: int, start: int) -> None:
    """Mark the file of this lock as in doubt from byte `start` on, or from an earlier byte that is marked already.

    Raises no error, because it is called while another error is being handled.
    """
    earlier = doubt_of(lock)
    start = start if earlier is None else min(start, earlier)
    try:
        os.ftruncate(lock, start + 1)
        os.fsync(lock)
    except OSError:
        _UNMARKED[_identity(lock)] = start


def clear(lock: int) -> None:
    """Remove the mark. If that fails, the bytes are written once more, which does no harm."""
    _UNMARKED.pop(_identity(lock), None)
    with contextlib.suppress(OSError):
        os.ftruncate(lock, 0)


def write_again(descriptor: int, start: int) -> None:
    """Write the bytes of a file from `start` to its end again at their offsets, sync them and read them back.

    The descriptor must not be in append mode: Linux would write every block behind the end. The file time is set
    because a file system without a journal may have lost the inode too, and writes an inode only if it has changed.
    """
    start -= start % mmap.PAGESIZE
    end = os.fstat(descriptor).st_size
    for place in range(start, end, _BLOCK_BYTES):
        _rewrite(descriptor, place, min(_BLOCK_BYTES, end - place))
    os.utime(descriptor)
    os.fsync(descriptor)
    _check_device(descriptor, start, end)


def _rewrite(descriptor: int, place: int, count: int) -> None:
    """Read whole pages, drop them from the page cache and write their bytes again.

    A page that stays in the cache keeps ext4's state of its block from before the failed write. ext4 then writes the
    block but does not record that it is in use, and reads it as zeros after a power cut.
    """
    content = os.pread(descriptor, count, place)
    os.posix_fadvise(descriptor, place, count, os.POSIX_FADV_DONTNEED)
    done = 0
    while done < len(content):
        done += os.pwrite(descriptor, memoryview(content)[done:], place + done)


def _check_device(descriptor: int, start: int, end: int) -> None:
    """Compare the device with the page cache; `OSError` if they differ. Skipped where direct reads are unsupported."""
    try:
        direct = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError:
        return
    try:
        with mmap.mmap(-1, _BLOCK_BYTES) as buffer:
            for place in range(start, end, _BLOCK_BYTES):
                count = _read_directly(direct, buffer, place)
                if count is not None and buffer[:count] != os.pread(descriptor, _BLOCK_BYTES, place):
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
    finally:
        os.close(direct)


def _read_directly(direct: int, buffer: mmap.mmap, place: int) -> int | None:
    """The number of bytes read directly from the device; None where the file system does not support that."""
    try:
        return os.preadv(direct, [buffer], place)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise


def refusal(what: str, error: OSError) -> StoreError:
    """The error for an append to a file in doubt whose bytes could not be written again."""
    reason = storage_error(f"write the bytes of {what} again that a failed sync left in doubt", error)
    hint = "nothing is appended until the disk takes them; what was acknowledged before is kept"
    return type(reason)(reason.message, hint="; ".join(filter(None, (reason.hint, hint))))


def _identity(lock: int) -> tuple[int, int]:
    found = os.fstat(lock)
    return found.st_dev, found.st_ino
