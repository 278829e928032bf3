"""What a log needs besides its own bytes, so that it can be used somewhere else: sessions and blobs.

Pure: a fold over lines, in the order of the log. A digest counts wherever it stands, in damaged lines and unknown
types too: what cannot be understood may still mean it. Most lines need nothing and are only looked through, not
decoded.
"""

import re

from wakelog.log.digest import DIGEST_CHARS, digests_in
from wakelog.log.entry import Session, SessionRenamed, Spawned
from wakelog.log.ids import is_id
from wakelog.log.lines import Line, Reader

_TELLING = (b'"spawned"', b'"session_renamed"')
# A digest may also be one of something that was never kept: a reference to a blob says so, as no other object does.
_REFERENCE = re.compile(rb'"digest"\s*:\s*"(sha256:[0-9a-f]{64})"\s*,\s*"bytes"\s*:\s*([0-9]{1,15})\b')
_REFERENCE_BYTES = DIGEST_CHARS + 64


class Needs:
    """The fold. `named` are the digests, each with the size of the log up to the line that first names it.

    `blobs` are those of them that are references to blobs for certain, with the size of each. `parent` is the session
    that a fork reads through, `children` are the sub-agents that were sent out. `title` is None where none was given.
    """

    def __init__(self) -> None:
        self.size = 0
        self.parent: str | None = None
        self.children: list[str] = []
        self.title: str | None = None
        self.named: dict[str, int] = {}
        self.blobs: dict[str, int] = {}
        self._before = b""

    def take(self, line: Line) -> None:
        """The next line."""
        is_first = self.size == 0
        self.size += len(line.raw) + line.ended
        raw = self._before + line.raw
        if b"sha256:" in raw:
            for digest in digests_in(raw):
                self.named.setdefault(digest, self.size)
            for digest, size in references_in(raw):
                self.blobs.setdefault(digest, size)
        # A line that is too long to be held comes in slices, and what is looked for may lie across two of them.
        self._before = b"" if line.ended else raw[-_REFERENCE_BYTES:]
        if is_first or (line.whole and any(word in raw for word in _TELLING)):
            self._read(line)

    def _read(self, line: Line) -> None:
        for entry in Reader().feed(line):
            match entry.value:
                case Session(parent=origin, title=title):
                    self.title = title
                    self.parent = origin.session if origin and origin.kind == "fork" and is_id(origin.session) else None
                case SessionRenamed(title=title):
                    self.title = title
                case Spawned(child_session=child) if is_id(child) and child not in self.children:
                    self.children.append(child)


def references_in(raw: bytes) -> list[tuple[str, int]]:
    """Every reference to a blob that stands in some bytes: its digest and the size it must have."""
    return [(digest.decode(), int(size)) for digest, size in _REFERENCE.findall(raw)]
