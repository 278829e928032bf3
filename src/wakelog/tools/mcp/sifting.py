"""A page of a server's listing without what the protocol does not allow, so that one bad tool costs itself alone.

The SDK takes a page or leaves it, whole. Here each tool is looked at by itself, by the SDK's own measure for the
version that is spoken; those that fail are taken off the page before the SDK sees it, and are remembered by name with
the reason. Pure; loaded with the SDK.
"""

from collections.abc import Mapping
from typing import Any

from mcp_types.methods import parse_server_result
from pydantic import ValidationError

_METHOD = "tools/list"
_NAMELESS = "without a name"
_UNSAID = "it is not described as the protocol asks"


def is_page(result: Mapping[str, Any]) -> bool:
    """Whether a result may be a page of a listing; no other result of the protocol has tools."""
    return isinstance(result.get("tools"), list)


def sifted(page: Mapping[str, Any], version: str) -> tuple[list[Any], list[tuple[str, str]]]:
    """The tools of a page that can be read, and of the others the name and why not. All, if the page is at fault."""
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
    """Where it is wrong, and not what was found there: that may be as long as a page."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(part for part in first["loc"][2:] if isinstance(part, str))
    return f"{_UNSAID} ({where})" if where else _UNSAID


def _name(tool: Any) -> str:
    name = tool.get("name") if isinstance(tool, Mapping) else None
    return name if isinstance(name, str) else _NAMELESS
