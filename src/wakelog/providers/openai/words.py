"""Request parts that both APIs share: images, tools, and the cache key."""

from collections.abc import Mapping
from typing import Any

from wakelog.log.codec import canonical
from wakelog.log.content import Image, JsonObject
from wakelog.log.digest import digest_of
from wakelog.ports import Request
from wakelog.providers.media import PICTURES, kind_of

_NO_INPUT = {"type": "object", "properties": {}}
_CACHE_KEY_CHARS = 32


def picture_url(image: Image) -> str | None:
    """Return an image as a data URL; None if its bytes are not available, or no model accepts its type."""
    kind = kind_of(image) or "image/png"
    return f"data:{kind};base64,{image.data}" if image.data and kind in PICTURES else None


def function(tool: Mapping[str, Any]) -> JsonObject:
    """Return a declared tool as a function of the API; other keys of the declaration are not sent."""
    return {
        "name": tool["name"],
        "description": tool.get("description", ""),
        "parameters": tool.get("schema") or _NO_INPUT,
        "strict": False,
    }


def cache_key(request: Request) -> str:
    """Return the same key for all requests with the same beginning, forks included, so that they share a cache."""
    beginning = canonical([request.system, request.tools, request.messages[:1]])
    return "wakelog-" + digest_of(beginning).partition(":")[2][:_CACHE_KEY_CHARS]
