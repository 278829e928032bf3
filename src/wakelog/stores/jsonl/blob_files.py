"""Blob files: store each blob as `.blobs/ab/ab12…`, named by the SHA-256 of its content.

Rule 1: content is written to a draft and synced before it gets its name, and the name is synced before
`put` returns. So a file with a blob's name is complete, whenever a process dies.
Rule 2: `put` takes the lock shared, `remove` and `tidy` take it exclusively. Putting an existing blob renews its
time, and `remove` checks the age under the lock. So a blob that was just put, and that no entry names yet, is never
removed.
Rule 3: reading takes no lock and creates no file, and content is returned only after its digest was checked.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator

from wakelog.errors import Damaged, NotFound
from wakelog.log.content import BlobRef
from wakelog.log.ids import digest_of, is_digest
from wakelog.ports.stores import StoredBlob, missing_blob
from wakelog.stores.files import storage, sync_folder, write_all
from wakelog.stores.jsonl.folder import Folder, blocks, open_no_follow

_FOLDER = ".blobs"
_LOCK = ".lock"
_DRAFT = ".new-"
_TAG = "sha256:"
_SUBFOLDER = re.compile(r"[0-9a-f]{2}")


class BlobFiles:
    """The blobs of one store folder. `now` is the clock of file times, in seconds since 1970."""

    def __init__(self, folder: Folder, *, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._now = now
        self._synced: set[str] = set()

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def put(self, content: bytes, media_type: str = "") -> BlobRef:
        """See `ports.Blobs`."""
        digest = digest_of(content)
        name = digest.removeprefix(_TAG)
        shelf = self._folder.make(_FOLDER, name[:2])
        path = os.path.join(shelf, name)
        with storage(f"keep the blob {digest}"), self._locked(fcntl.LOCK_SH):
            if not _is_renewed(path, content):
                _write(shelf, path, content)
            self._sync(shelf)
        return BlobRef(digest=digest, bytes=len(content), media_type=media_type)

    def _sync(self, shelf: str) -> None:
        """Sync a blob's name and, once for each shelf and process, the names of the folders above it.

        Existing names are synced as well: the process that created them may have died before its sync.
        """
        sync_folder(shelf)
        if shelf not in self._synced:
            sync_folder(os.path.dirname(shelf))
            sync_folder(self._folder.path)
            self._synced.add(shelf)

    @contextlib.contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        """Hold the lock between `put` and removal. Its file is never unlinked."""
        path = os.path.join(self._folder.inside(_FOLDER), _LOCK)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            self._folder.lock(descriptor, how, f"the lock of the blobs in {self._folder.path}")
            yield
        finally:
            # Closing is not enough: a child that another thread forked meanwhile shares the descriptor and its lock.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def get(self, ref: BlobRef) -> bytes:
        """See `ports.Blobs`."""
        with self._opened(ref) as descriptor, open(descriptor, "rb", closefd=False) as file:
            content = file.read(ref.bytes)
        if digest_of(content) != ref.digest:
            raise self._damaged(ref, "does not match its digest")
        return content

    def check(self, ref: BlobRef) -> None:
        """See `ports.Blobs`."""
        digest = hashlib.sha256()
        with self._opened(ref) as descriptor:
            for block in blocks(descriptor, 0, ref.bytes):
                digest.update(block)
        if _TAG + digest.hexdigest() != ref.digest:
            raise self._damaged(ref, "does not match its digest")

    @contextlib.contextmanager
    def _opened(self, ref: BlobRef) -> Iterator[int]:
        """Open a blob and check its size: `NotFound` if it does not exist, `Damaged` if the size is wrong."""
        path = self._path(ref.digest)
        with storage(f"read the blob {ref.digest}"):
            try:
                descriptor = open_no_follow(path, os.O_RDONLY)
            except (FileNotFoundError, NotADirectoryError):
                raise missing_blob(ref.digest, os.path.join(self._folder.path, _FOLDER)) from None
            try:
                found = os.fstat(descriptor)
                self._folder.custody.notice(path, found)
                if _size_of(found) != ref.bytes:
                    raise self._damaged(ref, f"is not {ref.bytes} bytes long")
                yield descriptor
            finally:
                os.close(descriptor)

    def _damaged(self, ref: BlobRef, what: str) -> Damaged:
        hint = f"restore {self._path(ref.digest)} from a copy of the store, or put the same bytes again"
        return Damaged(f"the blob {ref.digest} {what}", hint=hint)

    def _path(self, digest: str) -> str:
        """The path of a blob, which need not exist; `NotFound` for an invalid digest."""
        if not is_digest(digest):
            raise NotFound(f"not a blob digest: {digest[:80]!r}", hint="a digest is sha256: and 64 hex digits")
        name = digest.removeprefix(_TAG)
        return os.path.join(self._folder.inside(_FOLDER, name[:2]), name)

    def files(self, digests: Iterable[str]) -> list[str]:
        """The paths of the lock file, and of these blobs and their folders."""
        paths = [self._path(digest) for digest in digests if is_digest(digest)]
        folders = dict.fromkeys(map(os.path.dirname, paths))
        return [os.path.join(self._folder.inside(_FOLDER), _LOCK), *folders, *paths]

    def stored(self) -> Iterator[StoredBlob]:
        """See `ports.Blobs`."""
        for entry in self._files():
            if is_digest(_TAG + entry.name):
                with contextlib.suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    yield StoredBlob(_TAG + entry.name, found.st_size, self._age_s(found))

    def _files(self) -> Iterator[os.DirEntry[str]]:
        """Every file in the two-digit folders, including drafts and other files. Links are not followed."""
        root = self._folder.inside(_FOLDER)
        with storage(f"list {root}"):
            for shelf in _listed(root):
                if _SUBFOLDER.fullmatch(shelf.name) and shelf.is_dir(follow_symlinks=False):
                    yield from (entry for entry in _listed(shelf.path) if entry.is_file(follow_symlinks=False))

    def _age_s(self, found: os.stat_result) -> float:
        """Seconds since a file was written or renewed; 0 if its time is in the future."""
        return max(0.0, self._now() - found.st_mtime)

    # ── removing ─────────────────────────────────────────────────────────────────────────────────

    def remove(self, digest: str, *, older_than_s: float) -> bool:
        """See `ports.Blobs`."""
        if not is_digest(digest):
            return False
        path = self._path(digest)
        with (
            storage(f"remove the blob {digest}"),
            contextlib.suppress(FileNotFoundError),
            self._locked(fcntl.LOCK_EX),
        ):
            if self._age_s(os.stat(path, follow_symlinks=False)) >= older_than_s:
                os.unlink(path)
                return True
        return False

    def tidy(self, *, older_than_s: float, dry_run: bool = False) -> int:
        """See `ports.Blobs`. While the lock is held exclusively, no draft is being written."""
        if dry_run:
            return sum(1 for _ in self._leftovers(older_than_s))
        count = 0
        with storage("remove leftovers of blobs"), contextlib.suppress(FileNotFoundError), self._locked(fcntl.LOCK_EX):
            for path in list(self._leftovers(older_than_s)):
                os.unlink(path)
                count += 1
        return count

    def _leftovers(self, older_than_s: float) -> Iterator[str]:
        """The paths of drafts that are at least this old."""
        for entry in self._files():
            with contextlib.suppress(FileNotFoundError):
                if entry.name.startswith(_DRAFT) and self._age_s(os.lstat(entry.path)) >= older_than_s:
                    yield entry.path


def _listed(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _size_of(found: os.stat_result) -> int | None:
    """The size of a regular file; None for anything else."""
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _is_renewed(path: str, content: bytes) -> bool:
    """Renew the time of an existing blob; False if it does not exist or has other content."""
    try:
        descriptor = open_no_follow(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        if not _has_content(descriptor, content):
            return False
        os.utime(descriptor)
        return True
    finally:
        os.close(descriptor)


def _has_content(descriptor: int, content: bytes) -> bool:
    """Whether a file contains exactly these bytes."""
    if _size_of(os.fstat(descriptor)) != len(content):
        return False
    at = 0
    for block in blocks(descriptor, 0, len(content)):
        if content[at : at + len(block)] != block:
            return False
        at += len(block)
    return at == len(content)


def _write(shelf: str, path: str, content: bytes) -> None:
    """Write content to its path atomically, replacing an existing file."""
    draft = os.path.join(shelf, f"{_DRAFT}{os.urandom(8).hex()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(draft, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        raise
