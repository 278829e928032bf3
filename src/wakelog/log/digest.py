"""Digests, tagged with their algorithm so that another one can follow."""

import hashlib
import re

DIGEST_CHARS = 71
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_DIGEST_IN_BYTES = re.compile(_DIGEST.pattern.encode())


def digest_of(content: bytes) -> str:
    """`sha256:` and the digest of some bytes."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def is_digest(text: str) -> bool:
    """Whether `text` could be the digest of something."""
    return _DIGEST.fullmatch(text) is not None


def digests_in(raw: bytes) -> set[str]:
    """Every digest that stands anywhere in some bytes, whatever else they are."""
    return {found.decode() for found in _DIGEST_IN_BYTES.findall(raw)}
