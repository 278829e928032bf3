"""The conversation in a request to a model as flat rows, equal for all wire formats, and the tools that it offers.

A row is (kind, text, id). Kinds: `system`, `user`, `assistant` (text of the model), `thinking`, `call` (the text is the
name and the arguments as JSON with sorted keys), `result`, `image` and `other`. The id is that of the tool call; it is
empty in other rows, and in Gemini's where the client sends none.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One piece of a conversation."""

    kind: str
    text: str
    id: str = ""


class OfferedTool(NamedTuple):
    """A tool that a request offers to the model."""

    name: str
    schema: Mapping[str, Any]


def call_text(name: str, arguments: Any) -> str:
    """Return the text of the row of a tool call. Arguments are a JSON object, or the text of one."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            return f"{name} {arguments}"
    return f"{name} {json.dumps(arguments, sort_keys=True, ensure_ascii=False)}"


def unpaired_calls(rows: Iterable[Row]) -> list[str]:
    """Return what a provider would refuse: calls without a result, results without a call, and second results."""
    problems: list[str] = []
    open_calls: dict[str, int] = {}
    for row in rows:
        if row.kind == "call":
            open_calls[row.id] = open_calls.get(row.id, 0) + 1
        elif row.kind == "result":
            if not open_calls.get(row.id):
                problems.append(f"result {row.id} without a call")
            else:
                open_calls[row.id] -= 1
        elif row.kind in ("user", "assistant"):
            problems += [f"call {call} without a result" for call, count in open_calls.items() if count]
            open_calls.clear()
    return problems + [f"call {call} without a result" for call, count in open_calls.items() if count]


def _text_of(content: Any) -> str:
    """Return the text of content in any of the forms: a text, one part, or a list of parts."""
    match content:
        case str():
            return content
        case list():
            return "".join(_text_of(part) for part in content)
        case {"text": str(text)}:
            return text
    return ""


def _content_rows(kind: str, content: Any) -> Iterator[Row]:
    """Yield rows of parts of Anthropic and OpenAI: one for each text, and one for each image."""
    for part in [content] if isinstance(content, str) else content or ():
        match part:
            case str():
                yield Row(kind, part)
            case {"text": str(text)}:
                yield Row(kind, text)
            case {"type": "refusal", "refusal": str(text)}:
                yield Row(kind, text)
            case {"type": "image" | "image_url" | "input_image"}:
                yield Row("image", "")
            case _:
                yield Row("other", json.dumps(part, sort_keys=True))


# ── Anthropic Messages ───────────────────────────────────────────────────────────────────────────


def anthropic_rows(body: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows of a request to Anthropic Messages."""
    yield from _content_rows("system", body.get("system"))
    for message in body.get("messages", ()):
        kind = message["role"]
        content = message["content"]
        for block in [content] if isinstance(content, str) else content:
            match block:
                case {"type": "tool_use", "id": call, "name": name, "input": arguments}:
                    yield Row("call", call_text(name, arguments), call)
                case {"type": "tool_result", "tool_use_id": call}:
                    yield Row("result", _text_of(block.get("content")), call)
                    yield from (row for row in _content_rows("", block.get("content")) if row.kind == "image")
                case {"type": "thinking", "thinking": str(text)}:
                    yield Row("thinking", text)
                case {"type": "redacted_thinking", "data": str(data)}:
                    yield Row("thinking", data)
                case _:
                    yield from _content_rows(kind, [block])


def _anthropic_tools(body: Mapping[str, Any]) -> Iterator[OfferedTool]:
    for tool in body.get("tools") or ():
        yield OfferedTool(tool["name"], tool.get("input_schema", {}))


# ── OpenAI Chat Completions ──────────────────────────────────────────────────────────────────────


def chat_rows(body: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows of a request to OpenAI Chat Completions."""
    for message in body.get("messages", ()):
        role = message["role"]
        if role == "tool":
            yield Row("result", _text_of(message.get("content")), message["tool_call_id"])
            continue
        if isinstance(thought := message.get("reasoning_content"), str) and thought:
            yield Row("thinking", thought)
        kind = "system" if role == "developer" else role
        yield from (row for row in _content_rows(kind, message.get("content")) if row.text or row.kind == "image")
        for call in message.get("tool_calls") or ():
            function = call["function"]
            yield Row("call", call_text(function["name"], function["arguments"]), call["id"])


def _chat_tools(body: Mapping[str, Any]) -> Iterator[OfferedTool]:
    for tool in body.get("tools") or ():
        if tool.get("type") == "function":
            yield OfferedTool(tool["function"]["name"], tool["function"].get("parameters") or {})


# ── OpenAI Responses ─────────────────────────────────────────────────────────────────────────────


def responses_rows(body: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows of a request to OpenAI Responses."""
    if body.get("instructions"):
        yield Row("system", body["instructions"])
    content = body.get("input", ())
    for item in [{"role": "user", "content": content}] if isinstance(content, str) else content:
        match item:
            case {"type": "function_call", "call_id": call, "name": name, "arguments": arguments}:
                yield Row("call", call_text(name, arguments), call)
            case {"type": "custom_tool_call", "call_id": call, "name": name, "input": text}:
                yield Row("call", f"{name} {text}", call)
            case {"type": "local_shell_call", "call_id": call, "action": action}:
                yield Row("call", call_text("local_shell", action), call)
            case {"type": "function_call_output" | "custom_tool_call_output", "call_id": call, "output": output}:
                yield Row("result", _text_of(output), call)
                if isinstance(output, list):
                    yield from (row for row in _content_rows("", output) if row.kind == "image")
            case {"type": "reasoning", "summary": summary}:
                yield Row("thinking", _text_of(summary))
            case {"role": role, "content": parts}:
                yield from _content_rows("system" if role == "developer" else role, parts)
            case _:
                yield Row("other", json.dumps(item, sort_keys=True))


def _responses_tools(body: Mapping[str, Any]) -> Iterator[OfferedTool]:
    for tool in body.get("tools") or ():
        if tool.get("type") in ("function", "custom"):
            yield OfferedTool(tool["name"], tool.get("parameters") or {})


# ── Gemini ───────────────────────────────────────────────────────────────────────────────────────


def gemini_rows(body: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows of a request to Gemini's generateContent."""
    system = body.get("systemInstruction") or body.get("system_instruction") or {}
    yield from (Row("system", _text_of(part)) for part in system.get("parts", ()))
    for message in body.get("contents", ()):
        kind = "assistant" if message.get("role") == "model" else "user"
        for part in message.get("parts", ()):
            match part:
                case {"functionCall": {"name": name, **call}}:
                    yield Row("call", call_text(name, call.get("args", {})), str(call.get("id", "")))
                case {"functionResponse": {"response": response, **call}}:
                    yield Row("result", _gemini_output(response), str(call.get("id", "")))
                case {"inlineData": _} | {"inline_data": _}:
                    yield Row("image", "")
                case {"thought": True, "text": str(text)}:
                    yield Row("thinking", text)
                case {"text": str(text)}:
                    yield Row(kind, text)
                case _:
                    yield Row("other", json.dumps(part, sort_keys=True))


def _gemini_output(response: Any) -> str:
    match response:
        case {"output": str(text), **rest} if not rest:
            return text
        case {"error": str(text), **rest} if not rest:
            return text
    return json.dumps(response, sort_keys=True, ensure_ascii=False)


def _gemini_tools(body: Mapping[str, Any]) -> Iterator[OfferedTool]:
    for tool in body.get("tools") or ():
        for function in tool.get("functionDeclarations") or tool.get("function_declarations") or ():
            schema = function.get("parametersJsonSchema") or function.get("parameters") or {}
            yield OfferedTool(function["name"], schema)


ROWS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[Row]]] = {
    "anthropic": anthropic_rows,
    "chat": chat_rows,
    "responses": responses_rows,
    "gemini": gemini_rows,
}
TOOLS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[OfferedTool]]] = {
    "anthropic": _anthropic_tools,
    "chat": _chat_tools,
    "responses": _responses_tools,
    "gemini": _gemini_tools,
}
