"""The blobs that a log names, brought over before the log.

Rule 1: each is checked against its digest on the way. One that is missing or damaged is noted, and the rest goes on.
Rule 2: what the target has is not sent again, unless nothing there protects it: a blob that no log there names yet
and that is not young could be collected before the log that names it has arrived. To put it again makes it young.
"""

import functools
from collections.abc import Iterator

from wakelog.errors import WakelogError
from wakelog.log.content import BlobRef
from wakelog.ports import Blobs, StoredBlob
from wakelog.transfer.copy_state import Lost, Seen

# Well below the day after which blobs are collected.
_YOUNG_S = 6 * 60 * 60.0


class BlobCopy:
    """From the blobs of one store to those of another. Both sides are listed once, when first needed."""

    def __init__(self, source: Blobs, target: Blobs, *, dry_run: bool) -> None:
        self._source = source
        self._target = target
        self._dry_run = dry_run

    @functools.cached_property
    def _here(self) -> dict[str, StoredBlob]:
        return {blob.digest: blob for blob in self._source.stored()}

    @functools.cached_property
    def _there(self) -> dict[str, StoredBlob]:
        return {blob.digest: blob for blob in self._target.stored()}

    def bring(self, seen: Seen) -> Iterator[int]:
        """Brings over what a log names and the target does not have; gives the size of each."""
        for digest in sorted(seen.needs.named):
            here = self._here.get(digest)
            # One that was put after they were listed is known by the reference to it.
            size = here.bytes if here is not None else seen.needs.blobs.get(digest)
            if size is not None and not self._is_safe(seen, digest, size):
                yield from self._brought(seen, BlobRef(digest=digest, bytes=size))

    def _is_safe(self, seen: Seen, digest: str, size: int) -> bool:
        there = self._there.get(digest)
        if there is None or there.bytes != size:
            return False
        return there.age_s < _YOUNG_S or seen.needs.named[digest] <= seen.there

    def _brought(self, seen: Seen, ref: BlobRef) -> Iterator[int]:
        # What would be copied is not read for that.
        if not (self._dry_run and ref.digest in self._here):
            try:
                content = self._source.get(ref)
            except WakelogError as error:
                if ref.digest not in self._there:
                    seen.lost.append(Lost(ref.digest, error.message))
                return
            if not self._dry_run:
                self._target.put(content)
        self._there[ref.digest] = StoredBlob(ref.digest, ref.bytes, 0.0)
        yield ref.bytes
