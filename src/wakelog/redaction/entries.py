"""Redaction of entries and of streamed deltas: decides for every string of every entry whether it is redacted.

Pure. The model, tools, people and replay all get the redacted text of the log (law 14: secrets stay out). So the deltas
of a reply are redacted before they are journaled or displayed, and every entry is redacted before it is written.

Every string of an entry is redacted unless `EXEMPT` names its field. The fields are found by inspecting the types, so a
new field is redacted without being listed. `redaction/redactor.py` finds secrets in a text; a new kind of secret needs
no change here.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

import msgspec

from wakelog.decide.policy import RedactMode
from wakelog.log.content import (
    BlobRef,
    ContentDelta,
    Prompt,
    Reply,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
)
from wakelog.log.entry import (
    Attention,
    AttentionResolved,
    Cancelled,
    CarriedState,
    Compaction,
    ContextEntry,
    DamageNote,
    Envelope,
    Failed,
    Head,
    InstructionSource,
    Label,
    ModelCall,
    Origin,
    Partial,
    Queued,
    Resumed,
    SendFailed,
    Sent,
    Spawned,
    ToolStarted,
    UndeliveredReply,
    UnknownOutcome,
)
from wakelog.log.entry import SessionHeader as SessionEntry
from wakelog.log.ids import digest_of
from wakelog.redaction.known_values import NO_KNOWN_VALUES, KnownValues
from wakelog.redaction.redactor import Redactor, holds_assignment, holds_secret, redact, redact_value

_Body = TypeVar("_Body", bound=msgspec.Struct)
_Fields: TypeAlias = Mapping[type[msgspec.Struct], tuple[str, ...]]
_SEQUENCES = (tuple, list)
_NUMBERS = (int, float)
_NO_TEXT = (int, bool, float, NoneType, msgspec.UnsetType)

# Ids name other entries, calls or sessions. If two ids that contain a key became the same mark, a result would belong
# to the wrong tool call, so ids are not redacted (decision 022).
_IDS: _Fields = {
    Envelope: ("id", "parent_id", "turn_id"),
    Origin: ("session", "entry"),
    Prompt: ("queued_id",),
    Reply: ("call_id",),
    ToolResult: ("tool_call_id", "reply_id", "copied_from"),
    ToolCall: ("id",),
    Cancelled: ("queued_id", "reply_id"),
    Failed: ("call_id",),
    Compaction: ("first_kept_entry_id", "call_id"),
    CarriedState: ("head", "said"),
    UndeliveredReply: ("reply_id",),
    ModelCall: ("call_id", "reply_id", "queued_id", "context_id", "from_id", "to_id"),
    Partial: ("reply_id", "tool_call_id"),
    Resumed: ("reply_id",),
    ToolStarted: ("reply_id", "tool_call_id"),
    Sent: ("reply_id",),
    SendFailed: ("reply_id",),
    Head: ("target_id",),
    Label: ("target_id",),
    Queued: ("keep",),
    Attention: ("reply_id", "tool_call_id"),
    AttentionResolved: ("attention_id",),
    Spawned: ("child_session", "reply_id", "tool_call_id"),
    UnknownOutcome: ("result_id", "reply_id", "tool_call_id", "answer_id"),
}
# Digests and seals are computed from bytes and compared with a later computation.
_DIGESTS: _Fields = {
    BlobRef: ("digest",),
    Origin: ("h",),
    InstructionSource: ("hash",),
    ModelCall: ("context_digest", "request_digest"),
    ToolStarted: ("input_digest",),
    DamageNote: ("digest",),
}
EXEMPT: _Fields = {kind: (*_IDS.get(kind, ()), *_DIGESTS.get(kind, ())) for kind in {**_IDS, **_DIGESTS}}
"""The fields whose strings are never redacted."""

# Programs use these values, and a mark would change their behaviour: a tool call with a mark in its input is not run,
# so an edit that contains `password = …` could never be made. Keys are redacted in them, and assignments only in the
# mode `strict`, in which no field is an exception.
KEYS_ONLY: _Fields = {
    ToolCall: ("name", "input", "bound"),
    ToolStarted: ("name", "intent"),
    ContextEntry: ("params", "policy", "environment"),
    SessionEntry: ("cwd", "settings"),
}
"""The fields in which only keys are redacted, unless the mode is `strict`."""


def program_rule(rule: RedactMode) -> RedactMode:
    """Return the mode for text that programs use: keys only, unless the mode is `strict`."""
    return "keys" if rule == "assignments" else rule


def redact_entry(body: _Body, rule: RedactMode = "assignments", known: KnownValues = NO_KNOWN_VALUES) -> _Body:
    """Return an entry, or a value inside one, without its secrets; the same object if it contains none."""
    if rule == "off" or not holds_secret_in_entry(body, rule, known):
        return body
    search = known.search
    clean = _redacted_copy(body, rule, known)
    # A value that became known in one part of the entry may stand in a part before it.
    return clean if known.search is search else _redacted_copy(clean, rule, known)


def holds_secret_in_entry(within: Any, rule: RedactMode = "assignments", known: KnownValues = NO_KNOWN_VALUES) -> bool:
    """Whether a redacted field contains a secret. Called for every append, and few entries contain one: one loop."""
    undone: list[Any] = [within]
    while undone:
        value = undone.pop()
        searched = _SEARCHED_FIELDS[type(value)]
        if searched is not None:
            names, keys_only = searched
            undone += [found for name in names if (found := getattr(value, name))]
            texts = [getattr(value, name) for name in keys_only]
            if texts and holds_secret_in_entry(texts, program_rule(rule), known):
                return True
        elif isinstance(value, str):
            if holds_secret(value, rule, known):
                return True
        elif isinstance(value, _SEQUENCES):
            undone += value
        elif isinstance(value, dict):
            if holds_assignment(value, rule):
                return True
            undone += (*value, *value.values())
    return False


class _SearchedFields(dict[type, tuple[tuple[str, ...], tuple[str, ...]] | None]):
    """The fields in which secrets are searched for, by type, and those in which only keys are; None if it is no struct.

    Filled on first use. A `dict` is faster than a function with a cache, and every append needs it.
    """

    def __missing__(self, kind: type) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        if not issubclass(kind, msgspec.Struct):
            self[kind] = None
            return None
        names, by_keys = redacted_fields(kind), KEYS_ONLY.get(kind, ())
        others = tuple(name for name in names if name not in by_keys)
        found = self[kind] = others, tuple(name for name in names if name in by_keys)
        return found


_SEARCHED_FIELDS = _SearchedFields()


def _redacted_copy(body: _Body, rule: RedactMode, known: KnownValues) -> _Body:
    """Return a copy without the secrets; the same object if it contains none."""
    changed = {}
    by_keys = KEYS_ONLY.get(type(body), ())
    for name in redacted_fields(type(body)):
        value = getattr(body, name)
        used = program_rule(rule) if name in by_keys else rule
        if value and (clean := _redact_field(value, used, known)) is not value:
            changed[name] = clean
    return msgspec.structs.replace(body, **{**changed, **_effects(body, changed)}) if changed else body


def redact_identity(name: str, rule: RedactMode = "assignments") -> str:
    """Return the name of an agent or sender without secrets; a digest keeps names with different secrets distinct."""
    found = redact(name, rule)
    return f"{found.text}~{digest_of(name.encode(errors='surrogatepass'))[-12:]}" if found.hits else name


@cache
def redacted_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the names of the fields of a type in which strings are redacted."""
    exempt = {name for base, names in EXEMPT.items() if issubclass(kind, base) for name in names}
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in exempt]
    return tuple(field.name for field in fields if _may_hold_text(field.type))


def _may_hold_text(hint: Any) -> bool:
    """Return whether a field of a type may hold text from outside. `msgspec.inspect` would take milliseconds."""
    kind = get_origin(hint)
    if kind is Annotated:
        return _may_hold_text(get_args(hint)[0])
    if kind in (Union, UnionType):
        return any(map(_may_hold_text, get_args(hint)))
    return kind is not Literal and hint not in _NO_TEXT


def _redact_field(value: Any, rule: RedactMode, known: KnownValues) -> Any:
    """Return a non-empty field value without secrets. By its type a sequence holds only structs or only JSON values."""
    if isinstance(value, str):
        found = redact(value, rule, known)
        return found.text if found.hits else value
    if isinstance(value, msgspec.Struct):
        return _redacted_copy(value, rule, known)
    if isinstance(value, _SEQUENCES) and isinstance(value[0], msgspec.Struct):
        return _redact_parts(value, rule, known)
    if isinstance(value, _NUMBERS):
        return value
    clean, hits = redact_value(value, rule, known)
    return value if not hits else tuple(clean) if isinstance(value, tuple) else clean


def _redact_parts(parts: Any, rule: RedactMode, known: KnownValues) -> Any:
    """Redact a list of structs. Signed thinking that contained a secret is left out: its signature is then invalid."""
    clean = [(part, _redacted_copy(part, rule, known)) for part in parts]
    if all(value is found for value, found in clean):
        return parts
    return tuple(found for value, found in clean if found is value or not _is_signed(value))


def _is_signed(part: msgspec.Struct) -> bool:
    return isinstance(part, Thinking) and (part.signature is not None or part.bound is not None)


def _effects(part: msgspec.Struct, changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what else changes in a redacted part. Providers accept `bound` only with the original text."""
    match part:
        case Text():
            return {"bound": None}
        case ToolCall(redacted=redacted):
            return {"bound": None, "redacted": redacted or "input" in changed}
    return {}


class DeltaRedactor:
    """Redacts the deltas of a streamed reply. Only text that may still become a secret is held back."""

    def __init__(self, rule: RedactMode = "assignments", known: KnownValues = NO_KNOWN_VALUES) -> None:
        self._rule = rule
        self._known = known
        self._text = self._new_redactor()
        self._thought = self._new_redactor()

    def _new_redactor(self) -> Redactor:
        return Redactor(self._rule, self._known)

    def take(self, delta: ContentDelta) -> list[ContentDelta]:
        """Add the next delta; return the deltas that may be written and displayed."""
        match delta:
            case TextDelta(text, bound):
                safe = self._text.feed(text) if bound is None else self._text.end(text)
                kept = None if self._text.hits or self._holds_secret(bound) else bound
                given = [*self._end_thought(), *_unless_empty(TextDelta(safe, kept))]
                self._text = self._text if bound is None else self._new_redactor()
                return given
            case ThinkingDelta(thinking, signature, bound):
                is_last = signature is not None or bound is not None
                safe = self._thought.end(thinking) if is_last else self._thought.feed(thinking)
                # A signature is valid only for the original text.
                is_void = bool(self._thought.hits) or self._holds_secret((signature, bound))
                signed = (None, None) if is_void else (signature, bound)
                given = [*self._end_text(), *_unless_empty(ThinkingDelta(safe, *signed))]
                self._thought = self._new_redactor() if is_last else self._thought
                return given
        # A tool call with a mark in its input is not run: by default only keys are redacted in it (`KEYS_ONLY`).
        rule = program_rule(self._rule)
        given, secrets = redact_value(delta.input, rule, self._known)
        (name, _), hits = redact_value((delta.name, delta.bound), rule, self._known)
        call = ToolCallDelta(delta.id, name, given, None, bool(secrets)) if secrets or hits else delta
        return [*self._end_text(), *self._end_thought(), call]

    def end(self) -> list[ContentDelta]:
        """Return the text held back, at the end of the reply."""
        return [*self._end_text(), *self._end_thought()]

    def _holds_secret(self, value: Any) -> bool:
        return value is not None and bool(redact_value(value, self._rule, self._known)[1])

    def _end_text(self) -> list[ContentDelta]:
        safe, self._text = self._text.end(), self._new_redactor()
        return _unless_empty(TextDelta(safe))

    def _end_thought(self) -> list[ContentDelta]:
        safe, self._thought = self._thought.end(), self._new_redactor()
        return _unless_empty(ThinkingDelta(safe))


def _unless_empty(delta: TextDelta | ThinkingDelta) -> list[ContentDelta]:
    text = delta.text if isinstance(delta, TextDelta) else delta.thinking or delta.signature
    return [delta] if text or delta.bound is not None else []


def redacting_show(
    show: Callable[[str], None], rule: RedactMode = "assignments", known: KnownValues = NO_KNOWN_VALUES
) -> Callable[[str], None]:
    """Return a function that passes the live output of a tool, without secrets, to `show`."""
    redactor = Redactor(rule, known)

    def pass_on(text: str) -> None:
        safe = redactor.feed(text)
        if safe:
            show(safe)

    return pass_on
