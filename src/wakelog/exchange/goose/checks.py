"""What Goose accepts in a message of an export: it refuses the whole file for one item that it does not know.

The checks are those of the types that Goose decodes the items into. A value that is nested more deeply than its JSON
parser allows is refused as well.
"""

from collections.abc import Callable, Mapping
from typing import Any

from wakelog.log.content import JsonObject

DEPTH_MAX = 90
"""Goose's parser takes 128 levels of a whole export; an item begins four levels below its top."""
_OBJECTS = ("_meta", "annotations", "metadata")
_NOTIFICATIONS = ("thinkingMessage", "inlineMessage", "creditsExhausted")


def is_accepted(item: object) -> bool:
    """Return whether Goose takes an item of content."""
    if not isinstance(item, dict) or not all(isinstance(item.get(name), dict | None) for name in _OBJECTS):
        return False
    check = _CHECKS.get(str(item.get("type")))
    return check is not None and check(item) and not is_deep(item)


def is_deep(value: object) -> bool:
    """Return whether containers are nested more than `DEPTH_MAX` levels deep."""
    level: list[Any] = [value]
    for _ in range(DEPTH_MAX):
        level = [
            child
            for container in level
            if isinstance(container, dict | list)
            for child in (container.values() if isinstance(container, dict) else container)
        ]
        if not level:
            return False
    return True


def _has_texts(*names: str) -> Callable[[JsonObject], bool]:
    return lambda item: all(isinstance(item.get(name), str) for name in names)


def _is_request(item: JsonObject) -> bool:
    match item:
        case {"id": str(), "toolCall": {"status": "success", "value": {"name": str(), **rest}}}:
            return isinstance(rest.get("arguments"), dict | None)
        case {"id": str(), "toolCall": {"status": "error", "error": str()}}:
            return True
    return False


def _is_response(item: JsonObject) -> bool:
    match item:
        case {"id": str(), "toolResult": {"status": "success", "value": {"content": list(content), **rest}}}:
            return all(map(_is_result_item, content)) and isinstance(rest.get("isError"), bool | None)
        case {"id": str(), "toolResult": {"status": "success", "value": list(content)}}:
            return all(map(_is_result_item, content))
        case {"id": str(), "toolResult": {"status": "error", "error": str()}}:
            return True
    return False


def _is_result_item(item: object) -> bool:
    match item:
        case {"type": "text", "text": str()}:
            return True
        case {"type": "image" | "audio", "data": str(), "mimeType": str()}:
            return True
        case {"type": "resource", "resource": {"uri": str(), **rest}}:
            return isinstance(rest.get("text"), str) or isinstance(rest.get("blob"), str)
    return False


def _is_action(item: JsonObject) -> bool:
    match item.get("data"):
        case {"actionType": "toolConfirmation", "id": str(), "toolName": str(), "arguments": dict()}:
            return True
        case {"actionType": "elicitation", "id": str(), "message": str(), "requested_schema": _}:
            return True
        case {"actionType": "elicitationResponse", "id": str(), "user_data": _}:
            return True
    return False


def _is_confirmation(item: JsonObject) -> bool:
    return _has_texts("id", "toolName")(item) and isinstance(item.get("arguments"), dict)


def _is_notification(item: JsonObject) -> bool:
    return item.get("notificationType") in _NOTIFICATIONS and isinstance(item.get("msg"), str)


_CHECKS: Mapping[str, Callable[[JsonObject], bool]] = {
    "text": _has_texts("text"),
    "image": _has_texts("data", "mimeType"),
    "thinking": _has_texts("thinking", "signature"),
    "redactedThinking": _has_texts("data"),
    "toolRequest": _is_request,
    "frontendToolRequest": _is_request,
    "toolResponse": _is_response,
    "toolConfirmationRequest": _is_confirmation,
    "actionRequired": _is_action,
    "systemNotification": _is_notification,
    # Goose reads these two and drops or changes them.
    "conversationCompacted": lambda _: True,
    "reasoning": lambda _: True,
}
