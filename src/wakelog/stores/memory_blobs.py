"""Memory blobs: implement all of `ports.Blobs` in a dictionary, except durability. The reference for other blob stores.

Content is checked against its digest on read, as in the other stores, so that one suite can test all of them.
"""

import threading
from collections.abc import Callable, Iterator

import msgspec

from wakelog.errors import Damaged, NotFound
from wakelog.log.content import BlobRef
from wakelog.log.digest import digest_of
from wakelog.ports import StoredBlob


class _Kept(msgspec.Struct):
    content: bytes
    put_at: float


class MemoryBlobs:
    """Blobs by digest. `now` is the clock of their ages, in seconds."""

    def __init__(self, *, now: Callable[[], float]) -> None:
        self._now = now
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.Lock()

    def put(self, content: bytes, media_type: str = "") -> BlobRef:
        """See `ports.Blobs`."""
        digest = digest_of(content)
        with self._lock:
            self._kept[digest] = _Kept(bytes(content), self._now())
        return BlobRef(digest=digest, bytes=len(content), media_type=media_type)

    def get(self, ref: BlobRef) -> bytes:
        """See `ports.Blobs`."""
        with self._lock:
            kept = self._kept.get(ref.digest)
        if kept is None:
            raise NotFound(f"no blob {ref.digest[:80]!r}", hint="memory keeps what this process has put")
        if len(kept.content) != ref.bytes or digest_of(kept.content) != ref.digest:
            raise Damaged(f"the blob {ref.digest} holds other bytes than its digest says", hint="put the bytes again")
        return kept.content

    def check(self, ref: BlobRef) -> None:
        """See `ports.Blobs`."""
        self.get(ref)

    def stored(self) -> Iterator[StoredBlob]:
        """See `ports.Blobs`."""
        with self._lock:
            found = [StoredBlob(digest, len(kept.content), self._age_s(kept)) for digest, kept in self._kept.items()]
        return iter(found)

    def remove(self, digest: str, *, older_than_s: float) -> bool:
        """See `ports.Blobs`."""
        with self._lock:
            kept = self._kept.get(digest)
            if kept is None or self._age_s(kept) < older_than_s:
                return False
            del self._kept[digest]
            return True

    def tidy(self, *, older_than_s: float, dry_run: bool = False) -> int:  # noqa: ARG002 - there are no drafts
        """See `ports.Blobs`. Always 0: a put leaves nothing behind in memory."""
        return 0

    def _age_s(self, kept: _Kept) -> float:
        return max(0.0, self._now() - kept.put_at)
