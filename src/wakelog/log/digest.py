"""SHA-256 digests, prefixed with the algorithm so that others can be added."""

import hashlib
import re

DIGEST_CHARS = 71
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_DIGEST_IN_BYTES = re.compile(_DIGEST.pattern.encode())


def digest_of(content: bytes) -> str:
    """Return `sha256:` and the hexadecimal digest of bytes."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def is_digest(text: str) -> bool:
    """Return whether a text has the form of a digest."""
    return _DIGEST.fullmatch(text) is not None


def digests_in(raw: bytes) -> set[str]:
    """Return every digest found anywhere in bytes of any kind."""
    return {found.decode() for found in _DIGEST_IN_BYTES.findall(raw)}
