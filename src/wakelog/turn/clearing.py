"""Where redaction meets the log: an entry without secrets, deltas without secrets, and calls that held one.

Pure. What is in the log is the only text there is: the model, tools, people and replay get the same (law 14). So what
a model says is looked through before it stands in a journal or on a screen, and everything else before it is written.
"""

import operator
import re
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import msgspec

from wakelog.log.content import AnyMessage, Content, Note, Reply
from wakelog.log.entry import (
    Attention,
    AttentionResolved,
    Cancelled,
    Compaction,
    ContextRecord,
    Custom,
    Failed,
    FaultReport,
    Known,
    Label,
    Message,
    ModelChange,
    Partial,
    Queued,
    SendFailed,
    SessionRenamed,
    Setting,
    Terminated,
)
from wakelog.turn.deltas import CallDelta, Spoken, TextDelta, ThinkingDelta
from wakelog.turn.redaction import Redactor, redact, redact_parts, redact_value

_Body = TypeVar("_Body", bound=msgspec.Struct)
_MARK = re.compile(r"\[redacted: [a-z0-9-]+\]")


def cleared(body: Known) -> Known:
    """An entry without the secrets in what it says; the very same where it held none."""
    return _without(body, SAID_IN.get(type(body), ()))


def _without(body: _Body, fields: "_Fields") -> _Body:
    changed = {}
    for name, clear in fields:
        stood = getattr(body, name)
        if stood is not None and (clean := clear(stood)) is not stood:
            changed[name] = clean
    return msgspec.structs.replace(body, **changed) if changed else body


def _message(message: AnyMessage) -> AnyMessage:
    return _without(message, (("content", _content), *_BESIDE_CONTENT.get(type(message), ())))


def _content(content: Content) -> Content:
    if isinstance(content, str):
        return _text(content)
    parts, _ = redact_parts(content)
    return content if len(parts) == len(content) and all(map(operator.is_, parts, content)) else parts


def _text(text: str) -> str:
    found = redact(text)
    return found.text if found.hits else text


def _texts(texts: tuple[str, ...]) -> tuple[str, ...]:
    found = tuple(map(_text, texts))
    return found if found != texts else texts


def _value(value: Any) -> Any:
    found, hits = redact_value(value)
    return found if hits else value


def _fault(error: FaultReport) -> FaultReport:
    return _without(error, (("kind", _text), ("message", _text)))


# What entries say, in the fields that hold it. All else is ids, digests, addresses, numbers and words of our own.
_Fields: TypeAlias = tuple[tuple[str, Callable[[Any], Any]], ...]
_BESIDE_CONTENT: dict[type[msgspec.Struct], _Fields] = {
    Reply: (("model", _text), ("stop_reason", _text)),
    Note: (("custom_type", _text),),
}
SAID_IN: dict[type[msgspec.Struct], _Fields] = {
    Message: (("message", _message),),
    Queued: (("message", _message),),
    Partial: (("content", _content), ("error", _fault)),
    Compaction: (("summary", _text),),
    Custom: (("custom_type", _text), ("content", _content), ("data", _value)),
    Failed: (("error", _fault),),
    SendFailed: (("error", _fault),),
    SessionRenamed: (("title", _text),),
    Label: (("label", _text),),
    Attention: (("reason", _text), ("refs", _texts)),
    AttentionResolved: (("decision", _text), ("result", _content)),
    Cancelled: (("reason", _text), ("content", _content)),
    Terminated: (("reason", _text),),
    ModelChange: (("model", _text),),
    Setting: (("value", _value),),
    ContextRecord: (("params", _value),),
}


def holds_mark(value: Any) -> bool:
    """Whether a secret was taken out of what a tool is given: to run it so would do something else than was meant."""
    match value:
        case str():
            return _MARK.search(value) is not None
        case dict():
            return any(holds_mark(key) or holds_mark(each) for key, each in value.items())
        case list() | tuple():
            return any(map(holds_mark, value))
    return False


class Sieve:
    """What a model says, as it comes, without secrets. Only what could still become one is held back."""

    def __init__(self) -> None:
        self._text = Redactor()
        self._thought = Redactor()

    def take(self, delta: Spoken) -> list[Spoken]:
        """Takes in the next delta; gives those that may be written and shown."""
        match delta:
            case TextDelta(text, bound):
                safe = self._text.feed(text) if bound is None else self._text.end(text)
                given = [*self._end_thought(), *_told(TextDelta(safe, None if self._text.hits else bound))]
                self._text = self._text if bound is None else Redactor()
                return given
            case ThinkingDelta(thinking, signature, bound):
                is_last = signature is not None or bound is not None
                safe = self._thought.end(thinking) if is_last else self._thought.feed(thinking)
                # A signature holds for the words as they came: with others it is worth nothing.
                signed = (None, None) if self._thought.hits else (signature, bound)
                given = [*self._end_text(), *_told(ThinkingDelta(safe, *signed))]
                self._thought = Redactor() if is_last else self._thought
                return given
        (name, given), hits = redact_value((delta.name, delta.input))
        call = CallDelta(delta.id, name, given, None) if hits else delta
        return [*self._end_text(), *self._end_thought(), call]

    def end(self) -> list[Spoken]:
        """What was held back: nothing more will come."""
        return [*self._end_text(), *self._end_thought()]

    def _end_text(self) -> list[Spoken]:
        safe, self._text = self._text.end(), Redactor()
        return _told(TextDelta(safe))

    def _end_thought(self) -> list[Spoken]:
        safe, self._thought = self._thought.end(), Redactor()
        return _told(ThinkingDelta(safe))


def _told(delta: TextDelta | ThinkingDelta) -> list[Spoken]:
    said = delta.text if isinstance(delta, TextDelta) else delta.thinking or delta.signature
    return [delta] if said or delta.bound is not None else []


def shown_safely(show: Callable[[str], None]) -> Callable[[str], None]:
    """Live output of a tool, without secrets."""
    redactor = Redactor()

    def pass_on(text: str) -> None:
        safe = redactor.feed(text)
        if safe:
            show(safe)

    return pass_on
