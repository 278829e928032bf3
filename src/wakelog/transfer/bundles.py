"""Bundles: one file with a session, its blobs and the sessions it needs, for a reader without the store.

A bundle is an uncompressed tar file. Its first member, `wakelog-bundle.json`, names the session; `sessions/NAME.jsonl`
are logs, byte for byte, so that seals verify; `blobs/HEX` are blobs, named by their SHA-256.
Rule 1: a bundle is hostile. Nothing is extracted to disk, only regular members with these names are accepted, and
nothing is decompressed, so that reading takes no more memory than the file is long. A blob is checked when it is read.
Rule 2: a bundle is read-only. Writing to its session is refused, because the write would be lost.
"""

import io
import re
import tarfile
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from wakelog.decoding import decoder_of
from wakelog.errors import NotASession, UsageError
from wakelog.log.codec import envelope_of
from wakelog.log.content import BlobRef
from wakelog.log.ids import is_id
from wakelog.log.session_names import is_name
from wakelog.ports.stores import Lease, SealedLine, Store
from wakelog.stores.files import storage
from wakelog.stores.memory import MemoryStore
from wakelog.transfer import Copied, copy

BUNDLE_FORMAT = "wakelog-bundle/1"
BUNDLE_BYTES_MAX = 1 << 30
_ABOUT = "wakelog-bundle.json"
_ABOUT_BYTES_MAX = 4096
_BLOB = re.compile(r"blobs/([0-9a-f]{64})")
_LOG = re.compile(r"sessions/(.+)\.jsonl")


class _About(msgspec.Struct, frozen=True):
    """The first member: the format, and the name of the session that was exported."""

    format: str
    session: str


def make_bundle(store: Store, name: str) -> tuple[Iterator[bytes], list[Copied]]:
    """Return the bytes of a session's bundle, and the result of copying each session into it.

    The bundle holds the parent of a fork and the subagents. Blobs that the store lacks are in `Copied.lost`.
    """
    packed = MemoryStore()
    copied = list(copy(store, packed, [name]))
    for done in copied:
        if done.error is not None:
            raise done.error
    return _tar_bytes(packed, name), copied


def _tar_bytes(packed: MemoryStore, name: str) -> Iterator[bytes]:
    yield from _member(_ABOUT, msgspec.json.encode(_About(BUNDLE_FORMAT, name)))
    for stat in sorted(packed.sessions(), key=lambda stat: stat.name):
        yield from _member(f"sessions/{stat.name}.jsonl", b"".join(line.bytes for line in packed.load(stat.name)))
    for blob in sorted(packed.blobs.stored(), key=lambda blob: blob.digest):
        content = packed.blobs.get(BlobRef(digest=blob.digest, bytes=blob.bytes))
        yield from _member(f"blobs/{blob.digest.removeprefix('sha256:')}", content)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _member(path: str, content: bytes) -> Iterator[bytes]:
    """Yield a member. It has no time and no owner: the same session gives the same bytes."""
    member = tarfile.TarInfo(path)
    member.size, member.mode = len(content), 0o600
    yield member.tobuf(tarfile.PAX_FORMAT)
    yield content
    yield bytes(-len(content) % tarfile.BLOCKSIZE)


def open_bundle(path: str) -> tuple[Store, str]:
    """Return a read-only store with the contents of a bundle, and the name of its session.

    `NotASession` if the file is not a bundle, or holds anything that a bundle does not have.
    """
    with storage(f"read {path[:200]}"), open(path, "rb") as file:
        content = file.read(BUNDLE_BYTES_MAX + 1)
    if len(content) > BUNDLE_BYTES_MAX:
        raise _refused(path, f"it is larger than {BUNDLE_BYTES_MAX >> 20:,} MB")
    opened, about = BundleStore(path), None
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                data = _content(path, archive, member)
                if about is None:
                    about = _about(path, member.name, data)
                else:
                    opened.add(member.name, data)
    except (tarfile.TarError, OverflowError, ValueError) as error:
        raise _refused(path, f"its archive cannot be read: {error}") from None
    if about is None:
        raise _refused(path, "it is empty")
    if about.session not in {stat.name for stat in opened.sessions()}:
        raise _refused(path, "the log of its session is missing")
    return opened, about.session


def _content(path: str, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """Return the bytes of a regular member. A sparse one could claim to be larger than the file."""
    opened = archive.extractfile(member) if member.type == tarfile.REGTYPE and not member.issparse() else None
    data = opened.read() if opened is not None else None
    if data is None or len(data) != member.size:
        raise _refused(path, f"its member {member.name[:80]!r} is not a whole regular file")
    return data


def _about(path: str, member: str, data: bytes) -> _About:
    try:
        about = decoder_of(_About).decode(data) if len(data) <= _ABOUT_BYTES_MAX else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        about = None
    if member != _ABOUT or about is None or about.format != BUNDLE_FORMAT:
        raise _refused(path, f"it does not begin with {_ABOUT} of the format {BUNDLE_FORMAT}")
    return about


def _refused(path: str, reason: str) -> NotASession:
    return NotASession(f"{path[:200]} is not a readable bundle: {reason}", hint="`wakelog export -f bundle` makes one")


class BundleStore(MemoryStore):
    """The contents of a bundle as a store that refuses writes."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def add(self, member: str, data: bytes) -> None:
        """Add a member of the archive; `NotASession` for a name that no member of a bundle has."""
        if _BLOB.fullmatch(member):
            # Its name is not trusted: bytes with another digest are kept under that one, and the named blob is missing.
            self.blobs.put(data)
            return
        found = _LOG.fullmatch(member)
        if found is None or not is_name(found[1]):
            raise _refused(self._path, f"a bundle has no member {member[:80]!r}")
        self.replace(_session_id(data, found[1]), found[1], data)

    def _refuse(self) -> UsageError:
        hint = f"`wakelog copy {self._path[:200]} --to STORE` copies it into a store that can be written to"
        return UsageError(f"{self._path[:200]} is a bundle, which is read-only", hint=hint)

    def create(self, *_: Any, **__: Any) -> str:
        """Refuse: see rule 2."""
        raise self._refuse()

    def adopt(self, *_: Any, **__: Any) -> str:
        """Refuse: see rule 2."""
        raise self._refuse()

    def append(self, *_: Any, **__: Any) -> SealedLine:
        """Refuse: see rule 2."""
        raise self._refuse()

    def acquire(self, *_: Any, **__: Any) -> Lease:
        """Refuse: see rule 2."""
        raise self._refuse()

    def journal(self, *_: Any, **__: Any) -> None:
        """Refuse: see rule 2."""
        raise self._refuse()


def _session_id(data: bytes, name: str) -> str:
    """Return the id in the first line of a log; its name if the line cannot be read."""
    envelope = envelope_of(data.partition(b"\n")[0])
    return envelope.id if envelope is not None and envelope.type == "session" and is_id(envelope.id) else name


def lost_items(copied: Iterable[Copied]) -> list[str]:
    """Return what the sessions of a bundle need and the store does not have, as text with the digest or id."""
    return [f"{done.name}: {lost.reason}" for done in copied for lost in done.lost]
