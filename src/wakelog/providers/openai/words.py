"""What both ways of asking share in a request: pictures, tools, and the key of the cache."""

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
    """A picture as a URL that holds it; None for one whose bytes are not at hand, or that no model takes."""
    kind = kind_of(image) or "image/png"
    return f"data:{kind};base64,{image.data}" if image.data and kind in PICTURES else None


def function(tool: Mapping[str, Any]) -> JsonObject:
    """A declared tool as a function of the wire; what else was declared is not the model's affair."""
    return {
        "name": tool["name"],
        "description": tool.get("description", ""),
        "parameters": tool.get("schema") or _NO_INPUT,
        "strict": False,
    }


def cache_key(request: Request) -> str:
    """The same for every request that begins alike, a fork's too: so that they meet where their beginning is kept."""
    beginning = canonical([request.system, request.tools, request.messages[:1]])
    return "wakelog-" + digest_of(beginning).partition(":")[2][:_CACHE_KEY_CHARS]
