"""The seal of a line: its seq in front, its h behind, and the running end of the chain they make.

A sealed line is `{"v":1,"seq":N,` + the encoded body + `,"h":"…"}`. Its h is the SHA-256 of the last
sealed line's h and every byte after that line's LF up to this line's `,"h":`. So unsealed lines,
torn fragments and lines added by hand are covered by the next seal. Sealing encodes nothing again.
"""

import hashlib
import re
from typing import Literal, TypeAlias

from wakelog.log.entry import FORMAT_VERSION

SealState: TypeAlias = Literal["right", "unproven", "changed", "none"]

_OPENING = re.compile(rb'\{"v":[0-9]+,"seq":([0-9]{1,18}),')
_SEAL = re.compile(rb',"h":"([0-9a-f]{64})"\}\Z')
SEAL_BYTES = 72
# Where one record ends and another begins on the same line. Inside a string both quotes would be escaped.
_GLUE = b'"}{"'


class Chain:
    """The running end of a chain: the last h, and a hash of everything since. It only goes forward."""

    def __init__(self, h: str = "") -> None:
        self._go_on_from(h)

    def _go_on_from(self, h: str) -> None:
        self.h = h
        self._hash = hashlib.sha256(h.encode())

    def skip(self, raw: bytes) -> None:
        """Takes in bytes that carry no seal: they belong to the next one."""
        self._hash.update(raw)

    def seal(self, body: bytes, seq: int) -> bytes:
        """The sealed line of an encoded body; the chain now ends there."""
        head = b'{"v":%d,"seq":%d,%b' % (FORMAT_VERSION, seq, body[1:-1])
        self._hash.update(head)
        h = self._hash.hexdigest()
        self._go_on_from(h)
        return b'%b,"h":"%b"}' % (head, h.encode())

    def accept(self, raw: bytes) -> bool:
        """Takes in a sealed line (without LF) and says whether its seal is right. Goes on from the h it reads."""
        self._hash.update(raw[:-SEAL_BYTES])
        h = h_of(raw).decode()
        right = self._hash.hexdigest() == h
        self._go_on_from(h)
        return right


class SealCheck:
    """Verifies seals line by line, in the order of the log, and tells a changed line from one behind damage.

    A seal covers every byte since the seal before it. Where it does not match and nothing is wrong with the bytes in
    between, the line itself was `changed`. Where those bytes are damaged or lines are missing, the line is `unproven`:
    it may be as it was written, but its seal cannot show it. `none`: the line has no seal to check.
    """

    def __init__(self, h: str = "", seq: int = -1) -> None:
        self._h = h.encode()
        self._seq = seq
        self._last = b""
        self._unsealed: Chain | None = None
        self._in_doubt = False

    def check(self, raw: bytes, *, ended: bool = True, whole: bool = True) -> SealState:
        """The state of the next line (without its LF)."""
        # Ten thousand lines pass here, and nearly every one is sealed right behind the one before it.
        if self._unsealed is None and whole and is_sealed_behind(raw, self._h):
            self._h, self._last, self._in_doubt = h_of(raw), raw, False
            return "right"
        return self._check_slowly(raw, ended=ended, whole=whole)

    def _check_slowly(self, raw: bytes, *, ended: bool, whole: bool) -> SealState:
        seq = seq_of(raw)
        if not whole or seal_of(raw) is None:
            self._unsealed = self._unsealed or Chain(self._h.decode())
            self._unsealed.skip(raw + b"\n" if ended else raw)
            self._in_doubt = True
            # After the first seal every line of ours has one: this line had, and lost it.
            return "changed" if seq is not None and whole and ended and self._h else "none"
        is_right = self._unsealed.accept(raw) if self._unsealed is not None else False
        is_changed = not is_right and not self._in_doubt and seq in (None, self._last_seq + 1)
        self._h, self._last, self._unsealed, self._in_doubt = h_of(raw), raw, None, is_changed
        return "right" if is_right else "changed" if is_changed else "unproven"

    @property
    def _last_seq(self) -> int:
        """The seq of the last sealed line."""
        seq = seq_of(self._last) if self._last else self._seq
        return self._seq if seq is None else seq

    def missing_before(self, raw: bytes, next_seq: int) -> str:
        """Why an unproven line is unproven: which entries are missing before it, as far as its seq tells."""
        seq = seq_of(raw)
        if seq is None or seq <= next_seq:
            return "bytes before this line were changed or removed"
        return f"entries {next_seq} to {seq - 1} are missing before this line"


def is_sealed_behind(raw: bytes, h: bytes, between: bytes = b"") -> bool:
    """Whether a line carries the seal of what was written behind the seal `h` and the bytes `between`."""
    right = hashlib.sha256(h + between + raw[:-SEAL_BYTES]).hexdigest()
    return raw[-SEAL_BYTES:] == b',"h":"%b"}' % right.encode()


def h_of(raw: bytes) -> bytes:
    """Where a sealed line has its h. Of a line that may have none, ask `seal_of`."""
    return raw[-66:-2]


def seal_of(raw: bytes) -> str | None:
    """The h of a sealed line, or None."""
    found = _SEAL.search(raw, max(0, len(raw) - SEAL_BYTES))
    return found[1].decode() if found else None


def seq_of(raw: bytes) -> int | None:
    """The seq of a line we sealed, read without decoding it; None for any other line, and where two may be glued."""
    found = _OPENING.match(raw)
    return int(found[1]) if found and _GLUE not in raw else None


def unsealed(raw: bytes) -> bytes:
    """The encoded body inside a sealed line; any other line as it is."""
    opening = _OPENING.match(raw)
    if opening is None or seal_of(raw) is None:
        return raw
    return b"{" + raw[opening.end() : -SEAL_BYTES] + b"}"
