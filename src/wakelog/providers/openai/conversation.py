"""Conversation parts that both OpenAI APIs share: paired tool results, bound data, input text, images, tools.

Pure. Rule 1: every call is sent with one result after it. A call without a result on record gets one that says so:
leaving it out would hide what it may have done. A result without its call is dropped.
Rule 2: the id of a call is unique in a request, and short enough for the API. It depends on nothing after it, so
that each request is a prefix of the next (law 8).
Rule 3: a part is sent back with the data bound to it. That data comes from a log, which is untrusted: data of
another shape is ignored, and its part is sent without it.
Rule 4: the input of a call is formatted as the model had formatted it: without spaces, or with one after each comma
and colon.
"""

import hashlib
import json
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from wakelog.decoding import convert
from wakelog.log.codec import canonical_json
from wakelog.log.content import AnyPart, Image, JsonObject, Text, Thinking, ToolCall
from wakelog.log.ids import digest_of
from wakelog.ports.runtime import ModelRequest
from wakelog.projections.context import ContextMessage
from wakelog.providers.requests import IMAGE_TYPES, group_tool_results, media_type_of

_Size = Annotated[int, msgspec.Meta(ge=0)]


class Bound(msgspec.Struct, frozen=True, omit_defaults=True):
    """All data that a part may need; most parts need little of it."""

    id: str | None = None
    """Id of the item."""
    after: str | None = None
    """Id of the reasoning that the item follows; without that reasoning the item is refused."""
    phase: str | None = None
    refusal: bool = False
    annotations: list[JsonObject] = []
    summary: list[_Size] = []
    """Length of each part of a summary; they are displayed as one text."""
    content: list[_Size] = []
    """The same for unencrypted reasoning."""
    spaced: bool = False
    """Whether the input of a call was written with spaces."""
    field: Literal["reasoning", "reasoning_content"] = "reasoning_content"
    """The field in which a Chat Completions server sent its reasoning."""
    item: JsonObject | None = None
    """An item that no part represents, such as a web search: it is sent back as it is."""
    custom: JsonObject | None = None
    """Of a call whose input is free text, not JSON: its further fields, such as a namespace."""


def parse_bound(part: AnyPart) -> Bound:
    """Return the data bound to a part; empty if there is none or it is invalid."""
    bound = part.bound if isinstance(part, Text | Thinking | ToolCall) else None
    try:
        return convert(bound or {}, Bound)
    except msgspec.ValidationError:
        return Bound()


def bound_as_json(bound: Bound) -> JsonObject | None:
    """Return bound data as JSON for the log; None if there is nothing to keep."""
    plain: JsonObject = msgspec.to_builtins(bound)
    return plain or None


def custom_fields(part: AnyPart, bound: Bound) -> JsonObject | None:
    """Return the further fields of a custom tool call, whose input is free text; None for any other part."""
    return bound.custom if isinstance(part, ToolCall) and isinstance(part.input, str) else None


_COMPACT = (",", ":")


def is_spaced(text: str, value: Any) -> bool:
    """Return whether a text is the JSON of a value with spaces."""
    return text not in ("{}", "[]") and text == json.dumps(value, ensure_ascii=False)


def format_input(value: Any, *, spaced: bool) -> str:
    """Return an input as JSON text. Servers accept only an object, so any other value is wrapped in one."""
    tool_input = value if isinstance(value, dict) else {} if value is None else {"input": value}
    return json.dumps(tool_input, ensure_ascii=False, separators=None if spaced else _COMPACT)


_NO_INPUT = {"type": "object", "properties": {}}
_CACHE_KEY_CHARS = 32


def image_url(image: Image) -> str | None:
    """Return an image as a data URL; None if its bytes are not available, or no model accepts its type."""
    kind = media_type_of(image) or "image/png"
    return f"data:{kind};base64,{image.data}" if image.data and kind in IMAGE_TYPES else None


def function_declaration(tool: Mapping[str, Any]) -> JsonObject:
    """Return a declared tool as a function of the API; other keys of the declaration are not sent."""
    return {
        "name": tool["name"],
        "description": tool.get("description", ""),
        "parameters": tool.get("schema") or _NO_INPUT,
        "strict": False,
    }


def cache_key(request: ModelRequest) -> str:
    """Return the same key for all requests with the same beginning, forks included, so that they share a cache."""
    beginning = canonical_json([request.system, request.tools, request.messages[:1]])
    return "wakelog-" + digest_of(beginning).partition(":")[2][:_CACHE_KEY_CHARS]


NO_RECORD = "(there is no record of what came of this call)"
# The API's limit, with space for a numeric suffix.
_ID_CHARS = 64 - 8
_NAME_CHARS = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class Exchange(msgspec.Struct, frozen=True):
    """A message, and for a reply: the ids of its calls on the wire, in order, and the result of each."""

    message: ContextMessage
    ids: tuple[str, ...] = ()
    results: tuple[tuple[str, tuple[AnyPart, ...]], ...] = ()

    def parts(self) -> Iterator[tuple[AnyPart, str]]:
        """Yield the parts of the message; a call with its id on the wire."""
        ids = iter(self.ids)
        for part in self.message.content:
            yield part, next(ids) if isinstance(part, ToolCall) else ""


def pair_results(messages: Sequence[ContextMessage]) -> Iterator[Exchange]:
    """Yield all messages in order, each reply with the results after it."""
    taken: set[str] = set()
    for message, results in group_tool_results(messages):
        yield Exchange(message) if message.role == "user" else _pair_reply(message, results, taken)


def _pair_reply(reply: ContextMessage, messages: Sequence[ContextMessage], taken: set[str]) -> Exchange:
    ids: list[str] = []
    waiting: dict[str, deque[str]] = defaultdict(deque)
    for part in reply.content:
        if isinstance(part, ToolCall):
            ids.append(_unique_id(part.id, taken))
            waiting[part.id].append(ids[-1])
    results = [
        (left.popleft(), message.content) for message in messages if (left := waiting.get(message.tool_call_id or ""))
    ]
    unknown = (Text(text=NO_RECORD),)
    return Exchange(reply, tuple(ids), (*results, *((each, unknown) for left in waiting.values() for each in left)))


def _unique_id(wanted: str, taken: set[str]) -> str:
    short = wanted if 0 < len(wanted) <= _ID_CHARS else "call_" + hashlib.sha256(wanted.encode()).hexdigest()[:32]
    number, free = 1, short
    while free in taken:
        number += 1
        free = f"{short}_{number}"
    taken.add(free)
    return free


def safe_name(name: str) -> str:
    """Return the name of a tool as the API accepts it: one from elsewhere may hold other characters."""
    return _UNSAFE.sub("_", name)[:_NAME_CHARS] or "tool"


def is_own(message: ContextMessage, request: ModelRequest, provider: str) -> bool:
    """Return whether a reply came from this provider and model: only then is its bound data sent back."""
    return message.provider == provider and message.model == request.model
