"""Answers of a scripted model in the four wire formats, streamed and whole.

An answer is a list of pieces: text, tool calls, and pauses at which a stream waits. Text is streamed word by word. Each
wire format turns the pieces into events of its own; the same number gives the same ids.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

INPUT_TOKENS, OUTPUT_TOKENS = 100, 10
_TIME = 1_772_359_200


class Say(NamedTuple):
    """Text of the model."""

    text: str


class Shell(NamedTuple):
    """A call of the shell tool of the agent, whatever it is called there."""

    command: str


class Call(NamedTuple):
    """A call of a tool by its name."""

    name: str
    arguments: Mapping[str, Any] = {}


class Pause:
    """The stream stops here until `release`; `reached` is set when everything before it has been sent."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.gate = threading.Event()

    def release(self) -> None:
        """Let the stream go on."""
        self.gate.set()


Piece: TypeAlias = Say | Shell | Call | Pause
Event: TypeAlias = "Mapping[str, Any] | Pause"


class Words(NamedTuple):
    """One text of an answer: its words, with the blanks before them, and pauses."""

    pieces: Sequence["str | Pause"]

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(piece for piece in self.pieces if isinstance(piece, str))


class NamedCall(NamedTuple):
    """One tool call of an answer."""

    id: str
    name: str
    arguments: Mapping[str, Any]


class ModelAnswer(NamedTuple):
    """One answer of the model, with the blocks that it consists of."""

    number: int
    model: str
    blocks: Sequence[Words | NamedCall]

    @property
    def text(self) -> str:
        """All text."""
        return "".join(block.text for block in self.blocks if isinstance(block, Words))

    @property
    def calls(self) -> list[NamedCall]:
        """The tool calls."""
        return [block for block in self.blocks if isinstance(block, NamedCall)]

    @property
    def pauses(self) -> list[Pause]:
        """The pauses."""
        pieces = [piece for block in self.blocks if isinstance(block, Words) for piece in block.pieces]
        return [piece for piece in pieces if isinstance(piece, Pause)]


def blocks_of(pieces: Sequence[Say | Call | Pause], prefix: str, number: int) -> list[Words | NamedCall]:
    """Return the blocks of an answer: texts and pauses beside each other are one block."""
    blocks: list[Words | NamedCall] = []
    for piece in pieces:
        if isinstance(piece, Call):
            blocks.append(NamedCall(f"{prefix}{number:04}{len(blocks):04}", piece.name, piece.arguments))
            continue
        words: list[str | Pause] = [piece] if isinstance(piece, Pause) else list(re.findall(r"\s*\S+|\s+$", piece.text))
        if blocks and isinstance(last := blocks[-1], Words):
            blocks[-1] = Words([*last.pieces, *words])
        else:
            blocks.append(Words(words))
    return blocks


# ── Anthropic Messages ───────────────────────────────────────────────────────────────────────────


def _anthropic_message(answer: ModelAnswer) -> dict[str, Any]:
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}
    cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {
        "id": f"msg_{answer.number:04}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [
            {"type": "text", "text": block.text}
            if isinstance(block, Words)
            else {"type": "tool_use", "id": block.id, "name": block.name, "input": dict(block.arguments)}
            for block in answer.blocks
        ],
        "stop_reason": "tool_use" if answer.calls else "end_turn",
        "stop_sequence": None,
        "usage": {**usage, **cached},
    }


def _anthropic_events(answer: ModelAnswer) -> Iterator[Event]:
    message = _anthropic_message(answer)
    begun = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(answer.blocks):
        place = {"index": index}
        if isinstance(block, NamedCall):
            empty = {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
            yield {"type": "content_block_start", **place, "content_block": empty}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block.arguments)}
            yield {"type": "content_block_delta", **place, "delta": delta}
        else:
            yield {"type": "content_block_start", **place, "content_block": {"type": "text", "text": ""}}
            for piece in block.pieces:
                if isinstance(piece, Pause):
                    yield piece
                else:
                    delta = {"type": "text_delta", "text": piece}
                    yield {"type": "content_block_delta", **place, "delta": delta}
        yield {"type": "content_block_stop", **place}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": OUTPUT_TOKENS}}
    yield {"type": "message_stop"}


# ── OpenAI Chat Completions ──────────────────────────────────────────────────────────────────────

_CHAT_USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


def _chat_call(call: NamedCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _chat_completion(answer: ModelAnswer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = [_chat_call(call) for call in answer.calls]
    reason = "tool_calls" if answer.calls else "stop"
    return {
        "id": f"chatcmpl-{answer.number:04}",
        "object": "chat.completion",
        "created": _TIME,
        "model": answer.model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": _CHAT_USAGE,
    }


def _chat_events(answer: ModelAnswer) -> Iterator[Event]:
    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {**fixed, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    whole = _chat_completion(answer)
    fixed = {"id": whole["id"], "object": "chat.completion.chunk", "created": _TIME, "model": answer.model}
    yield chunk({"role": "assistant", "content": ""})
    number = 0
    for block in answer.blocks:
        if isinstance(block, NamedCall):
            call = _chat_call(block)
            arguments = call["function"]["arguments"]
            begun = {**call, "index": number, "function": {"name": block.name, "arguments": ""}}
            yield chunk({"tool_calls": [begun]})
            yield chunk({"tool_calls": [{"index": number, "function": {"arguments": arguments}}]})
            number += 1
        else:
            for piece in block.pieces:
                yield piece if isinstance(piece, Pause) else chunk({"content": piece})
    yield chunk({}, whole["choices"][0]["finish_reason"])
    yield {**fixed, "choices": [], "usage": _CHAT_USAGE}


# ── OpenAI Responses ─────────────────────────────────────────────────────────────────────────────


def _output_item(answer: ModelAnswer, index: int) -> dict[str, Any]:
    block = answer.blocks[index]
    item_id = f"{answer.number:04}{index:04}"
    if isinstance(block, NamedCall):
        arguments = json.dumps(block.arguments)
        fields = {"name": block.name, "call_id": block.id, "arguments": arguments}
        return {"id": f"fc_{item_id}", "type": "function_call", "status": "completed", **fields}
    part = {"type": "output_text", "text": block.text, "annotations": []}
    item = {"id": f"msg_{item_id}", "type": "message", "role": "assistant", "status": "completed"}
    return {**item, "content": [part]}


def _response(answer: ModelAnswer) -> dict[str, Any]:
    return {
        "id": f"resp_{answer.number:04}",
        "object": "response",
        "created_at": _TIME,
        "model": answer.model,
        "status": "completed",
        "output": [_output_item(answer, index) for index in range(len(answer.blocks))],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": INPUT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": OUTPUT_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
    }


def _responses_events(answer: ModelAnswer) -> Iterator[Event]:
    response = _response(answer)
    steps: list[Event] = []

    def step(kind: str, **fields: Any) -> None:
        steps.append({"type": f"response.{kind}", **fields})

    step("created", response={**response, "status": "in_progress", "output": [], "usage": None})
    for index, block in enumerate(answer.blocks):
        item = response["output"][index]
        place = {"item_id": item["id"], "output_index": index}
        if isinstance(block, NamedCall):
            step("output_item.added", output_index=index, item={**item, "status": "in_progress", "arguments": ""})
            step("function_call_arguments.delta", **place, delta=item["arguments"])
            step("function_call_arguments.done", **place, name=block.name, arguments=item["arguments"])
        else:
            place["content_index"] = 0
            [part] = item["content"]
            step("output_item.added", output_index=index, item={**item, "status": "in_progress", "content": []})
            step("content_part.added", **place, part={**part, "text": ""})
            for piece in block.pieces:
                if isinstance(piece, Pause):
                    steps.append(piece)
                else:
                    step("output_text.delta", **place, delta=piece, logprobs=[])
            step("output_text.done", **place, text=block.text, logprobs=[])
            step("content_part.done", **place, part=part)
        step("output_item.done", output_index=index, item=item)
    step("completed", response=response)
    for number, event in enumerate(steps):
        yield event if isinstance(event, Pause) else {**event, "sequence_number": number}


# ── Gemini ───────────────────────────────────────────────────────────────────────────────────────


def _gemini_chunk(answer: ModelAnswer, parts: Sequence[Mapping[str, Any]], *, is_last: bool) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    if is_last:
        candidate["finishReason"] = "STOP"
    usage = {
        "promptTokenCount": INPUT_TOKENS,
        "candidatesTokenCount": OUTPUT_TOKENS,
        "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
    }
    fields = {"modelVersion": answer.model, "responseId": f"response-{answer.number:04}"}
    return {"candidates": [candidate], "usageMetadata": usage, **fields}


def _gemini_call(call: NamedCall) -> dict[str, Any]:
    return {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}}


def _gemini_whole(answer: ModelAnswer) -> dict[str, Any]:
    parts = [{"text": block.text} if isinstance(block, Words) else _gemini_call(block) for block in answer.blocks]
    return _gemini_chunk(answer, parts, is_last=True)


def _gemini_events(answer: ModelAnswer) -> Iterator[Event]:
    for block in answer.blocks:
        if isinstance(block, NamedCall):
            yield _gemini_chunk(answer, [_gemini_call(block)], is_last=False)
            continue
        for piece in block.pieces:
            yield piece if isinstance(piece, Pause) else _gemini_chunk(answer, [{"text": piece}], is_last=False)
    yield _gemini_chunk(answer, [{"text": ""}], is_last=True)


class Wire(NamedTuple):
    """How one wire format writes an answer."""

    events: Callable[[ModelAnswer], Iterator[Event]]
    whole: Callable[[ModelAnswer], Mapping[str, Any]]
    call_prefix: str
    has_event_names: bool = False
    end: bytes = b""


WIRES: Mapping[str, Wire] = {
    "anthropic": Wire(_anthropic_events, _anthropic_message, "toolu_", has_event_names=True),
    "chat": Wire(_chat_events, _chat_completion, "call_", end=b"data: [DONE]\n\n"),
    "responses": Wire(_responses_events, _response, "call_", has_event_names=True),
    "gemini": Wire(_gemini_events, _gemini_whole, "call_"),
}
