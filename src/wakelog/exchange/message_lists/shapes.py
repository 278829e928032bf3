"""What a message of a model API looks like: Chat Completions and Responses of OpenAI, and Messages of Anthropic.

Anything may have a field `role`, so the rules are strict: every record must be a message whose fields all belong to one
of these APIs, or a request that has a list of such messages.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from wakelog.log.content import JsonObject

TOOL = "messages"
"""What ids derive from. A list may be for another API than its first messages say, so that is no part of an id."""
OPENAI, ANTHROPIC = "openai-messages", "anthropic-messages"
RESPONSES_REQUEST = "responses_request"
"""What the other fields of a request with `input` are kept as."""
LIST_FIELDS = ("messages", "input")
SYSTEM_ROLES = ("system", "developer")
RESULT_TYPES = frozenset({"function_call_output", "custom_tool_call_output"})
CALL_TYPES = frozenset({"function_call", "custom_tool_call"})
MODEL_ITEM_TYPES = frozenset(
    {
        "code_interpreter_call",
        "computer_call",
        "file_search_call",
        "image_generation_call",
        "local_shell_call",
        "mcp_approval_request",
        "mcp_call",
        "mcp_list_tools",
        "web_search_call",
    }
)
"""Items of the model that no part represents. They are sent back as they are."""
_OTHER_ITEM_TYPES = frozenset(
    {"compaction", "computer_call_output", "item_reference", "local_shell_call_output", "mcp_approval_response"}
)
_ITEM_TYPES = RESULT_TYPES | CALL_TYPES | MODEL_ITEM_TYPES | _OTHER_ITEM_TYPES | {"reasoning"}
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_CHAT_FIELDS = ("name", "refusal", "audio", "annotations", "tool_calls", "function_call", "tool_call_id", "weight")
_SERVER_FIELDS = ("reasoning", "reasoning_content", "reasoning_details", "provider_specific_fields")
_REPLY_FIELDS = ("id", "model", "stop_reason", "stop_sequence", "stop_details", "usage", "container", "status", "phase")
_FIELDS = frozenset(("role", "content", "type", "cache_control", *_CHAT_FIELDS, *_SERVER_FIELDS, *_REPLY_FIELDS))
_WITHOUT_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
_ANTHROPIC_PARTS = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "document", "image", "server_tool_use"}
)


def is_message(value: Any) -> bool:
    """Return whether a value is a message, or an item of Responses."""
    match value:
        case {"type": str(kind)} if kind in _ITEM_TYPES and "role" not in value:
            return _has_item_fields(value, kind)
        case {"role": str(role), **rest} if role in _ROLES and value.keys() <= _FIELDS:
            if rest.get("type", "message") != "message":
                return False
            content = rest.get("content")
            return _is_content(content) or (content is None and any(rest.get(name) for name in _WITHOUT_CONTENT))
    return False


def _has_item_fields(item: Mapping[str, Any], kind: str) -> bool:
    if kind in CALL_TYPES:
        return isinstance(item.get("call_id"), str) and isinstance(item.get("name"), str)
    if kind in RESULT_TYPES:
        return isinstance(item.get("call_id"), str) and isinstance(item.get("output"), str | list)
    return kind != "reasoning" or isinstance(item.get("summary", item.get("encrypted_content")), list | str)


def _is_content(content: Any) -> bool:
    if isinstance(content, str):
        return True
    return isinstance(content, list) and all(
        isinstance(part, dict) and isinstance(part.get("type"), str) for part in content
    )


def messages_in(value: Any) -> Sequence[Any] | None:
    """Return the messages of a request; None if a value is not one."""
    found = (
        [value[name] for name in LIST_FIELDS if isinstance(value.get(name), list)] if isinstance(value, dict) else []
    )
    return found[0] if len(found) == 1 and "role" not in value else None


def is_list_of_messages(values: Sequence[Any]) -> bool:
    """Return whether values are messages, and a person or a model says something in them."""
    return all(map(is_message, values)) and any(value.get("role") in ("user", "assistant") for value in values)


def is_message_list(head: Sequence[Any]) -> bool:
    """Return whether the first records of a file are messages, or requests with messages.

    Ask this last: the records of other tools may be messages with something more around them.
    """
    if not head:
        return False
    requests = [messages_in(value) for value in head]
    if all(request is not None for request in requests):
        return all(request and is_list_of_messages(request) for request in requests)
    return is_list_of_messages(head)


def api_of(fields: Mapping[str, Any], first: Sequence[Mapping[str, Any]]) -> str:
    """Return which API a list is for, by the other fields of its request and its first messages.

    Where both would take them, it is the list of OpenAI.
    """
    model = fields.get("model")
    if isinstance(fields.get("input"), list) or "input" in fields:
        return OPENAI
    if "system" in fields or "anthropic_version" in fields or (isinstance(model, str) and "claude" in model):
        return ANTHROPIC
    for message in first:
        if message.get("role") not in ("user", "assistant") or any(message.get(name) for name in _CHAT_FIELDS):
            return OPENAI
        parts = message.get("content")
        kinds = {part.get("type") for part in parts if isinstance(part, dict)} if isinstance(parts, list) else set()
        if kinds & _ANTHROPIC_PARTS or "stop_reason" in message:
            return ANTHROPIC
        if kinds - {"text"}:
            return OPENAI
        if kinds and message.get("role") == "assistant":
            # Replies of Anthropic are lists of blocks, those of Chat Completions are plain text.
            return ANTHROPIC
    return OPENAI


def without_cache_marks(message: JsonObject) -> JsonObject:
    """Return a message without marks for prompt caches: programs move them to another message in each request.

    They are in a message, in its parts, and in the parts of a tool result. The input of a call is left alone.
    """
    plain = {key: value for key, value in message.items() if key != "cache_control"}
    if isinstance(parts := plain.get("content"), list):
        plain["content"] = [without_cache_marks(part) if isinstance(part, dict) else part for part in parts]
    return plain


def digest(before: str, message: Mapping[str, Any]) -> str:
    """Return a digest of a message and all before it. A plain text and a list of one text are the same content."""
    plain: JsonObject = {key: value for key, value in message.items() if value is not None}
    if isinstance(plain.get("content"), str):
        plain["content"] = [{"type": "text", "text": plain["content"]}]
    text = json.dumps(plain, sort_keys=True)
    return hashlib.sha256(f"{before}\0{text}".encode()).hexdigest()[:32]
