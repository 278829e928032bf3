"""Making a text fit: head and tail are kept, and a mark says how much was left out between them.

Pure, and the same text gives the same answer for ever: a result is clipped once, when it is appended, and
the mark is then part of what was said. Nothing here knows where the whole text is kept.
"""

from wakelog.errors import UsageError

CLIP_BYTES = 16 * 1024
KEPT_BYTES = 32 * 1024 * 1024
"""How much of an interrupted output is kept. Every store can hold a blob of this size."""
SMALLEST_BYTES = 128
# A part gives up at most this share of itself to end at a line: long lines are cut inside.
_LINE_SHARE = 4


def clip(text: str, limit_bytes: int = CLIP_BYTES) -> tuple[str, bool]:
    """The text in at most `limit_bytes` of UTF-8, and whether anything was left out."""
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
    """A text that is added to piece by piece. Of one longer than `limit_bytes` only both ends are kept.

    What `text` gives is no longer than the limit, so a kept text that is kept again stays as it is.
    """

    def __init__(self, limit_bytes: int = KEPT_BYTES) -> None:
        self._limit = limit_bytes
        self._half = limit_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, text: str) -> None:
        """Adds to the end."""
        raw = text.encode("utf-8", "backslashreplace")
        room = max(0, self._half - len(self._head))
        self._head += raw[:room]
        self._tail += raw[room:]
        self._total += len(raw)
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    @property
    def text(self) -> str:
        """The text, or its beginning and its end with a mark between them."""
        if self._total <= self._limit:
            return (self._head + self._tail).decode()
        room = self._half - len(mark(self._total).encode())
        # Half a character at either edge is left out.
        head, tail = self._head.decode(errors="ignore"), self._tail[-room:].decode(errors="ignore")
        return head + mark(self._total - len(head.encode()) - len(tail.encode())) + tail


def mark(left_out: int) -> str:
    """The line that stands where bytes were left out."""
    return f"\n[… {left_out:,} bytes left out …]\n"


def storable(text: str) -> str:
    """The text as UTF-8 can hold it: half a surrogate pair, as odd file names bring along, is written out."""
    return text.encode("utf-8", "backslashreplace").decode()


def _head(whole: bytes, size: int) -> bytes:
    """At most `size` bytes from the front, up to a line's end if one is near, else to a character's."""
    while size > 0 and _inside_character(whole, size):
        size -= 1
    line_end = whole.rfind(b"\n", size - size // _LINE_SHARE, size)
    return whole[: size if line_end < 0 else line_end]


def _tail(whole: bytes, size: int) -> bytes:
    """At most `size` bytes from the back, from a line's start if one is near, else from a character's."""
    start = len(whole) - size
    while start < len(whole) and _inside_character(whole, start):
        start += 1
    line_end = whole.find(b"\n", start - 1, start + size // _LINE_SHARE)
    return whole[start if line_end < 0 else line_end + 1 :]


def _inside_character(whole: bytes, at: int) -> bool:
    """Whether the byte here goes on with a character that began before it."""
    return whole[at] & 0xC0 == 0x80
