"""PostgreSQL blobs: rows of the same database as the logs, durable when put and checked against the digest when read.

Ages use the server's clock. Putting an existing blob renews its time, and repairs it if damaged, in one statement.
Removal checks the age of the newest version of the row, so a blob that was just put is never removed.
"""

from collections.abc import Iterator
from typing import Any, LiteralString

from wakelog.errors import Damaged, NotFound
from wakelog.log.content import BlobRef
from wakelog.log.digest import digest_of, is_digest
from wakelog.ports import StoredBlob
from wakelog.stores.postgres.database import Database, committing

_LISTED_MAX = 10_000
_BRING_BACK = "copy the session again from a store that has the blob, or restore it from a backup"
# Correct bytes are not written again, because that would only make the table grow.
_PUT = committing("""
INSERT INTO wakelog.blobs AS b (digest, put, bytes) VALUES (%(digest)s, clock_timestamp(), %(bytes)s)
ON CONFLICT (digest) DO UPDATE SET put = clock_timestamp(),
  bytes = CASE WHEN b.digest = 'sha256:' || encode(sha256(b.bytes), 'hex') THEN b.bytes ELSE excluded.bytes END
RETURNING <commit>
""")
# Content of the wrong size is not transferred.
_GET = """
SELECT CASE WHEN octet_length(bytes) = %(size)s THEN bytes END FROM wakelog.blobs WHERE digest = %(digest)s
"""
# The server computes the digest, so the content is not transferred.
_CHECK = """
SELECT octet_length(bytes) = %(size)s AND digest = 'sha256:' || encode(sha256(bytes), 'hex')
FROM wakelog.blobs WHERE digest = %(digest)s
"""
_STORED = """
SELECT digest, octet_length(bytes), extract(epoch FROM clock_timestamp() - put)::float8
FROM wakelog.blobs WHERE digest > %(after)s ORDER BY digest LIMIT %(most)s
"""
_REMOVE = committing("""
DELETE FROM wakelog.blobs
WHERE digest = %(digest)s AND greatest(0, extract(epoch FROM clock_timestamp() - put)) >= %(older_than_s)s
RETURNING <commit>
""")


class PostgresBlobs:
    """See `ports.Blobs`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, content: bytes, media_type: str = "") -> BlobRef:
        """See `ports.Blobs`."""
        digest = digest_of(content)
        self._database.write(_PUT, {"digest": digest, "bytes": bytes(content)})
        return BlobRef(digest=digest, bytes=len(content), media_type=media_type)

    def get(self, ref: BlobRef) -> bytes:
        """See `ports.Blobs`."""
        content: bytes | None = self._asked(_GET, ref)
        if content is None or digest_of(content) != ref.digest:
            raise _damaged(ref)
        return content

    def check(self, ref: BlobRef) -> None:
        """See `ports.Blobs`."""
        if not self._asked(_CHECK, ref):
            raise _damaged(ref)

    def _asked(self, question: LiteralString, ref: BlobRef) -> Any:
        """The result of a query about one blob; `NotFound` if there is no such blob."""
        size = ref.bytes if 0 <= ref.bytes < 1 << 31 else -1
        found = self._database.read(question, {"digest": ref.digest, "size": size}) if is_digest(ref.digest) else []
        if not found:
            raise NotFound(f"no blob {ref.digest[:80]!r} in {self._database.url}", hint=_BRING_BACK)
        return found[0][0]

    def stored(self) -> Iterator[StoredBlob]:
        """See `ports.Blobs`."""
        after = ""
        while found := self._database.read(_STORED, {"after": after, "most": _LISTED_MAX}):
            for digest, size, age_s in found:
                yield StoredBlob(digest, size, max(0.0, age_s))
            after = found[-1][0]

    def remove(self, digest: str, *, older_than_s: float) -> bool:
        """See `ports.Blobs`."""
        if not is_digest(digest) or not self._database.version():
            return False
        return bool(self._database.write(_REMOVE, {"digest": digest, "older_than_s": float(older_than_s)}))

    def tidy(self, *, older_than_s: float, dry_run: bool = False) -> int:  # noqa: ARG002 - a transaction leaves nothing
        """See `ports.Blobs`. Always 0: an unfinished transaction leaves nothing behind."""
        return 0


def _damaged(ref: BlobRef) -> Damaged:
    return Damaged(f"the blob {ref.digest} holds other bytes than its digest says", hint="put the bytes again")
