"""Clipping of long text: keeps the head and the tail, with a mark between them that gives the number of bytes left out.

A result is clipped once, when it is appended; the mark is then part of the stored text. Storing the whole text
elsewhere is up to the caller.
"""

from wakelog.errors import UsageError

CLIP_BYTES = 16 * 1024
KEPT_BYTES = 32 * 1024 * 1024
"""How much text of an interrupted reply or tool output is kept. Every store can hold a blob of this size."""
SMALLEST_BYTES = 128
# Head and tail give up at most 1/4 of their size to end at a line boundary; longer lines are cut inside.
_LINE_SHARE = 4


def clip(text: str, limit_bytes: int = CLIP_BYTES) -> tuple[str, bool]:
    """Return the text in at most `limit_bytes` of UTF-8, and whether anything was left out.

    Raises `UsageError` for a limit below `SMALLEST_BYTES`.
    """
    if limit_bytes < SMALLEST_BYTES:
        raise UsageError(f"cannot clip to {limit_bytes} bytes", hint=f"allow at least {SMALLEST_BYTES}")
    whole = text.encode()
    if len(whole) <= limit_bytes:
        return text, False
    room = limit_bytes - len(mark(len(whole)).encode())
    head = _head(whole, room - room // 2)
    tail = _tail(whole, room // 2)
    return head.decode() + mark(len(whole) - len(head) - len(tail)) + tail.decode(), True


class KeptText:
    """Buffer for text that arrives in pieces; of text longer than `limit_bytes` it keeps only the two ends.

    `text` is never longer than the limit, so adding it to another `KeptText` of that limit leaves it unchanged.
    """

    def __init__(self, limit_bytes: int = KEPT_BYTES) -> None:
        self._limit = limit_bytes
        self._half = limit_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, text: str) -> None:
        """Append a piece."""
        raw = text.encode("utf-8", "backslashreplace")
        room = max(0, self._half - len(self._head))
        self._head += raw[:room]
        self._tail += raw[room:]
        self._total += len(raw)
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    @property
    def text(self) -> str:
        """The whole text, or its two ends with a mark between them."""
        if self._total <= self._limit:
            return (self._head + self._tail).decode()
        room = self._half - len(mark(self._total).encode())
        # Incomplete characters at the edges are dropped.
        head, tail = self._head.decode(errors="ignore"), self._tail[-room:].decode(errors="ignore")
        return head + mark(self._total - len(head.encode()) - len(tail.encode())) + tail


def mark(left_out: int) -> str:
    """Return the line that replaces bytes left out."""
    return f"\n[… {left_out:,} bytes left out …]\n"


def storable(text: str) -> str:
    """Return the text as valid UTF-8: a lone surrogate, as in undecodable file names, is escaped with a backslash."""
    return text.encode("utf-8", "backslashreplace").decode()


def _head(whole: bytes, size: int) -> bytes:
    """Return at most `size` bytes from the front, ending at a line end if one is near, else between characters."""
    while size > 0 and _inside_character(whole, size):
        size -= 1
    line_end = whole.rfind(b"\n", size - size // _LINE_SHARE, size)
    return whole[: size if line_end < 0 else line_end]


def _tail(whole: bytes, size: int) -> bytes:
    """Return at most `size` bytes from the back, starting at a line start if one is near, else between characters."""
    start = len(whole) - size
    while start < len(whole) and _inside_character(whole, start):
        start += 1
    line_end = whole.find(b"\n", start - 1, start + size // _LINE_SHARE)
    return whole[start if line_end < 0 else line_end + 1 :]


def _inside_character(whole: bytes, at: int) -> bool:
    """Whether the byte at this position is a UTF-8 continuation byte."""
    return whole[at] & 0xC0 == 0x80
