"""SQLite blobs: rows of the same SQLite file as the logs, synced when put and checked against the digest when read.

Ages use the wall clock, as those of files do. A wrong clock changes only when an unused blob may be removed.
"""

import time
from collections.abc import Callable, Iterator

from wakelog.errors import Damaged, NotFound
from wakelog.log.content import BlobRef
from wakelog.log.digest import digest_of
from wakelog.ports import StoredBlob
from wakelog.stores.sqlite.file import SqliteFile

_PUT = """
INSERT INTO blobs (digest, put_s, bytes) VALUES (?, ?, ?)
ON CONFLICT (digest) DO UPDATE SET put_s = excluded.put_s, bytes = excluded.bytes
"""
_GET = "SELECT bytes FROM blobs WHERE digest = ?"
_STORED = "SELECT digest, length(bytes), put_s FROM blobs"
_REMOVE = "DELETE FROM blobs WHERE digest = ? AND put_s <= ? RETURNING 1"


class SqliteBlobs:
    """See `ports.Blobs`. `now` is the clock of ages, in seconds since 1970."""

    def __init__(self, file: SqliteFile, *, now: Callable[[], float] = time.time) -> None:
        self._file = file
        self._now = now

    def put(self, content: bytes, media_type: str = "") -> BlobRef:
        """See `ports.Blobs`."""
        digest = digest_of(content)
        with self._file.writing() as db:
            db.execute(_PUT, (digest, self._now(), content))
        return BlobRef(digest=digest, bytes=len(content), media_type=media_type)

    def get(self, ref: BlobRef) -> bytes:
        """See `ports.Blobs`."""
        with self._file.reading() as db:
            found = db.execute(_GET, (ref.digest,)).fetchone()
        if found is None:
            hint = "copy the session again from a store that has the blob, or restore it from a backup"
            raise NotFound(f"no blob {ref.digest[:80]!r} in {self._file.path}", hint=hint)
        content: bytes = found[0]
        if len(content) != ref.bytes or digest_of(content) != ref.digest:
            raise Damaged(f"the blob {ref.digest} holds other bytes than its digest says", hint="put the bytes again")
        return content

    def check(self, ref: BlobRef) -> None:
        """See `ports.Blobs`."""
        self.get(ref)

    def stored(self) -> Iterator[StoredBlob]:
        """See `ports.Blobs`."""
        with self._file.reading() as db:
            rows = db.execute(_STORED).fetchall()
        now = self._now()
        return (StoredBlob(digest, size, max(0.0, now - put_s)) for digest, size, put_s in rows)

    def remove(self, digest: str, *, older_than_s: float) -> bool:
        """See `ports.Blobs`."""
        with self._file.writing() as db:
            return db.execute(_REMOVE, (digest, self._now() - older_than_s)).fetchone() is not None

    def tidy(self, *, older_than_s: float, dry_run: bool = False) -> int:  # noqa: ARG002 - a transaction leaves nothing
        """See `ports.Blobs`. Always 0: an unfinished transaction leaves nothing behind."""
        return 0
