"""Copy the blobs that a log names, before the log itself.

Rule 1: each blob is checked against its digest. A missing or damaged one is recorded, and the others are copied.
Rule 2: a blob that the target has is not sent again, unless it is unprotected there: a blob that no log there names yet
and that is not young could be collected before the log that names it has arrived. Putting it again makes it young.
"""

import functools
from collections.abc import Iterator

from wakelog.errors import WakelogError
from wakelog.log.content import BlobRef
from wakelog.ports import Blobs, StoredBlob
from wakelog.transfer.copy_state import Lost, Seen

# Well below the day after which unnamed blobs are collected.
_YOUNG_S = 6 * 60 * 60.0


class BlobCopy:
    """Copies blobs from one store to another. Both sides are listed once, when first needed."""

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
        """Copy the blobs that a log names and the target does not have; yield the size of each."""
        for digest in sorted(seen.needs.named):
            here = self._here.get(digest)
            # A blob that was put after the listing is known from the reference to it in the log.
            size = here.bytes if here is not None else seen.needs.blobs.get(digest)
            if size is not None and not self._is_safe(seen, digest, size):
                yield from self._brought(seen, BlobRef(digest=digest, bytes=size))

    def _is_safe(self, seen: Seen, digest: str, size: int) -> bool:
        there = self._there.get(digest)
        if there is None or there.bytes != size:
            return False
        return there.age_s < _YOUNG_S or seen.needs.named[digest] <= seen.there

    def _brought(self, seen: Seen, ref: BlobRef) -> Iterator[int]:
        # A dry run does not read a blob that the source lists.
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
