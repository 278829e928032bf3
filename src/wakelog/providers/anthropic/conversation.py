"""Messages of the Messages API, made from a context: roles alternate, and every call is followed by its result.

Pure. Each message depends only on itself and those before it, so a longer conversation begins with the blocks of the
shorter one (law 8: each request is a prefix of the next). A call and its results are one group: the results come first
in the message after the call, each once, and a call without a result gets one that says so.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from wakelog.log.content import JsonObject, ToolCall
from wakelog.projections.context import ContextMessage
from wakelog.providers.anthropic.blocks import (
    call_block,
    missing_result,
    result_block,
    said_by_model,
    said_by_user,
    text_blocks,
)

_OPENING = "(What was said before this is left out.)"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
# Leaves space for a numeric suffix: other APIs accept 64 characters.
_ID_CHARS = 48
_NAME_CHARS = 128


def conversation(messages: Sequence[ContextMessage], *, is_own: Callable[[ContextMessage], bool]) -> list[JsonObject]:
    """Return the messages for the API. `is_own` says whether the reasoning of a reply may be sent back."""
    told: list[JsonObject] = []
    ids = _Ids()
    for message, results in _groups(messages):
        if message.role == "user":
            _add(told, "user", said_by_user(message.content))
        else:
            _add_reply(told, message, results, ids, thoughts=is_own(message))
    return told


def _groups(messages: Iterable[ContextMessage]) -> Iterator[tuple[ContextMessage, list[ContextMessage]]]:
    """Yield each message with the tool results directly after it."""
    group: tuple[ContextMessage, list[ContextMessage]] | None = None
    for message in messages:
        if message.role != "toolResult":
            if group:
                yield group
            group = (message, [])
        elif group:
            group[1].append(message)
    if group:
        yield group


def _add_reply(
    told: list[JsonObject], reply: ContextMessage, results: Sequence[ContextMessage], ids: "_Ids", *, thoughts: bool
) -> None:
    waiting: dict[str, deque[str]] = defaultdict(deque)
    blocks: list[JsonObject] = []
    for block in said_by_model(reply.content, thoughts=thoughts):
        if isinstance(block, ToolCall):
            wire_id = ids.of(block.id)
            waiting[block.id].append(wire_id)
            blocks.append(call_block(block, wire_id, _safe(block.name, "tool", _NAME_CHARS)))
        else:
            blocks.append(block)
    _add(told, "assistant", blocks)
    _add(told, "user", _answers(results, waiting))


def _answers(results: Sequence[ContextMessage], waiting: dict[str, deque[str]]) -> list[JsonObject]:
    """Return one result for each call, in order of arrival; results without a call and repeated ones are dropped."""
    blocks = [
        result_block(result, waiting[result.tool_call_id].popleft())
        for result in results
        if result.tool_call_id is not None and waiting.get(result.tool_call_id)
    ]
    return [*blocks, *(missing_result(wire_id) for left in waiting.values() for wire_id in left)]


def _add(told: list[JsonObject], role: str, blocks: list[JsonObject]) -> None:
    """Append blocks to the last message of that role, or begin one. The first message must be the user's."""
    if not blocks:
        return
    if not told and role == "assistant":
        told.append({"role": "user", "content": text_blocks(_OPENING)})
    if told and told[-1]["role"] == role:
        told[-1]["content"].extend(blocks)
    else:
        told.append({"role": role, "content": blocks})


# ── ids and names ────────────────────────────────────────────────────────────────────────────────


class _Ids:
    """Ids of calls for the API: of a restricted alphabet, and unique in the conversation.

    In the log they are unique within their reply, and may come from anywhere.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._counts: Counter[str] = Counter()

    def of(self, call_id: str) -> str:
        """Return a new id for the next call that has this id in the log."""
        safe = free = _safe(call_id, "call", _ID_CHARS)
        while free in self._taken:
            self._counts[safe] += 1
            free = f"{safe}-{self._counts[safe]}"
        self._taken.add(free)
        return free


def _safe(name: str, otherwise: str, chars: int) -> str:
    return _UNSAFE.sub("_", name)[:chars] or otherwise
