"""Seals: each line gets its seq in front and a hash `h` at the end, which chains it to all bytes before.

A sealed line is `{"v":1,"seq":N,` + the encoded body + `,"h":"…"}`. Its h is the SHA-256 of the last sealed line's h
and every byte after that line's LF up to this line's `,"h":`. So unsealed lines, torn fragments and lines added by hand
are covered by the next seal. Sealing does not encode the body again.
"""

import hashlib
import re
from typing import Literal, TypeAlias

from wakelog.log.entry import FORMAT_VERSION

SealState: TypeAlias = Literal["right", "unproven", "changed", "none"]

_OPENING = re.compile(rb'\{"v":[0-9]+,"seq":([0-9]{1,18}),')
_SEAL = re.compile(rb',"h":"([0-9a-f]{64})"\}\Z')
SEAL_BYTES = 72
# The boundary between two records on one line. Inside a string both quotes would be escaped.
_RECORD_BOUNDARY = b'"}{"'


class SealChain:
    """The current end of a seal chain: the last h, and a hash of the bytes since, if any. It only moves forward."""

    def __init__(self, h: str = "") -> None:
        self._continue_from(h)

    def _continue_from(self, h: str) -> None:
        self.h = h
        self._last = h.encode()
        self._unsealed: hashlib._Hash | None = None

    def add_unsealed(self, raw: bytes) -> None:
        """Add bytes without a seal; the next seal covers them."""
        if self._unsealed is None:
            self._unsealed = hashlib.sha256(self._last)
        self._unsealed.update(raw)

    def _hash_with(self, raw: bytes) -> str:
        """Return the h of a line with these bytes before its seal."""
        if self._unsealed is None:
            # One call for the common case: every append computes a seal.
            return hashlib.sha256(self._last + raw).hexdigest()
        self._unsealed.update(raw)
        return self._unsealed.hexdigest()

    def seal(self, body: bytes, seq: int) -> bytes:
        """Return the sealed line of an encoded body; the chain then ends there."""
        head = b'{"v":%d,"seq":%d,%b' % (FORMAT_VERSION, seq, body[1:-1])
        h = self._hash_with(head)
        self._continue_from(h)
        return b'%b,"h":"%b"}' % (head, self._last)

    def accept(self, raw: bytes) -> bool:
        """Add a sealed line (without LF) and return whether its seal is right. Continues from the h it reads."""
        h = sealed_hash(raw).decode()
        right = self._hash_with(raw[:-SEAL_BYTES]) == h
        self._continue_from(h)
        return right


class SealVerifier:
    """Verifies seals line by line, in log order, and tells a changed line from a line after damage.

    A seal covers every byte since the previous seal. If it does not match and the bytes in between are intact, the line
    itself was `changed`. If those bytes are damaged or lines are missing, the line is `unproven`: it may be intact, but
    its seal cannot show it. `none`: the line has no seal to check.
    """

    def __init__(self, h: str = "", seq: int = -1) -> None:
        self._h = h.encode()
        self._seq = seq
        self._last = b""
        self._unsealed: SealChain | None = None
        self._in_doubt = False

    def check(self, raw: bytes, *, ended: bool = True, whole: bool = True) -> SealState:
        """Return the state of the next line (without LF)."""
        # Fast path for the common case: the line is sealed directly after the previous one.
        if self._unsealed is None and whole and has_valid_seal(raw, self._h):
            self._h, self._last, self._in_doubt = sealed_hash(raw), raw, False
            return "right"
        return self._check_slow_path(raw, ended=ended, whole=whole)

    def _check_slow_path(self, raw: bytes, *, ended: bool, whole: bool) -> SealState:
        seq = find_seq(raw)
        if not whole or find_seal(raw) is None:
            self._unsealed = self._unsealed or SealChain(self._h.decode())
            self._unsealed.add_unsealed(raw + b"\n" if ended else raw)
            self._in_doubt = True
            # After the first seal every line written by wakelog has one, so this line has lost its seal.
            return "changed" if seq is not None and whole and ended and self._h else "none"
        is_right = self._unsealed.accept(raw) if self._unsealed is not None else False
        is_changed = not is_right and not self._in_doubt and seq in (None, self._last_seq + 1)
        self._h, self._last, self._unsealed, self._in_doubt = sealed_hash(raw), raw, None, is_changed
        return "right" if is_right else "changed" if is_changed else "unproven"

    @property
    def _last_seq(self) -> int:
        """The seq of the last sealed line."""
        seq = find_seq(self._last) if self._last else self._seq
        return self._seq if seq is None else seq

    def missing_before(self, raw: bytes, next_seq: int) -> str:
        """Return why a line is unproven: which entries are missing before it, as far as its seq shows."""
        seq = find_seq(raw)
        if seq is None or seq <= next_seq:
            return "bytes before this line were changed or removed"
        return f"entries {next_seq} to {seq - 1} are missing before this line"


def has_valid_seal(raw: bytes, previous_hash: bytes, between: bytes = b"") -> bool:
    """Return whether the seal of a line matches for the seal `previous_hash` and the bytes `between`."""
    right = hashlib.sha256(previous_hash + between + raw[:-SEAL_BYTES]).hexdigest()
    return raw[-SEAL_BYTES:] == b',"h":"%b"}' % right.encode()


def is_changed_header(raw: bytes) -> bool:
    """Return whether the first line of a log has a seal that does not match: what it says cannot be trusted."""
    return find_seal(raw) is not None and not has_valid_seal(raw, b"")


def sealed_hash(raw: bytes) -> bytes:
    """Return the h of a sealed line. For a line that may have no seal use `find_seal`."""
    return raw[-66:-2]


def find_seal(raw: bytes) -> str | None:
    """Return the h of a sealed line; None if it has no seal."""
    found = _SEAL.search(raw, max(0, len(raw) - SEAL_BYTES))
    return found[1].decode() if found else None


def find_seq(raw: bytes) -> int | None:
    """Return the seq at the start of a line, without decoding it; None if it has none or may be two glued records."""
    found = _OPENING.match(raw)
    return int(found[1]) if found and _RECORD_BOUNDARY not in raw else None


def unseal(raw: bytes) -> bytes:
    """Return the encoded body inside a sealed line; any other line unchanged."""
    opening = _OPENING.match(raw)
    if opening is None or find_seal(raw) is None:
        return raw
    return b"{" + raw[opening.end() : -SEAL_BYTES] + b"}"
