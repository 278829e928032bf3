"""Assembly of a reply from deltas: the same text gives the same parts, however it was split into deltas.

Adjacent text deltas form one part, and so do the deltas of one thinking block. Provider data (`bound`) or a signature
ends its part; nothing is appended to that part afterwards. The ids of tool calls are made unique within their reply,
because later entries refer to a tool call by its reply and its id.
"""

from collections.abc import Iterable

from wakelog.decide.clip import KeptText
from wakelog.decide.wording import PARTS_LEFT_OUT
from wakelog.log.codec import fits_as_content, is_excessive
from wakelog.log.content import AnyPart, JsonObject, Text, Thinking, ToolCall
from wakelog.log.deltas import CallDelta, Spoken, TextDelta, ThinkingDelta, delta_of

# Above the size at which `runtime/model_stream.py` stops reading a reply, and below the limit of a log line.
_DRAFT_MAX_BYTES = 12 * 1024 * 1024


class Draft:
    """A reply being assembled. `prior` is text that the reply already has; `chars` counts the characters of text."""

    def __init__(self, prior: str = "") -> None:
        self._parts: list[AnyPart] = []
        self._words: list[str] = [prior] if prior else []
        self._thoughts: list[str] = []
        self._ids: dict[str, int] = {}
        self.chars = len(prior)

    def take(self, delta: Spoken) -> None:
        """Add the next delta."""
        match delta:
            case TextDelta("", bound) if bound is None or self._thoughts:
                # Empty text ends nothing: an open thinking block continues after it.
                pass
            case ThinkingDelta("", None, None):
                pass
            case TextDelta(text, bound):
                self._end_thought()
                self._words.append(text)
                self.chars += len(text)
                if bound is not None:
                    self._end_words(bound)
            case ThinkingDelta(thinking, signature, bound):
                self._end_words()
                self._thoughts.append(thinking)
                if signature is not None or bound is not None:
                    self._end_thought(signature, bound)
            case CallDelta(wanted, name, given, bound):
                self._end_words()
                self._end_thought()
                self._parts.append(ToolCall(id=self._free_id(wanted), name=name, input=given, bound=bound))

    @property
    def content(self) -> tuple[AnyPart, ...]:
        """The parts assembled so far. Reading them does not end the current part."""
        parts = list(self._parts)
        _add_words(parts, "".join(self._words))
        _add_thought(parts, "".join(self._thoughts))
        return tuple(parts)

    def _end_words(self, bound: JsonObject | None = None) -> None:
        _add_words(self._parts, "".join(self._words), bound)
        self._words = []

    def _end_thought(self, signature: str | None = None, bound: JsonObject | None = None) -> None:
        _add_thought(self._parts, "".join(self._thoughts), signature, bound)
        self._thoughts = []

    def _free_id(self, wanted: str) -> str:
        """Return the id, or `id.N` with the smallest N from 2 on that is unique in this reply. Empty: "call"."""
        wanted = wanted or "call"
        free, number = wanted, self._ids.get(wanted, 1)
        while free in self._ids:
            number += 1
            free = f"{wanted}.{number}"
        self._ids[wanted] = number
        self._ids.setdefault(free, 1)
        return free


def _add_words(parts: list[AnyPart], text: str, bound: JsonObject | None = None) -> None:
    before = parts[-1] if parts else None
    if isinstance(before, Text) and before.bound is None:
        # Only an empty delta of another kind came in between.
        parts[-1] = Text(text=before.text + text, bound=bound)
    elif text:
        parts.append(Text(text=text, bound=bound))


def _add_thought(
    parts: list[AnyPart], thinking: str, signature: str | None = None, bound: JsonObject | None = None
) -> None:
    if thinking or signature is not None or bound is not None:
        parts.append(Thinking(thinking=thinking, signature=signature, bound=bound))


def assemble(deltas: Iterable[Spoken], prior: str = "") -> tuple[AnyPart, ...]:
    """Return the parts that the deltas form, after the text `prior`."""
    draft = Draft(prior)
    for delta in deltas:
        draft.take(delta)
    return draft.content


def from_journal(pieces: Iterable[bytes], prior: str = "") -> tuple[AnyPart, ...]:
    """Return the parts in the journal of a reply, as far as one entry can hold them. Invalid lines are skipped.

    A journal may have any size: its lines are read one by one, and memory use is bounded.
    """
    journal = _JournalDraft(prior)
    for piece in pieces:
        journal.take(piece)
    return journal.content


def output_in(pieces: Iterable[bytes]) -> str:
    """Return the text in the journal of a tool's output; if it is longer than `KEPT_BYTES`, its two ends."""
    kept = KeptText()
    for delta in map(delta_of, pieces):
        if isinstance(delta, TextDelta):
            kept.add(delta.text)
    return kept.text


def as_entry_content(content: tuple[AnyPart, ...]) -> tuple[AnyPart, ...]:
    """Return the parts of an interrupted reply if they fit into one entry, else only its text.

    Text that is too long for a line is clipped when the entry is appended (`large_content.py`).
    """
    if fits_as_content(content):
        return content
    words = KeptText()
    for part in content:
        if isinstance(part, Text):
            words.add(part.text)
    return _words_alone(words.text, others_left_out=not all(isinstance(part, Text) for part in content))


def _words_alone(text: str, *, others_left_out: bool) -> tuple[AnyPart, ...]:
    # The mark does not depend on what was left out, so a replay that starts from this part makes the same mark.
    left_out = (Thinking(thinking=PARTS_LEFT_OUT),) if others_left_out else ()
    return (*((Text(text=text),) if text else ()), *left_out)


class _JournalDraft:
    """A reply read from its journal: all its parts, or only its text once the parts may not fit into an entry."""

    def __init__(self, prior: str) -> None:
        self._draft = Draft(prior)
        self._size = len(prior)
        self._words: KeptText | None = None
        self._others_left_out = False

    def take(self, piece: bytes) -> None:
        """Add the next line."""
        if is_excessive(piece):
            # Not decoded: decoding would use the memory that the limit protects.
            self._keep_words_alone()
            self._others_left_out = True
            return
        delta = delta_of(piece)
        if delta is None:
            return
        self._size += len(piece)
        if self._words is None and self._size <= _DRAFT_MAX_BYTES:
            self._draft.take(delta)
        elif isinstance(delta, TextDelta):
            self._keep_words_alone().add(delta.text)
        else:
            self._keep_words_alone()
            self._others_left_out = True

    def _keep_words_alone(self) -> KeptText:
        """Keep only text from here on; return the text kept so far."""
        if self._words is None:
            self._words = KeptText()
            for part in self._draft.content:
                if isinstance(part, Text):
                    self._words.add(part.text)
                else:
                    self._others_left_out = True
            self._draft = Draft()
        return self._words

    @property
    def content(self) -> tuple[AnyPart, ...]:
        """The content of the entry."""
        if self._words is None:
            return as_entry_content(self._draft.content)
        return _words_alone(self._words.text, others_left_out=self._others_left_out)


def taken_apart(parts: Iterable[AnyPart]) -> list[Spoken]:
    """Return deltas that `assemble` turns into these parts again; replay streams a reply from them."""
    pieces: list[Spoken] = []
    for part in parts:
        match part:
            case Text():
                pieces.append(TextDelta(part.text, part.bound))
            case Thinking():
                pieces.append(ThinkingDelta(part.thinking, part.signature, part.bound))
            case ToolCall():
                pieces.append(CallDelta(part.id, part.name, part.input, part.bound))
    return pieces
