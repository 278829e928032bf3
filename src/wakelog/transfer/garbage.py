"""Garbage collection: find and remove blobs that no log names. No log is written to.

Rule 1: a digest anywhere in a log's bytes names its blob, also in damaged lines and unknown types: these may still
refer to it.
Rule 2: all logs are read before anything is removed. If one log cannot be read, nothing is removed.
Rule 3: a blob that was put less than the given time ago stays, named or not: its entry may not be written yet. The age
is checked again at removal, so a writer that puts the blob again meanwhile does not lose it.
"""

from collections.abc import Callable, Iterator

import msgspec

from wakelog.errors import StoreError
from wakelog.log.ids import DIGEST_CHARS, digests_in
from wakelog.ports.stores import Store, StoredBlob

DAY_S = 24 * 60 * 60.0

Progress = Callable[[int, int], None]
"""Called with the number of bytes of logs read so far, and the total."""


class Collected(msgspec.Struct, frozen=True):
    """What was removed, or would have been: the blobs, and the number of leftovers of unfinished puts."""

    blobs: tuple[StoredBlob, ...]
    leftovers: int


def collect(
    store: Store, *, older_than_s: float = DAY_S, dry_run: bool = False, progress: Progress | None = None
) -> Collected:
    """Remove blobs that no log names and that are at least `older_than_s` old; with `dry_run` only find them."""
    found = unnamed_blobs(store, older_than_s=older_than_s, progress=progress)
    if not dry_run:
        found = [blob for blob in found if store.blobs.remove(blob.digest, older_than_s=older_than_s)]
    return Collected(tuple(found), store.blobs.tidy(older_than_s=older_than_s, dry_run=dry_run))


def unnamed_blobs(store: Store, *, older_than_s: float = DAY_S, progress: Progress | None = None) -> list[StoredBlob]:
    """Return the blobs that no log names and that are at least `older_than_s` old, sorted by digest."""
    # Blobs are listed before the logs are read: a blob that is put and named meanwhile is not among the old ones.
    unnamed = {blob.digest: blob for blob in store.blobs.stored() if blob.age_s >= older_than_s}
    for digest in _named_digests(store, progress) if unnamed else ():
        unnamed.pop(digest, None)
    return [unnamed[digest] for digest in sorted(unnamed)]


def _named_digests(store: Store, progress: Progress | None) -> Iterator[str]:
    """Yield every digest in every log."""
    stats = list(store.sessions())
    total = sum(stat.size for stat in stats)
    done = 0
    for stat in stats:
        if store.name(stat.name) != stat.name:
            raise StoreError(f"{stat.name} is also the id of another session, so the name is ambiguous")
        for size, digests in _digests_of_log(store, stat.name):
            yield from digests
            done += size
            if progress is not None:
                progress(min(done, total), total)


def _digests_of_log(store: Store, name: str) -> Iterator[tuple[int, set[str]]]:
    """Yield the size and the digests of each line of a log. A line too long for memory comes in slices."""
    before = b""
    for line in store.load(name):
        raw = before + line.raw
        yield len(line.raw) + line.ended, digests_in(raw)
        before = b"" if line.ended else raw[1 - DIGEST_CHARS :]
