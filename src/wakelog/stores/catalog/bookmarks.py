"""Bookmarks: how far a log is indexed, and the state needed to continue reading from there."""

import hashlib
from collections.abc import Iterable

import msgspec

from wakelog.log.entry import Compaction, Session

_KEY_BYTES = 8


class Bookmark(msgspec.Struct, frozen=True):
    """How far a log is indexed, and the state needed to continue reading from there.

    `fold` is a compaction that exists only here; it stands for all entries up to the bookmark. `known` holds the hashed
    ids of those entries.
    """

    session: Session
    fold: Compaction
    offset: int
    digest: bytes
    updated: str
    damage: int
    prompt: str
    inherited: str
    known: bytes

    @property
    def after(self) -> int:
        """The seq to load after: the first line is then the last one that `fold` stands for."""
        return (self.fold.seq or 0) - 1

    def knows(self, entry_id: str) -> bool:
        """Whether an entry is before the bookmark, or inherited. Compares short hashes."""
        return _holds(self.known, key_of_id(entry_id))


def bookmark_at(
    session: Session,
    fold: Compaction,
    place: tuple[int, bytes],
    *,
    updated: str,
    damage: int,
    prompt: str,
    inherited: str,
    known: bytes,
) -> Bookmark:
    """Return a bookmark whose compaction follows the session header. `place`: offset and digest of the last line."""
    state = msgspec.structs.replace(fold.state, head=session.id) if fold.state else None
    return Bookmark(
        session=session,
        fold=msgspec.structs.replace(fold, parent_id=session.id, state=state),
        offset=place[0],
        digest=place[1],
        updated=updated,
        damage=damage,
        prompt=prompt,
        inherited=inherited,
        known=known,
    )


def digest_of_line(raw: bytes) -> bytes:
    """Return the digest that identifies a line."""
    return hashlib.blake2b(raw, digest_size=16).digest()


def key_of_id(entry_id: str) -> bytes:
    """Return a short hash of an id, the same in every process."""
    return hashlib.blake2b(entry_id.encode(), digest_size=_KEY_BYTES).digest()


def keys_of(ids: Iterable[str]) -> bytes:
    """Return the hashes of ids, concatenated."""
    return b"".join(map(key_of_id, ids))


def _holds(known: bytes, key: bytes) -> bool:
    """Whether concatenated hashes contain a hash, at a multiple of its length."""
    at = known.find(key)
    while at >= 0 and at % _KEY_BYTES:
        at = known.find(key, at + 1)
    return at >= 0
