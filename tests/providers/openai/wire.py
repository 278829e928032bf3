"""The wire as OpenAI speaks it, made by hand: whole streams of both protocols, for the loopback to play.

The streams are judged before they judge: the SDK's own accumulators take them for what they say they are.
"""

import json
from typing import Any

from tests.loopback import Answer, events

USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 15},
    "total_tokens": 120,
}
CHAT_USAGE = {
    "prompt_tokens": 100,
    "prompt_tokens_details": {"cached_tokens": 60},
    "completion_tokens": 20,
    "total_tokens": 120,
}
HEADERS = {"content-type": "text/event-stream", "x-request-id": "req_1"}


# ── Responses ────────────────────────────────────────────────────────────────────────────────────


def reasoning(item_id="rs_1", *summary, encrypted="c2VhbGVk", content=()):
    item = {
        "type": "reasoning",
        "id": item_id,
        "summary": [{"type": "summary_text", "text": text} for text in summary],
    }
    if encrypted is not None:
        item["encrypted_content"] = encrypted
    if content:
        item["content"] = [{"type": "reasoning_text", "text": text} for text in content]
    return item


def message(item_id="msg_1", *texts, phase=None, refusal=None):
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    if refusal is not None:
        content.append({"type": "refusal", "refusal": refusal})
    item = {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content}
    return {**item, "phase": phase} if phase else item


def call(item_id="fc_1", call_id="call_1", name="look", arguments='{"where":"north"}'):
    return {
        "type": "function_call",
        "id": item_id,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def _halves(text):
    middle = len(text) // 2
    return [half for half in (text[:middle], text[middle:]) if half]


def _message_events(at, item):
    for index, part in enumerate(item["content"]):
        kind = "refusal" if part["type"] == "refusal" else "output_text"
        word = "refusal" if kind == "refusal" else "text"
        place = {"item_id": item["id"], "output_index": at, "content_index": index}
        yield {"type": "response.content_part.added", **place, "part": {**part, word: ""}}
        for piece in _halves(part[word]):
            more: dict[str, Any] = {"logprobs": []} if kind == "output_text" else {}
            yield {"type": f"response.{kind}.delta", **place, "delta": piece, **more}
        yield {"type": f"response.{kind}.done", **place, word: part[word], "logprobs": []}
        yield {"type": "response.content_part.done", **place, "part": part}


def _reasoning_events(at, item):
    for index, part in enumerate(item["summary"]):
        place = {"item_id": item["id"], "output_index": at, "summary_index": index}
        yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
        for piece in _halves(part["text"]):
            yield {"type": "response.reasoning_summary_text.delta", **place, "delta": piece}
        yield {"type": "response.reasoning_summary_text.done", **place, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", **place, "part": part}
    for index, part in enumerate(item.get("content", [])):
        place = {"item_id": item["id"], "output_index": at, "content_index": index}
        for piece in _halves(part["text"]):
            yield {"type": "response.reasoning_text.delta", **place, "delta": piece}
        yield {"type": "response.reasoning_text.done", **place, "text": part["text"]}


def _call_events(at, item):
    place = {"item_id": item["id"], "output_index": at}
    for piece in _halves(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
    yield {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]}


_KINDS = {"message": _message_events, "reasoning": _reasoning_events, "function_call": _call_events}
_EMPTY: dict[str, dict[str, Any]] = {
    "message": {"content": [], "status": "in_progress"},
    "reasoning": {"summary": []},
    "function_call": {"arguments": "", "status": "in_progress"},
}


def response(output=(), status="completed", **more):
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": status,
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": USAGE if status != "in_progress" else None,
        **more,
    }


def item_events(at, item):
    """The events of one item from its beginning to its end."""
    yield {"type": "response.output_item.added", "output_index": at, "item": {**item, **_EMPTY.get(item["type"], {})}}
    yield from _KINDS.get(item["type"], lambda at, item: ())(at, item)
    yield {"type": "response.output_item.done", "output_index": at, "item": item}


def response_events(*items, status="completed", **more):
    """A whole stream, with its last event."""
    told = [
        {"type": "response.created", "response": response(status="in_progress")},
        {"type": "response.in_progress", "response": response(status="in_progress")},
    ]
    for at, item in enumerate(items):
        told += item_events(at, item)
    told.append({"type": f"response.{status}", "response": response(items, status, **more)})
    return [{**event, "sequence_number": number} for number, event in enumerate(told)]


def responses_answer(*items, **more):
    return Answer(events(*response_events(*items, **more)), headers=HEADERS)


# ── Chat Completions ─────────────────────────────────────────────────────────────────────────────


def chunk(delta=None, finish=None, **more):
    """One chunk; without a delta and a reason it has no choices, as the one with the usage has none."""
    choices = [] if delta is None and finish is None else [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    return {
        "id": "chatcmpl_1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": choices,
        **more,
    }


def called(index, call_id=None, name=None, arguments=None):
    piece = {"index": index} if index is not None else {}
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    if call_id is not None:
        piece |= {"id": call_id, "type": "function"}
    return {**piece, "function": function}


DONE = b"data: [DONE]\n\n"


def chat_acts(*chunks, done=True):
    return [*events(*chunks, named=False), *([DONE] if done else [])]


def chat_answer(*chunks, done=True):
    return Answer(chat_acts(*chunks, done=done), headers=HEADERS)


def chat_reply(text="", *, calls=(), finish=None, thoughts="", field="reasoning_content", usage=CHAT_USAGE):
    """A whole reply in the pieces that OpenAI itself would send."""
    told = [chunk({"role": "assistant", "content": ""})]
    told += [chunk({field: piece}) for piece in _halves(thoughts)]
    told += [chunk({"content": piece}) for piece in _halves(text)]
    for index, (call_id, name, arguments) in enumerate(calls):
        told.append(chunk({"tool_calls": [called(index, call_id, name, "")]}))
        told += [chunk({"tool_calls": [called(index, arguments=piece)]}) for piece in _halves(arguments)]
    told.append(chunk(finish=finish or ("tool_calls" if calls else "stop")))
    return chat_answer(*told, *([chunk(usage=usage)] if usage else []))


def error_answer(status, code=None, message="it went wrong", *, kind="invalid_request_error", headers=None):
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return Answer([json.dumps(body).encode()], status, {"content-type": "application/json", **(headers or {})})
