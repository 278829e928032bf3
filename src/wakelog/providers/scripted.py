"""The scripted model: plays prepared replies, from a list or a JSON Lines file.

It is for documentation and tests, also those of users. Its position in the script is `request.answers`, the number of
ended model calls of the branch, which is derived from the log: after a crash, on another machine or on a fork the same
call gets the same reply, and this module keeps no count. docs/scripted.md describes the script's format; an invalid
script is refused when it is opened, with the line and the reason.
"""

import difflib
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from wakelog.decoding import convert
from wakelog.errors import UsageError
from wakelog.log.content import Delta, Faulted, ToolCallDelta, Usage
from wakelog.ports.runtime import ModelRequest
from wakelog.providers.playback import PreparedReply, play, play_fault
from wakelog.providers.requests import new_tool_call_id

DELTA_CHARS = 16
_Count = Annotated[int, msgspec.Meta(ge=0)]


class _ScriptObject(msgspec.Struct, frozen=True, rename="camel"):
    """Base of every object in a script: fields have their JSON names."""


class ScriptedCall(_ScriptObject, frozen=True):
    """A tool call of a reply."""

    name: str
    input: Any = msgspec.field(default_factory=dict)
    id: str | None = None


class ScriptedFault(_ScriptObject, frozen=True):
    """An external failure, after everything else in the reply."""

    kind: str
    message: str = ""
    retryable: bool = False
    delay_ms: _Count | None = None


class ScriptedReply(_ScriptObject, frozen=True):
    """One line of a script: a reply."""

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    delta_chars: Annotated[int, msgspec.Meta(ge=1)] = DELTA_CHARS
    delay_ms: _Count = 0
    error: ScriptedFault | None = None
    usage: Usage | None = None
    stop_reason: str | None = None


class _Options(_ScriptObject, frozen=True):
    can_resume: bool = False


class _OptionLine(_ScriptObject, frozen=True):
    options: _Options


_Object = TypeVar("_Object", bound=_ScriptObject)
# The type of each nested object. Unknown keys are typing mistakes and never ignored.
_NESTED_TYPES: Mapping[str, type[msgspec.Struct]] = {
    "toolCalls": ScriptedCall,
    "error": ScriptedFault,
    "usage": Usage,
    "options": _Options,
}


class ScriptedProvider:
    """Provider that plays the replies of a script by position."""

    name = "scripted"

    def __init__(
        self, replies: Sequence[Mapping[str, Any] | ScriptedReply], *, can_resume: bool = False, source: str = ""
    ) -> None:
        self.can_resume = can_resume
        self._source = source or "the script"
        self._replies = tuple(
            reply
            if isinstance(reply, ScriptedReply)
            else _convert_object(reply, ScriptedReply, f"reply {number} of the script")
            for number, reply in enumerate(replies, 1)
        )

    @classmethod
    def from_file(cls, path: str) -> "ScriptedProvider":
        """Read a script with one reply per line; the first line may hold options instead."""
        lines = list(_read_lines(path))
        options = _Options()
        if lines and isinstance(lines[0][1], dict) and "options" in lines[0][1]:
            where, value = lines.pop(0)
            options = _convert_object(value, _OptionLine, where).options
        replies = [_convert_object(value, ScriptedReply, where) for where, value in lines]
        return cls(replies, can_resume=options.can_resume, source=path)

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Stream the reply at this request's position in the script."""
        if request.answers >= len(self._replies):
            return play_fault(self._ended(request.answers))
        return play(_prepared_reply(self._replies[request.answers], request), request, can_resume=self.can_resume)

    def _ended(self, answers: int) -> Faulted:
        count = len(self._replies)
        replies = "1 reply" if count == 1 else f"{count} replies"
        return Faulted("script_ended", f"{self._source} has {replies}, and this is call {answers + 1}")


def open_model(model: str, *_: object) -> ScriptedProvider:
    """Return the provider for `scripted:FILE`."""
    return ScriptedProvider.from_file(os.path.expanduser(model))


def _prepared_reply(reply: ScriptedReply, request: ModelRequest) -> PreparedReply:
    error = reply.error
    return PreparedReply(
        text=reply.text,
        thinking=reply.thinking,
        calls=tuple(
            ToolCallDelta(call.id or new_tool_call_id(request, number), call.name, call.input)
            for number, call in enumerate(reply.tool_calls)
        ),
        fault=Faulted(error.kind, error.message, error.retryable, error.delay_ms) if error else None,
        usage=reply.usage,
        stop_reason=reply.stop_reason,
        delta_chars=reply.delta_chars,
        delay_ms=reply.delay_ms,
    )


# ── reading a script ─────────────────────────────────────────────────────────────────────────────


def _read_lines(path: str) -> Iterator[tuple[str, Any]]:
    """Yield the position and the JSON value of each line that is not blank."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"the script {path} cannot be read: {why}") from error
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            yield f"{path}, line {number}", msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"{path}, line {number}: not JSON: {error}", hint="write one reply per line") from error


def _convert_object(value: Any, shape: type[_Object], where: str) -> _Object:
    """Return a value converted to `shape`, or raise `UsageError`."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: not a JSON object", hint='write a reply such as {"text": "Hello"}')
    _refuse_unknown(value, shape, where)
    try:
        return convert(dict(value), shape)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}") from None


def _refuse_unknown(value: Mapping[str, Any], shape: type[msgspec.Struct], where: str) -> None:
    known = shape.__struct_encode_fields__
    for key, inner in value.items():
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(known)}"
            raise UsageError(f"{where}: unknown key {key!r}", hint=hint)
        for item in inner if isinstance(inner, list | tuple) else [inner]:
            # The input of a tool may hold any keys and is not checked.
            if key in _NESTED_TYPES and isinstance(item, Mapping):
                _refuse_unknown(item, _NESTED_TYPES[key], where)
