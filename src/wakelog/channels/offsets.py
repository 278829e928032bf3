"""Offset tracking: how much of each reply a channel has shown, so that repeats are harmless.

Rule 1: offsets count characters, as `len` does, never bytes.
Rule 2: queries change nothing. A channel first shows new text and then adds it, so that text it could not show stays
undelivered.
Rule 3: text is kept until its reply ends, to tell a repeat from a contradiction; then only its length is kept, so that
a worker that runs for weeks does not hold all text it has delivered.
"""

import io

from wakelog.errors import UsageError


class ShownText:
    """The text of each reply that a channel has shown so far."""

    def __init__(self) -> None:
        self._texts: dict[str, io.StringIO] = {}
        self._sizes: dict[str, int] = {}
        self._ended: set[str] = set()

    def size(self, reply_id: str) -> int:
        """Return how many characters of a reply were shown."""
        return self._sizes.get(reply_id, 0)

    def new_part(self, reply_id: str, offset: int, text: str) -> str:
        """Return the part of `text` not shown yet. `UsageError` for a gap, a contradiction, or text after the end."""
        size = self.size(reply_id)
        if not 0 <= offset <= size:
            raise UsageError(
                f"text at offset {offset} of reply {reply_id}, of which only {size} characters were shown",
                hint="deliver the text between first, or the reply from its beginning",
            )
        self._compare(reply_id, offset, text[: size - offset])
        fresh = text[size - offset :]
        if fresh and reply_id in self._ended:
            raise UsageError(f"reply {reply_id} ended at offset {size}; no text can be added", hint="reset it first")
        return fresh

    def add(self, reply_id: str, text: str) -> None:
        """Record text that has been shown."""
        if text:
            self._texts.setdefault(reply_id, io.StringIO()).write(text)
            self._sizes[reply_id] = self.size(reply_id) + len(text)

    def reset(self, reply_id: str) -> None:
        """Forget what was shown of a reply."""
        self._texts.pop(reply_id, None)
        self._sizes.pop(reply_id, None)
        self._ended.discard(reply_id)

    def end(self, reply_id: str) -> None:
        """Mark a reply as complete; from here on only its length is kept."""
        self._texts.pop(reply_id, None)
        self._ended.add(reply_id)

    def _compare(self, reply_id: str, offset: int, repeated: str) -> None:
        held = self._texts.get(reply_id)
        if held is None or not repeated:
            return
        held.seek(offset)
        shown = held.read(len(repeated))
        held.seek(0, io.SEEK_END)
        if shown != repeated:
            raise UsageError(f"reply {reply_id} has different text at offset {offset}", hint="reset it first")
