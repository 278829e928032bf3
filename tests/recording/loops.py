"""A model server for the example loops: it asks for the balance, then for a payment, then says what it was told."""

import json
from typing import Any

from tests.loopback.server import Answer, Asked


def answer(asked: Asked) -> Answer:
    """Answer a request of the Anthropic Messages or the OpenAI Responses API, by how far the conversation has come."""
    body = asked.json
    reply = _anthropic(body["messages"]) if asked.path.endswith("/messages") else _openai(body["input"])
    return Answer([json.dumps(reply).encode()], headers={"content-type": "application/json"})


def _next_step(results: list[str]) -> tuple[str, Any]:
    """Return the tool to call next, or the last words, after these results."""
    if not results:
        return "balance", {"account": "ada"}
    if len(results) == 1:
        return "pay", {"euros": 30}
    return "", f"Done: {results[-1]}"


def _anthropic(messages: list[dict[str, Any]]) -> dict[str, Any]:
    blocks = [block for message in messages for block in message["content"] if block["type"] == "tool_result"]
    tool, what = _next_step([block["content"][0]["text"] for block in blocks])
    call = {"type": "tool_use", "id": f"toolu_{len(blocks)}", "name": tool, "input": what}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": f"SIG{len(blocks)}"},
            call if tool else {"type": "text", "text": what},
        ],
        "stop_reason": "tool_use" if tool else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 5},
    }


def _openai(items: list[dict[str, Any]]) -> dict[str, Any]:
    results = [item["output"] for item in items if item.get("type") == "function_call_output"]
    tool, what = _next_step(results)
    number = len(results)
    call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": tool}
    text = {"type": "output_text", "text": what, "annotations": []}
    message = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text]}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "gpt-5",
        "output": [
            {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": f"SEALED{number}"},
            {**call, "arguments": json.dumps(what), "status": "completed"} if tool else message,
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 5,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 1},
            "total_tokens": 10,
        },
    }
