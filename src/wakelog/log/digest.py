"""Digests, tagged with their algorithm so that another one can follow."""

import hashlib


def digest_of(content: bytes) -> str:
    """`sha256:` and the digest of some bytes."""
    return "sha256:" + hashlib.sha256(content).hexdigest()
