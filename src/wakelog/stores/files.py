"""A folder of session files and what may be done in it: the system calls under the JSONL store.

Rule 1: every name is checked against the grammar and opened relative to the folder's descriptor
without following links, so no name on the way in or out can leave the folder.
Rule 2: files are created with mode 0600 in folders with mode 0700, whatever the umask. A folder of another user is
written to only if that user is trusted (`custody`). The mode of a folder that exists is never changed.
Rule 3: what the system refuses becomes one `StoreError` that says what to do; refused permissions are `NoAccess`.
"""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator

from wakelog.errors import BadId, NoAccess, NotFound, StoreError, TooManyOpenFiles
from wakelog.log import names
from wakelog.log.lines import Line, split_backwards
from wakelog.ports import Exposure
from wakelog.stores.custody import Custody, Owners, folders_above
from wakelog.stores.locking import DEFAULT_WAIT, LockWait, lock_file

LOG_SUFFIX = ".jsonl"
_SUBFOLDERS = ("by-id", "by-title", ".locks", ".journals", ".blobs")
BLOCK_BYTES = 1024 * 1024
_NO_FOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_TAIL_BLOCK_BYTES = 64 * 1024
_SMALL_BYTES = 16 * 1024
# How long a reader waits for an append under way to finish its line, and how often it looks.
_SETTLING_S = 0.25
_LOOK_S = 0.001
_HINTS = {
    errno.ENOSPC: "the disk is full: free some space and try again",
    errno.EDQUOT: "the quota is used up: free some space and try again",
    errno.EFBIG: "the file may not grow any further: raise the limit",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "check who owns it and its permissions, and those of the folders above it",
    errno.EPERM: "check who owns it and its permissions, and those of the folders above it",
    errno.EIO: "the disk reported an error; what was acknowledged before is kept",
    errno.ELOOP: "symbolic links are not followed inside a store",
    errno.ENOTDIR: "the store must be a folder",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`), or work on fewer sessions at once",
    errno.ENFILE: "the whole system has too many files open: end some programs, or raise the limit `fs.file-max`",
}


@contextlib.contextmanager
def storage(what: str) -> Iterator[None]:
    """Turns an `OSError` into a `StoreError` that says what was being done and what to do now."""
    try:
        yield
    except OSError as error:
        raise storage_error(what, error) from error


def storage_error(what: str, error: OSError) -> StoreError:
    """What the system refused, said in our words: what was being done, and what to do now."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    is_denied = isinstance(error, PermissionError)
    # Who is to change permissions must know of what.
    path = os.fsdecode(error.filename) if is_denied and error.filename else ""
    place = f" ({path})" if not f"{what} ".endswith(f"{path} ") else ""
    is_used_up = error.errno in (errno.EMFILE, errno.ENFILE)
    kind = NoAccess if is_denied else TooManyOpenFiles if is_used_up else StoreError
    return kind(f"cannot {what}: {reason}{place}", hint=_HINTS.get(error.errno or 0, ""))


class Folder:
    """One store's folder. Made on the first write, never on a read."""

    def __init__(self, path: str, owners: Owners = (), *, lock_wait: LockWait = DEFAULT_WAIT) -> None:
        self.path = os.path.abspath(path)
        self.custody = Custody(owners)
        self.lock_wait = lock_wait

    # ── opening ──────────────────────────────────────────────────────────────────────────────────

    def make(self, *parts: str) -> str:
        """A folder of the store, made if it is not there; refused if it is a link or somebody else's."""
        path = self.path
        with storage(f"make the folder {os.path.join(path, *parts)}"):
            if not os.path.isdir(path):
                make_private_folders(os.path.dirname(path))
            self._make_ours(path, follow=True)
            for part in parts:
                path = os.path.join(path, part)
                self._make_ours(path, follow=False)
        return path

    def inside(self, *parts: str) -> str:
        """The path of a folder of the store, there or not. A link on the way is refused."""
        path = self.path
        for part in parts:
            path = os.path.join(path, part)
            if os.path.islink(path):
                raise StoreError(f"{path} is not a folder", hint=_HINTS[errno.ELOOP])
        return path

    def open_log(self, name: str, *, write: bool = False) -> int:
        """A descriptor of a session's file."""
        path = self.log_path(name)
        mode = os.O_RDWR | os.O_APPEND if write else os.O_RDONLY
        try:
            descriptor = no_follow(path, mode)
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
        """Where a session's file is."""
        return os.path.join(self.path, checked_name(name) + LOG_SUFFIX)

    def log_names(self, prefix: str = "") -> Iterator[os.DirEntry[str]]:
        """The session files of the folder whose names begin so. Links and names outside the grammar are left out."""
        with storage(f"list {self.path}"):
            try:
                entries = os.scandir(self.path)
            except FileNotFoundError:
                return
        # A hundred thousand names pass here, and most are ASCII.
        fits, suffix = names.ASCII_NAME.fullmatch, len(LOG_SUFFIX)
        with entries:
            for entry in entries:
                name = entry.name
                if not name.endswith(LOG_SUFFIX) or not name.startswith(prefix):
                    continue
                is_name = fits(name[:-suffix]) or names.is_name(name[:-suffix])
                if is_name and entry.is_file(follow_symlinks=False):
                    yield entry

    def _make_ours(self, path: str, *, follow: bool) -> None:
        """One folder, made if it is not there. What is created in it is durable only if its own name is."""
        if not os.path.lexists(path):
            with contextlib.suppress(FileExistsError):
                _make_private_folder(path)
                _sync_or_undo(path)
        found = os.stat(path, follow_symlinks=follow)
        if not stat.S_ISDIR(found.st_mode):
            reason = errno.ELOOP if stat.S_ISLNK(found.st_mode) else errno.ENOTDIR
            raise StoreError(f"{path} is not a folder", hint=_HINTS[reason])
        self.custody.check_owner("the folder", path, found)

    # ── owners and modes ─────────────────────────────────────────────────────────────────────────

    def exposures(self, paths: Iterable[str] = (), log: str | None = None) -> Iterator[Exposure]:
        """What is exposed of the folders above the store, the store, a log by its name, and paths inside the store.

        The log is judged by what is opened. Links inside the store are left out because they are never followed.
        """
        for above in folders_above(self.path):
            yield from self._judged(above, self.custody.exposure_above, follow=True)
        yield from self._judged(self.path, self.custody.exposure, follow=True)
        for path in (*(os.path.join(self.path, name) for name in _SUBFOLDERS), *paths):
            yield from self._judged(path, self.custody.exposure, follow=False)
        if log is not None:
            yield from self._judged_log(log)

    def _judged(
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

    def _judged_log(self, name: str) -> Iterator[Exposure]:
        descriptor = self.open_log(name)
        try:
            exposure = self.custody.exposure(self.log_path(name), os.fstat(descriptor))
        finally:
            os.close(descriptor)
        if exposure is not None:
            yield exposure

    # ── small files beside the logs ──────────────────────────────────────────────────────────────

    def read_small(self, *parts: str) -> bytes | None:
        """The content of a small file, or None."""
        path = os.path.join(self.inside(*parts[:-1]), parts[-1])
        with storage(f"read {path}"):
            try:
                descriptor = no_follow(path, os.O_RDONLY)
            except (FileNotFoundError, NotADirectoryError):
                return None
            try:
                return os.read(descriptor, _SMALL_BYTES)
            finally:
                os.close(descriptor)

    def replace_small(self, content: bytes, *parts: str) -> None:
        """Replaces a small file as a whole, so that no reader sees half of it."""
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

    # ── the append lock ──────────────────────────────────────────────────────────────────────────

    def open_lock(self, name: str, *, make: bool) -> int | None:
        """A descriptor of the file that a session's append lock is taken on. It is never unlinked.

        A reader makes none, and does without where there is none that it may open.
        """
        lock = checked_name(name) + ".lock"
        if make:
            return os.open(os.path.join(self.make(".locks"), lock), os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o600)
        try:
            return no_follow(os.path.join(self.inside(".locks"), lock), os.O_RDONLY)
        except (OSError, StoreError):
            return None

    def lock(self, descriptor: int, how: int, lock: str) -> None:
        """Take a `flock` lock on an open file, shared or exclusive; `StoreBusy` where it is not free in time."""
        lock_file(descriptor, how, lock, self.lock_wait)

    def settled_size(self, name: str, descriptor: int) -> int:
        """The size of a log that no append is in the middle of.

        A reader never waits for the append lock. Where the last byte is not LF, an append may be under way: the reader
        tests whether the lock is free, and looks again for a short time while it is not. A writer that was stopped
        in the middle of a line is not waited for any longer: its line is then read as the torn line that it is.
        """
        size = _whole_lines(descriptor)
        if size is not None:
            return size
        lock = self.open_lock(name, make=False)
        if lock is None:
            return os.fstat(descriptor).st_size
        try:
            return _settled(descriptor, lock)
        finally:
            os.close(lock)


def _whole_lines(descriptor: int) -> int | None:
    """The size of a log that ends with a whole line; None for one that does not."""
    size = os.fstat(descriptor).st_size
    return size if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n" else None


def _settled(descriptor: int, lock: int) -> int:
    """The size of a log once its last line is whole, or no append is under way, or the time is up."""
    until = time.monotonic() + _SETTLING_S
    while True:
        is_free = _is_free(lock)
        size = _whole_lines(descriptor)
        if size is not None:
            return size
        if is_free or time.monotonic() >= until:
            return os.fstat(descriptor).st_size
        time.sleep(_LOOK_S)


def _is_free(lock: int) -> bool:
    """Whether no append is under way: the lock is taken and let go at once, and never waited for."""
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(lock, fcntl.LOCK_UN)
    return True


def make_private_folders(path: str) -> None:
    """Makes a folder and those above it that are missing, each with mode 0700 whatever the umask."""
    if os.path.isdir(path):
        return
    if os.path.dirname(path) != path:
        make_private_folders(os.path.dirname(path))
    with contextlib.suppress(FileExistsError):
        _make_private_folder(path)


def _make_private_folder(path: str) -> None:
    """Makes a folder with mode 0700; `FileExistsError` if something has that name."""
    os.mkdir(path, 0o700)
    if stat.S_IMODE(os.lstat(path).st_mode) & stat.S_IRWXU != stat.S_IRWXU:
        # The umask took rights from the owner.
        os.chmod(path, 0o700)


def _sync_or_undo(path: str) -> None:
    """Makes a fresh folder's name durable; if that fails, the next try must find it missing and sync it again."""
    try:
        sync_folder(os.path.dirname(path))
    except OSError:
        os.rmdir(path)
        raise


def no_follow(path: str, flags: int) -> int:
    """Opens what is at a path, and nothing that it points to; never waits for the other end of a pipe."""
    return os.open(path, flags | _NO_FOLLOW)


def checked_name(name: str) -> str:
    """`name` itself if it may be a file name here, or `BadId`."""
    if ".." in name:
        raise BadId(f"not a session name: {name[:60]!r}", hint="two dots may not follow each other in a file name")
    return encodable(names.checked_name(name))


def encodable(name: str) -> str:
    """`name` itself if the locale of this process can write it as a file name, or `StoreError`."""
    if not name.isascii():
        try:
            os.fsencode(name)
        except UnicodeEncodeError as error:
            hint = "use a UTF-8 locale: set PYTHONUTF8=1, or LC_ALL=C.UTF-8"
            raise StoreError(f"the locale cannot write the file name {name!a}", hint=hint) from error
    return name


def write_all(descriptor: int, content: bytes) -> None:
    """One write; more only if the system took less than all of it."""
    done = os.write(descriptor, content)
    while done < len(content):
        done += os.write(descriptor, memoryview(content)[done:])


def sync_folder(path: str) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def blocks(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    """The bytes of a file from `start` to `end`, block by block."""
    while start < end:
        block = os.pread(descriptor, min(BLOCK_BYTES, end - start), start)
        if not block:
            return
        yield block
        start += len(block)


def lines_backwards(descriptor: int, end: int) -> Iterator[Line]:
    """The lines of a file from the last to the first."""
    return split_backwards(_blocks_backwards(descriptor, end), end=end)


def _blocks_backwards(descriptor: int, end: int) -> Iterator[bytes]:
    """The bytes of a file from `end` to its start, in blocks that grow: mostly the end is all that is wanted."""
    size = _TAIL_BLOCK_BYTES
    while end > 0:
        size = min(size, end)
        end -= size
        yield os.pread(descriptor, size, end)
        size = min(2 * size, BLOCK_BYTES)
