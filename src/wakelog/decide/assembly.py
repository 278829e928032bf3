"""Assembly of replies from deltas, and of `partial` entries from journals.

The same text gives the same parts, however it was split into deltas. Adjacent text deltas form one part, and so do the
deltas of one thinking block. Provider data (`bound`) or a signature ends its part; nothing is appended to that part
afterwards. The ids of tool calls are made unique within their reply, because later entries refer to a tool call by its
reply and its id.

A journal holds text that was displayed and is not in the log yet. It belongs to the last model call for its reply, or
to the `tool_started` entry whose id it has. The runtime writes `partial` entries from journals when it continues a
session; readers show them before that (VIEW-10).
"""

from collections.abc import Iterable, Mapping

import msgspec

from wakelog.decide.wording import PARTS_LEFT_OUT, ClippedText
from wakelog.log.codec import exceeds_json_limits, fits_entry
from wakelog.log.content import (
    AnyPart,
    ContentDelta,
    JsonObject,
    Prompt,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    decode_delta,
)
from wakelog.log.entry import Entry, Message, ModelCall, Partial, Resumed, ToolStarted
from wakelog.log.tree import Tree

# Above the size at which `runtime/model_request.py` stops reading a reply, and below the limit of a log line.
_DRAFT_MAX_BYTES = 12 * 1024 * 1024


class ReplyDraft:
    """A reply being assembled. `prior` is text that the reply already has; `chars` counts the characters of text."""

    def __init__(self, prior: str = "") -> None:
        self._parts: list[AnyPart] = []
        self._text_pieces: list[str] = [prior] if prior else []
        self._thinking_pieces: list[str] = []
        self._ids = _CallIds()
        self.chars = len(prior)

    def add(self, delta: ContentDelta) -> None:
        """Add the next delta."""
        match delta:
            case TextDelta("", bound) if bound is None or self._thinking_pieces:
                # Empty text ends nothing: an open thinking block continues after it.
                pass
            case ThinkingDelta("", None, None):
                pass
            case TextDelta(text, bound):
                self._end_thinking()
                self._text_pieces.append(text)
                self.chars += len(text)
                if bound is not None:
                    self._end_text(bound)
            case ThinkingDelta(thinking, signature, bound):
                self._end_text()
                self._thinking_pieces.append(thinking)
                if signature is not None or bound is not None:
                    self._end_thinking(signature, bound)
            case ToolCallDelta(wanted, name, given, bound, redacted):
                self._end_text()
                self._end_thinking()
                call_id = self._ids.unique(wanted)
                self._parts.append(ToolCall(id=call_id, name=name, input=given, bound=bound, redacted=redacted))

    @property
    def content(self) -> tuple[AnyPart, ...]:
        """The parts assembled so far. Reading them does not end the current part."""
        parts = list(self._parts)
        _add_text(parts, "".join(self._text_pieces))
        _add_thinking(parts, "".join(self._thinking_pieces))
        return tuple(parts)

    def _end_text(self, bound: JsonObject | None = None) -> None:
        _add_text(self._parts, "".join(self._text_pieces), bound)
        self._text_pieces = []

    def _end_thinking(self, signature: str | None = None, bound: JsonObject | None = None) -> None:
        _add_thinking(self._parts, "".join(self._thinking_pieces), signature, bound)
        self._thinking_pieces = []


class _CallIds:
    """The ids of the tool calls of one reply."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def unique(self, wanted: str) -> str:
        """Return the id, or `id.N` with the smallest N from 2 on that is unique in this reply. Empty: "call"."""
        wanted = wanted or "call"
        free, number = wanted, self._taken.get(wanted, 1)
        while free in self._taken:
            number += 1
            free = f"{wanted}.{number}"
        self._taken[wanted] = number
        self._taken.setdefault(free, 1)
        return free


def with_unique_call_ids(parts: Iterable[AnyPart]) -> tuple[AnyPart, ...]:
    """Return the parts of a reply with the ids of its tool calls made unique."""
    ids = _CallIds()
    return tuple(
        msgspec.structs.replace(part, id=ids.unique(part.id)) if isinstance(part, ToolCall) else part for part in parts
    )


def _add_text(parts: list[AnyPart], text: str, bound: JsonObject | None = None) -> None:
    before = parts[-1] if parts else None
    if isinstance(before, Text) and before.bound is None:
        # Only an empty delta of another kind came in between.
        parts[-1] = Text(text=before.text + text, bound=bound)
    elif text:
        parts.append(Text(text=text, bound=bound))


def _add_thinking(
    parts: list[AnyPart], thinking: str, signature: str | None = None, bound: JsonObject | None = None
) -> None:
    if thinking or signature is not None or bound is not None:
        parts.append(Thinking(thinking=thinking, signature=signature, bound=bound))


def assemble_parts(deltas: Iterable[ContentDelta], prior: str = "") -> tuple[AnyPart, ...]:
    """Return the parts that the deltas form, after the text `prior`."""
    draft = ReplyDraft(prior)
    for delta in deltas:
        draft.add(delta)
    return draft.content


def parts_from_journal(pieces: Iterable[bytes], prior: str = "") -> tuple[AnyPart, ...]:
    """Return the parts in the journal of a reply, as far as one entry can hold them. Invalid lines are skipped.

    A journal may have any size: its lines are read one by one, and memory use is bounded.
    """
    journal = _JournalDraft(prior)
    for piece in pieces:
        journal.add(piece)
    return journal.content


def output_from_journal(pieces: Iterable[bytes]) -> str:
    """Return the text in the journal of a tool's output; if it is longer than `KEPT_BYTES`, its two ends."""
    kept = ClippedText()
    for delta in map(decode_delta, pieces):
        if isinstance(delta, TextDelta):
            kept.add(delta.text)
    return kept.text


def fit_entry_content(content: tuple[AnyPart, ...]) -> tuple[AnyPart, ...]:
    """Return the parts of an interrupted reply if they fit into one entry, else only its text.

    Text that is too long for a line is clipped when the entry is appended (`large_content.py`).
    """
    if fits_entry(content):
        return content
    words = ClippedText()
    for part in content:
        if isinstance(part, Text):
            words.add(part.text)
    return _text_only(words.text, other_parts_omitted=not all(isinstance(part, Text) for part in content))


def _text_only(text: str, *, other_parts_omitted: bool) -> tuple[AnyPart, ...]:
    # The mark does not depend on what was left out, so a replay that starts from this part makes the same mark.
    left_out = (Thinking(thinking=PARTS_LEFT_OUT),) if other_parts_omitted else ()
    return (*((Text(text=text),) if text else ()), *left_out)


class _JournalDraft:
    """A reply read from its journal: all its parts, or only its text once the parts may not fit into an entry."""

    def __init__(self, prior: str) -> None:
        self._draft = ReplyDraft(prior)
        self._size = len(prior)
        self._text: ClippedText | None = None
        self._other_parts_omitted = False

    def add(self, piece: bytes) -> None:
        """Add the next line."""
        if exceeds_json_limits(piece):
            # Not decoded: decoding would use the memory that the limit protects.
            self._keep_text_only()
            self._other_parts_omitted = True
            return
        delta = decode_delta(piece)
        if delta is None:
            return
        self._size += len(piece)
        if self._text is None and self._size <= _DRAFT_MAX_BYTES:
            self._draft.add(delta)
        elif isinstance(delta, TextDelta):
            self._keep_text_only().add(delta.text)
        else:
            self._keep_text_only()
            self._other_parts_omitted = True

    def _keep_text_only(self) -> ClippedText:
        """Keep only text from here on; return the text kept so far."""
        if self._text is None:
            self._text = ClippedText()
            for part in self._draft.content:
                if isinstance(part, Text):
                    self._text.add(part.text)
                else:
                    self._other_parts_omitted = True
            self._draft = ReplyDraft()
        return self._text

    @property
    def content(self) -> tuple[AnyPart, ...]:
        """The content of the entry."""
        if self._text is None:
            return fit_entry_content(self._draft.content)
        return _text_only(self._text.text, other_parts_omitted=self._other_parts_omitted)


def to_deltas(parts: Iterable[AnyPart]) -> list[ContentDelta]:
    """Return deltas that `assemble_parts` turns into these parts again; replay streams a reply from them."""
    pieces: list[ContentDelta] = []
    for part in parts:
        match part:
            case Text():
                pieces.append(TextDelta(part.text, part.bound))
            case Thinking():
                pieces.append(ThinkingDelta(part.thinking, part.signature, part.bound))
            case ToolCall():
                pieces.append(ToolCallDelta(part.id, part.name, part.input, part.bound, part.redacted))
    return pieces


JournalPieces = Mapping[str, Iterable[bytes]]
"""The lines of each journal, by journal id: the id of the reply, or of the `tool_started` entry."""


def unrecorded_partials(tree: Tree, journals: JournalPieces) -> tuple[Partial, ...]:
    """Return the content of journals that is not in the log; `id` is the journal's, `timestamp` that of its subject."""
    found = ((journal, partial_from_journal(tree, journal, pieces)) for journal, pieces in journals.items())
    return tuple(_with_envelope(tree, journal, partial) for journal, partial in found if partial is not None)


def partial_from_journal(tree: Tree, journal: str, pieces: Iterable[bytes]) -> Partial | None:
    """Return the entry that a journal becomes, with its parent; None if it is empty or the log has its content."""
    subject = journal_subject(tree, journal)
    if journal in tree.nodes or (subject is not None and _is_in_log(tree, subject)):
        return None
    parent = subject.value.parent_id if subject is not None else None
    if subject is not None and isinstance(subject.value, ToolStarted):
        partial = partial_from_output(subject.value, pieces)
    else:
        content = parts_from_journal(pieces, prior=_resumed_text(tree, journal))
        partial = Partial(reply_id=journal, content=content, parent_id=parent)
    return partial if partial.content else None


def partial_from_output(started: ToolStarted, pieces: Iterable[bytes]) -> Partial:
    """Return the entry that the journal of a tool's output becomes; without content if there was no output."""
    text = output_from_journal(pieces)
    content = (Text(text=text),) if text else ()
    reply_id, call_id = started.reply_id, started.tool_call_id
    return Partial(reply_id=reply_id, tool_call_id=call_id, content=content, parent_id=started.parent_id)


def journal_subject(tree: Tree, journal: str) -> Entry | None:
    """Return the entry a journal belongs to: the last `call` for its reply, or its `tool_started` entry."""
    for entry in reversed(tree.own_entries()):
        match entry.value:
            case ModelCall(reply_id=named) if named == journal:
                return entry
            case ToolStarted() if entry.id == journal:
                return entry
    return None


def _with_envelope(tree: Tree, journal: str, partial: Partial) -> Partial:
    subject = journal_subject(tree, journal)
    stamp, seq = (subject.value.timestamp, subject.seq) if subject is not None else ("", None)
    return Partial(
        id=journal,
        parent_id=partial.parent_id or tree.head,
        timestamp=stamp,
        seq=seq,
        reply_id=partial.reply_id,
        tool_call_id=partial.tool_call_id,
        content=partial.content,
    )


def _is_in_log(tree: Tree, subject: Entry) -> bool:
    """Whether the log has the content of the journal: a later `partial` entry, or the result of the tool."""
    since = [entry.value for entry in tree.own_entries() if entry.seq > subject.seq]
    match subject.value:
        case ModelCall(reply_id=reply_id):
            return any(
                isinstance(outcome, Partial) and (outcome.reply_id, outcome.tool_call_id) == (reply_id, None)
                for outcome in since
            )
        case ToolStarted(reply_id=reply_id, tool_call_id=call_id):
            values = [value.message if isinstance(value, Message) else value for value in since]
            outcomes = [outcome for outcome in values if isinstance(outcome, Partial | ToolResult)]
            return any((outcome.reply_id, outcome.tool_call_id) == (reply_id, call_id) for outcome in outcomes)
    return False


def _resumed_text(tree: Tree, reply_id: str) -> str:
    """Return the earlier text of a reply that was being resumed; its journal holds only the continuation."""
    annotations = [entry.value for entry in tree.own_entries() if isinstance(entry.value, Partial | Resumed)]
    about = [annotation for annotation in annotations if annotation.reply_id == reply_id]
    resumes = bool(about) and isinstance(about[-1], Resumed) and about[-1].strategy == "resume"
    partials = [
        annotation for annotation in about if isinstance(annotation, Partial) and annotation.tool_call_id is None
    ]
    return Prompt(content=partials[-1].content).text if resumes and partials else ""
