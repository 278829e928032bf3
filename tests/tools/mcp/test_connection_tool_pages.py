"""A listing that holds what is no tool: by the measure of each version of the protocol, and never more than that."""

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
def test_one_that_is_none_is_taken_off(version, tool, name, where):
    """RUN-7: what the others say is not touched, and their order neither."""
    other = {**FINE, "name": "other", "strange": [1]}
    page = {"tools": [FINE, tool, other], **PAGES[version]}
    assert split_invalid_tools(page, version) == ([FINE, other], [(name, WORDS + where)])


@pytest.mark.parametrize("version", PAGES)
def test_a_page_that_is_sound_or_at_fault_itself_stays_as_it_is(version):
    """What is wrong with a page is no fault of its tools: the SDK says it."""
    sound = {"tools": [FINE], **PAGES[version]}
    assert split_invalid_tools(sound, version) == ([FINE], [])
    wrong = {"tools": [FINE, None], **PAGES[version], "nextCursor": 3}
    assert split_invalid_tools(wrong, version) == ([FINE, None], [])


def test_a_version_that_nobody_knows():
    assert split_invalid_tools({"tools": [FINE, None]}, "1999-01-01") == ([FINE, None], [])


def test_what_is_a_page():
    assert is_tool_page({"tools": []})
    assert not is_tool_page({"tools": {}})
    assert not is_tool_page({"content": []})
