"""Finding blobs that no log names any more, and removing them. No log is written to.

Rule 1: a name is a digest anywhere in a log's bytes, in damaged lines and unknown types too: what cannot
be understood may still mean it.
Rule 2: everything is read before anything is removed. One log that cannot be read ends it, and all stays.
Rule 3: what was put less than the given time ago stays, named or not: its entry may be on its way. That
time is looked at again when a blob is removed, so a writer that puts it meanwhile does not lose it.
"""

from collections.abc import Callable, Iterator

import msgspec

from wakelog.errors import StoreError
from wakelog.log.digest import DIGEST_CHARS, digests_in
from wakelog.ports import Store, StoredBlob

DAY_S = 24 * 60 * 60.0

Progress = Callable[[int, int], None]
"""Called with how many bytes of the logs are read, and how many there are."""


class Collected(msgspec.Struct, frozen=True):
    """What was removed, or would have been: blobs, and how many leftovers of blobs that were never finished."""

    blobs: tuple[StoredBlob, ...]
    leftovers: int


def collect(
    store: Store, *, older_than_s: float = DAY_S, dry_run: bool = False, progress: Progress | None = None
) -> Collected:
    """Removes the blobs that no log names and that were put longer ago than that; with `dry_run` only finds them."""
    found = unnamed_blobs(store, older_than_s=older_than_s, progress=progress)
    if not dry_run:
        found = [blob for blob in found if store.blobs.remove(blob.digest, older_than_s=older_than_s)]
    return Collected(tuple(found), store.blobs.tidy(older_than_s=older_than_s, dry_run=dry_run))


def unnamed_blobs(store: Store, *, older_than_s: float = DAY_S, progress: Progress | None = None) -> list[StoredBlob]:
    """The blobs that no log names and that were put longer ago than that, by digest."""
    # Blobs first, then logs: what is put and named while the logs are read was not among the old ones.
    unnamed = {blob.digest: blob for blob in store.blobs.stored() if blob.age_s >= older_than_s}
    for digest in _named(store, progress) if unnamed else ():
        unnamed.pop(digest, None)
    return [unnamed[digest] for digest in sorted(unnamed)]


def _named(store: Store, progress: Progress | None) -> Iterator[str]:
    """Every digest in every log."""
    stats = list(store.sessions())
    total = sum(stat.size for stat in stats)
    done = 0
    for stat in stats:
        if store.name(stat.name) != stat.name:
            raise StoreError(f"{stat.name} is the id of another session, so its log cannot be told apart")
        for size, digests in _digests(store, stat.name):
            yield from digests
            done += size
            if progress is not None:
                progress(min(done, total), total)


def _digests(store: Store, name: str) -> Iterator[tuple[int, set[str]]]:
    """The digests of a log line by line, with each line's size. A line too long to be held comes in slices."""
    before = b""
    for line in store.load(name):
        raw = before + line.raw
        yield len(line.raw) + line.ended, digests_in(raw)
        before = b"" if line.ended else raw[1 - DIGEST_CHARS :]
