"""Malformed tools in a listing are removed by the schema of the protocol version, and nothing else is."""

import pytest

from wakelog.tools.mcp.connection import is_tool_page, split_invalid_tools

FINE = {"name": "fine", "inputSchema": {"type": "object"}}
WORDS = "it is not described as the protocol asks"
PAGES = {
    "2024-11-05": {},
    "2025-11-25": {},
    "2026-07-28": {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"},
}


@pytest.mark.parametrize("version", PAGES)
@pytest.mark.parametrize(
    ("tool", "name", "where"),
    [
        ({"name": "a", "inputSchema": None}, "a", " (inputSchema)"),
        ({"name": "a"}, "a", " (inputSchema)"),
        ({"name": "a", "inputSchema": {"type": "array"}}, "a", " (inputSchema.type)"),
        ({"name": 3, "inputSchema": {"type": "object"}}, "without a name", " (name)"),
        ("no tool", "without a name", ""),
        (None, "without a name", ""),
    ],
)
def test_a_malformed_tool_is_removed(version, tool, name, where):
    """RUN-7: the other tools and their order are unchanged."""
    other = {**FINE, "name": "other", "strange": [1]}
    page = {"tools": [FINE, tool, other], **PAGES[version]}
    assert split_invalid_tools(page, version) == ([FINE, other], [(name, WORDS + where)])


@pytest.mark.parametrize("version", PAGES)
def test_a_valid_page_and_a_malformed_page_are_unchanged(version):
    """An error of the page itself is reported by the SDK."""
    sound = {"tools": [FINE], **PAGES[version]}
    assert split_invalid_tools(sound, version) == ([FINE], [])
    wrong = {"tools": [FINE, None], **PAGES[version], "nextCursor": 3}
    assert split_invalid_tools(wrong, version) == ([FINE, None], [])


def test_a_page_of_an_unknown_protocol_version_is_unchanged():
    assert split_invalid_tools({"tools": [FINE, None]}, "1999-01-01") == ([FINE, None], [])


def test_only_listing_results_are_pages():
    assert is_tool_page({"tools": []})
    assert not is_tool_page({"tools": {}})
    assert not is_tool_page({"content": []})
