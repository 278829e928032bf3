"""File operations shared by stores: errors with hints, private folders, syncs, and rewriting of bytes in doubt.

An `OSError` becomes a `StoreError` with a hint what to do; denied permissions become `NoAccess`.
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
import stat
from collections.abc import Iterator

from wakelog.errors import NoAccess, StoreError, TooManyOpenFiles

ERRNO_HINTS = {
    errno.ENOSPC: "the disk is full: free some space and try again",
    errno.EDQUOT: "the quota is used up: free some space and try again",
    errno.EFBIG: "the file size limit is reached: raise it (`ulimit -f`)",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "check its owner and permissions, and those of the folders above it",
    errno.EPERM: "check its owner and permissions, and those of the folders above it",
    errno.EIO: "the disk reported an error; entries acknowledged before are kept",
    errno.ELOOP: "symbolic links are not followed inside a store",
    errno.ENOTDIR: "the store must be a folder",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`), or work on fewer sessions at once",
    errno.ENFILE: "the system has too many open files: end some programs, or raise the limit `fs.file-max`",
}


@contextlib.contextmanager
def storage(what: str) -> Iterator[None]:
    """Turn an `OSError` into a `StoreError` that names the failed operation and what to do about it."""
    try:
        yield
    except OSError as error:
        raise storage_error(what, error) from error


def storage_error(what: str, error: OSError) -> StoreError:
    """The `StoreError` for an `OSError`: the failed operation, the reason, and a hint what to do."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    is_denied = isinstance(error, PermissionError)
    # A user who has to change permissions needs the path.
    path = os.fsdecode(error.filename) if is_denied and error.filename else ""
    place = f" ({path})" if not f"{what} ".endswith(f"{path} ") else ""
    is_used_up = error.errno in (errno.EMFILE, errno.ENFILE)
    kind = NoAccess if is_denied else TooManyOpenFiles if is_used_up else StoreError
    return kind(f"cannot {what}: {reason}{place}", hint=ERRNO_HINTS.get(error.errno or 0, ""))


def make_private_folders(path: str) -> None:
    """Create a folder and its missing parents, each with mode 0700 whatever the umask."""
    if os.path.isdir(path):
        return
    if os.path.dirname(path) != path:
        make_private_folders(os.path.dirname(path))
    with contextlib.suppress(FileExistsError):
        make_private_folder(path)


def make_private_folder(path: str) -> None:
    """Create a folder with mode 0700; `FileExistsError` if the name is taken."""
    os.mkdir(path, 0o700)
    if stat.S_IMODE(os.lstat(path).st_mode) & stat.S_IRWXU != stat.S_IRWXU:
        # The umask removed permissions of the owner.
        os.chmod(path, 0o700)


def write_all(descriptor: int, content: bytes) -> None:
    """Write all bytes, in one system call unless the kernel accepts only a part."""
    done = os.write(descriptor, content)
    while done < len(content):
        done += os.write(descriptor, memoryview(content)[done:])


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# A process that reads the file while a block is rewritten may find zeros there, so a block is small.
_BLOCK_BYTES = 64 * 1024
# Start offsets of doubts whose mark could not be written, by device and inode of the lock file.
_UNMARKED_DOUBTS: dict[tuple[int, int], int] = {}


def doubt_of(lock: int) -> int | None:
    """The offset from which the file of this lock is in doubt; None if it is not."""
    size = os.lseek(lock, 0, os.SEEK_END)
    if size:
        return size - 1
    return _UNMARKED_DOUBTS.get(_file_id(lock)) if _UNMARKED_DOUBTS else None


def mark_doubt(lock: int, start: int) -> None:
    """Mark the file of this lock as in doubt from byte `start` on, or from an earlier byte that is marked already.

    Raises no error, because it is called while another error is being handled.
    """
    earlier = doubt_of(lock)
    start = start if earlier is None else min(start, earlier)
    try:
        os.ftruncate(lock, start + 1)
        os.fsync(lock)
    except OSError:
        _UNMARKED_DOUBTS[_file_id(lock)] = start


def clear_doubt(lock: int) -> None:
    """Remove the mark. If that fails, the bytes are written once more, which does no harm."""
    _UNMARKED_DOUBTS.pop(_file_id(lock), None)
    with contextlib.suppress(OSError):
        os.ftruncate(lock, 0)


def rewrite_in_doubt(descriptor: int, start: int) -> None:
    """Write the bytes of a file from `start` to its end again at their offsets, sync them and read them back.

    The descriptor must not be in append mode: Linux would write every block behind the end. The file time is set
    because a file system without a journal may have lost the inode too, and writes an inode only if it has changed.
    """
    start -= start % mmap.PAGESIZE
    end = os.fstat(descriptor).st_size
    for place in range(start, end, _BLOCK_BYTES):
        _rewrite_block(descriptor, place, min(_BLOCK_BYTES, end - place))
    os.utime(descriptor)
    os.fsync(descriptor)
    _check_device(descriptor, start, end)


def _rewrite_block(descriptor: int, place: int, count: int) -> None:
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


def doubt_error(what: str, error: OSError) -> StoreError:
    """The error for an append to a file in doubt whose bytes could not be written again."""
    reason = storage_error(f"rewrite the bytes of {what} that a failed sync left in doubt", error)
    hint = "appends are refused until the disk takes them; entries acknowledged before are kept"
    return type(reason)(reason.message, hint="; ".join(filter(None, (reason.hint, hint))))


def _file_id(lock: int) -> tuple[int, int]:
    found = os.fstat(lock)
    return found.st_dev, found.st_ino
