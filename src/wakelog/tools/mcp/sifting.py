"""Filter for pages of a server's tool listing: removes invalid tools, so that one bad tool does not cost the others.

The SDK accepts or refuses a page as a whole. Here each tool is validated by itself, with the SDK's own rules for the
protocol version in use; invalid ones are removed before the SDK sees the page, and are recorded by name with the
reason. Pure; imported with the SDK.
"""

from collections.abc import Mapping
from typing import Any

from mcp_types.methods import parse_server_result
from pydantic import ValidationError

_METHOD = "tools/list"
_NAMELESS = "without a name"
_UNSAID = "it is not described as the protocol asks"


def is_page(result: Mapping[str, Any]) -> bool:
    """Return whether a result may be a page of a listing; no other result of the protocol has tools."""
    return isinstance(result.get("tools"), list)


def sifted(page: Mapping[str, Any], version: str) -> tuple[list[Any], list[tuple[str, str]]]:
    """Return the valid tools of a page, and name and reason of the others. All tools, if the page itself is invalid."""
    if _fault(page, version) is None or _fault({**page, "tools": []}, version) is not None:
        return page["tools"], []
    faults = [(tool, _fault({**page, "tools": [tool]}, version)) for tool in page["tools"]]
    return (
        [tool for tool, fault in faults if fault is None],
        [(_name(tool), fault) for tool, fault in faults if fault is not None],
    )


def _fault(page: Mapping[str, Any], version: str) -> str | None:
    try:
        parse_server_result(_METHOD, version, page)
    except ValidationError as error:
        return _said(error)
    except (KeyError, ValueError, RecursionError):
        return _UNSAID
    return None


def _said(error: ValidationError) -> str:
    """Return where a tool is invalid, without the value found there, which may be very long."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(part for part in first["loc"][2:] if isinstance(part, str))
    return f"{_UNSAID} ({where})" if where else _UNSAID


def _name(tool: Any) -> str:
    name = tool.get("name") if isinstance(tool, Mapping) else None
    return name if isinstance(name, str) else _NAMELESS
