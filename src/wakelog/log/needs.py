"""The sessions and blobs that a log needs besides its own bytes, so that it can be copied elsewhere.

Pure: a fold over lines in log order. A digest counts wherever it occurs, also in damaged lines and unknown types,
because these may still refer to a blob. Most lines need nothing and are only searched, not decoded.
"""

import re

from wakelog.log.digest import DIGEST_CHARS, digests_in
from wakelog.log.entry import Session, SessionRenamed, Spawned
from wakelog.log.ids import is_id
from wakelog.log.lines import Line, Reader

_TELLING = (b'"spawned"', b'"session_renamed"')
# Not every digest belongs to a blob. A digest followed by a size is a reference to a blob; nothing else has that form.
_REFERENCE = re.compile(rb'"digest"\s*:\s*"(sha256:[0-9a-f]{64})"\s*,\s*"bytes"\s*:\s*([0-9]{1,15})\b')
_REFERENCE_BYTES = DIGEST_CHARS + 64


class Needs:
    """The fold. `named` maps each digest to the size of the log up to the end of the line that first contains it.

    `blobs` maps those that are certain to be references to blobs to their sizes. `parent` is the session that a fork
    reads its history from, `children` are the sessions of subagents. `title` is None if no title was set.
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
        """Process the next line."""
        is_first = self.size == 0
        self.size += len(line.raw) + line.ended
        raw = self._before + line.raw
        if b"sha256:" in raw:
            for digest in digests_in(raw):
                self.named.setdefault(digest, self.size)
            for digest, size in references_in(raw):
                self.blobs.setdefault(digest, size)
        # A line over the size limit comes in slices, and a reference may span two of them.
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
    """Return every blob reference found in bytes: its digest and the size it must have."""
    return [(digest.decode(), int(size)) for digest, size in _REFERENCE.findall(raw)]
