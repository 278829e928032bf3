"""Folder of a JSONL store: open logs and locks, read and replace small files, check names and owners.

Rule 1: every session name is checked against the grammar, and symbolic links inside the folder are not followed, so
no name can lead outside the folder.
Rule 2: files are created with mode 0600 in folders with mode 0700, whatever the umask. A folder of another user is
written to only if that user is trusted (`stores/ownership.py`). The mode of an existing folder is never changed.
"""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator

from wakelog.errors import BadId, NotFound, StoreError
from wakelog.log import session_names
from wakelog.log.lines import Line, split_lines_backwards
from wakelog.ports.stores import Exposure
from wakelog.stores.files import (
    ERRNO_HINTS,
    make_private_folder,
    make_private_folders,
    storage,
    storage_error,
    sync_folder,
    write_all,
)
from wakelog.stores.locking import DEFAULT_WAIT, LockWait, lock_file
from wakelog.stores.ownership import Owners, OwnershipChecks, folders_above

LOG_SUFFIX = ".jsonl"
_SUBFOLDERS = ("by-id", "by-title", ".locks", ".journals", ".blobs")
BLOCK_BYTES = 1024 * 1024
FIRST_BLOCK_BYTES = 16 * 1024
_NO_FOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_TAIL_BLOCK_BYTES = 64 * 1024
_SMALL_BYTES = 16 * 1024
# How long a reader waits for an append in progress to finish its line, and how often it checks.
_SETTLING_S = 0.25
_SETTLING_POLL_S = 0.001


class Folder:
    """The folder of one store. It is created by the first write, never by a read."""

    def __init__(self, path: str, owners: Owners = (), *, lock_wait: LockWait = DEFAULT_WAIT) -> None:
        self.path = os.path.abspath(path)
        self.custody = OwnershipChecks(owners)
        self.lock_wait = lock_wait

    # ── opening ──────────────────────────────────────────────────────────────────────────────────

    def make(self, *parts: str) -> str:
        """Create a folder of the store if it is missing and return its path.

        Raises an error if the folder is a link inside the store or belongs to an untrusted user.
        """
        path = self.path
        with storage(f"create the folder {os.path.join(path, *parts)}"):
            if not os.path.isdir(path):
                make_private_folders(os.path.dirname(path))
            self._make_checked(path, follow=True)
            for part in parts:
                path = os.path.join(path, part)
                self._make_checked(path, follow=False)
        return path

    def inside(self, *parts: str) -> str:
        """The path of a folder of the store, which need not exist; `StoreError` if a part of it is a link."""
        path = self.path
        for part in parts:
            path = os.path.join(path, part)
            if os.path.islink(path):
                raise StoreError(f"{path} is not a folder", hint=ERRNO_HINTS[errno.ELOOP])
        return path

    def open_log(self, name: str, *, write: bool = False) -> int:
        """Open a session's log and return the descriptor; `NotFound` if there is none."""
        path = self.log_path(name)
        mode = os.O_RDWR | os.O_APPEND if write else os.O_RDONLY
        try:
            descriptor = open_no_follow(path, mode)
        except FileNotFoundError:
            raise NotFound(f"no session {name} in {self.path}") from None
        except OSError as error:
            raise storage_error(f"open {path}", error) from error
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            raise StoreError(f"{path} is not a file", hint="a session is a regular file")
        self.custody.notice(path, found)
        return descriptor

    def log_path(self, name: str) -> str:
        """The path of a session's log."""
        return os.path.join(self.path, checked_name(name) + LOG_SUFFIX)

    def lock_path(self, name: str) -> str:
        """The path of the lock file of a session's append lock."""
        return os.path.join(self.path, ".locks", checked_name(name) + ".lock")

    def log_names(self, prefix: str = "") -> Iterator[os.DirEntry[str]]:
        """The logs in the folder whose names begin with `prefix`, without links and names outside the grammar."""
        with storage(f"list {self.path}"):
            try:
                entries = os.scandir(self.path)
            except FileNotFoundError:
                return
        # The fast check comes first: there may be a hundred thousand names, and most are ASCII.
        fits, suffix = session_names.ASCII_NAME.fullmatch, len(LOG_SUFFIX)
        with entries:
            for entry in entries:
                name = entry.name
                if not name.endswith(LOG_SUFFIX) or not name.startswith(prefix):
                    continue
                is_name = fits(name[:-suffix]) or session_names.is_name(name[:-suffix])
                if is_name and entry.is_file(follow_symlinks=False):
                    yield entry

    def _make_checked(self, path: str, *, follow: bool) -> None:
        """Create one folder if it is missing, and check its owner.

        The name of a new folder is synced, because files in it are durable only if that name is.
        """
        if not os.path.lexists(path):
            with contextlib.suppress(FileExistsError):
                make_private_folder(path)
                _sync_or_undo(path)
        found = os.stat(path, follow_symlinks=follow)
        if not stat.S_ISDIR(found.st_mode):
            reason = errno.ELOOP if stat.S_ISLNK(found.st_mode) else errno.ENOTDIR
            raise StoreError(f"{path} is not a folder", hint=ERRNO_HINTS[reason])
        self.custody.check_owner("the folder", path, found)

    # ── owners and modes ─────────────────────────────────────────────────────────────────────────

    def exposures(self, paths: Iterable[str] = (), log: str | None = None) -> Iterator[Exposure]:
        """The exposures of the folders above the store, the store, paths inside it, and a log by its name.

        The log is checked by its open descriptor. Links inside the store are skipped because they are never followed.
        """
        for above in folders_above(self.path):
            yield from self._checked_path(above, self.custody.exposure_above, follow=True)
        yield from self._checked_path(self.path, self.custody.exposure, follow=True)
        for path in (*(os.path.join(self.path, name) for name in _SUBFOLDERS), *paths):
            yield from self._checked_path(path, self.custody.exposure, follow=False)
        if log is not None:
            yield from self._checked_log(log)

    def _checked_path(
        self, path: str, judge: Callable[[str, os.stat_result], Exposure | None], *, follow: bool
    ) -> Iterator[Exposure]:
        with storage(f"look at {path}"):
            try:
                found = os.stat(path, follow_symlinks=follow)
            except (FileNotFoundError, NotADirectoryError):
                return
        exposure = judge(path, found) if not stat.S_ISLNK(found.st_mode) else None
        if exposure is not None:
            yield exposure

    def _checked_log(self, name: str) -> Iterator[Exposure]:
        descriptor = self.open_log(name)
        try:
            exposure = self.custody.exposure(self.log_path(name), os.fstat(descriptor))
        finally:
            os.close(descriptor)
        if exposure is not None:
            yield exposure

    # ── small files beside the logs ──────────────────────────────────────────────────────────────

    def read_small(self, *parts: str) -> bytes | None:
        """The content of a small file; None if it does not exist."""
        path = os.path.join(self.inside(*parts[:-1]), parts[-1])
        with storage(f"read {path}"):
            try:
                descriptor = open_no_follow(path, os.O_RDONLY)
            except (FileNotFoundError, NotADirectoryError):
                return None
            try:
                return os.read(descriptor, _SMALL_BYTES)
            finally:
                os.close(descriptor)

    def replace_small(self, content: bytes, *parts: str) -> None:
        """Replace a small file atomically."""
        folder = self.make(*parts[:-1])
        path = os.path.join(folder, parts[-1])
        fresh = f"{path}.{os.getpid()}.new"
        with storage(f"write {path}"):
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_FOLLOW, 0o600)
            try:
                write_all(descriptor, content)
            finally:
                os.close(descriptor)
            os.replace(fresh, path)

    def rewrite_small(self, content: bytes, *parts: str) -> None:
        """Write a small file in place if it has the size of `content`; else replace it.

        Ten times faster than replacing it, because ext4 allocates a file on disk before it renames it over another one.
        A reader may find new bytes before old ones.
        """
        path = os.path.join(self.make(*parts[:-1]), parts[-1])
        with storage(f"write {path}"), contextlib.suppress(FileNotFoundError, PermissionError):
            descriptor = open_no_follow(path, os.O_WRONLY)
            try:
                if os.fstat(descriptor).st_size == len(content) == os.pwrite(descriptor, content, 0):
                    return
            finally:
                os.close(descriptor)
        self.replace_small(content, *parts)

    # ── the append lock ──────────────────────────────────────────────────────────────────────────

    def open_lock(self, name: str, *, make: bool) -> int | None:
        """Open the lock file of a session's append lock and return the descriptor. The file is never unlinked.

        With `make` it is created if missing. Without `make`, for readers, the result is None if it cannot be opened.
        """
        path = self.lock_path(name)
        if make:
            self.make(".locks")
            return os.open(path, os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o600)
        try:
            self.inside(".locks")
            return open_no_follow(path, os.O_RDONLY)
        except (OSError, StoreError):
            return None

    def lock(self, descriptor: int, how: int, lock: str) -> None:
        """Take a `flock` lock on an open file, shared or exclusive; `StoreBusy` where it is not free in time."""
        lock_file(descriptor, how, lock, self.lock_wait)

    def settled_size(self, name: str, descriptor: int) -> int:
        """The size of a log, with the line of an append in progress either complete or not begun, if possible.

        A reader never waits for the append lock. If the last byte is not LF, an append may be in progress: while the
        lock is taken, the size is read again for up to `_SETTLING_S`. After that, or if the lock is free, the size
        includes the torn line.
        """
        size = _size_if_complete(descriptor)
        if size is not None:
            return size
        lock = self.open_lock(name, make=False)
        if lock is None:
            return os.fstat(descriptor).st_size
        try:
            return _wait_until_settled(descriptor, lock)
        finally:
            os.close(lock)


def _size_if_complete(descriptor: int) -> int | None:
    """The size of a log that is empty or ends with LF; None for any other."""
    size = os.fstat(descriptor).st_size
    return size if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n" else None


def _wait_until_settled(descriptor: int, lock: int) -> int:
    """The size of a log once its last line is complete, or no append is in progress, or the time is up."""
    until = time.monotonic() + _SETTLING_S
    while True:
        is_free = _is_lock_free(lock)
        size = _size_if_complete(descriptor)
        if size is not None:
            return size
        if is_free or time.monotonic() >= until:
            return os.fstat(descriptor).st_size
        time.sleep(_SETTLING_POLL_S)


def _is_lock_free(lock: int) -> bool:
    """Whether no append is in progress: take the lock without waiting and release it at once."""
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(lock, fcntl.LOCK_UN)
    return True


def _sync_or_undo(path: str) -> None:
    """Make a new folder's name durable; if that fails, remove the folder, so that the next try syncs it again."""
    try:
        sync_folder(os.path.dirname(path))
    except OSError:
        os.rmdir(path)
        raise


def open_no_follow(path: str, flags: int) -> int:
    """Open a path without following a symbolic link, and without blocking on a named pipe."""
    return os.open(path, flags | _NO_FOLLOW)


def checked_name(name: str) -> str:
    """`name` itself if it is valid as a file name of the store; else `BadId`."""
    if ".." in name:
        raise BadId(f"not a session name: {name[:60]!r}", hint="a file name must not contain two consecutive dots")
    return encodable(session_names.checked_name(name))


def encodable(name: str) -> str:
    """`name` itself if the locale of this process can encode it as a file name; else `StoreError`."""
    if not name.isascii():
        try:
            os.fsencode(name)
        except UnicodeEncodeError as error:
            hint = "use a UTF-8 locale: set PYTHONUTF8=1, or LC_ALL=C.UTF-8"
            raise StoreError(f"the locale of this process cannot encode the file name {name!a}", hint=hint) from error
    return name


def blocks(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    """The bytes of a file from `start` to `end`, block by block. The first is small: many readers need one line."""
    size = FIRST_BLOCK_BYTES
    while start < end:
        block = os.pread(descriptor, min(size, end - start), start)
        if not block:
            return
        yield block
        start, size = start + len(block), BLOCK_BYTES


def lines_backwards(descriptor: int, end: int) -> Iterator[Line]:
    """The lines of a file from the last to the first."""
    return split_lines_backwards(_blocks_backwards(descriptor, end), end=end)


def _blocks_backwards(descriptor: int, end: int) -> Iterator[bytes]:
    """The bytes of a file from `end` to its start, in growing blocks: most readers need only the end."""
    size = _TAIL_BLOCK_BYTES
    while end > 0:
        size = min(size, end)
        end -= size
        yield os.pread(descriptor, size, end)
        size = min(2 * size, BLOCK_BYTES)
