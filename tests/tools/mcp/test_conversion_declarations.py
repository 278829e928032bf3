"""RUN-19: declarations of a server's tools for the model: names, texts, limits; and the way back from the log."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.errors import UsageError
from wakelog.log.codec import canonical_json
from wakelog.tools.mcp import McpServer
from wakelog.tools.mcp.conversion import ListedTool, ToolSource, declare_tools, parse_source, replay_of, tool_name

SERVER = McpServer(name="files", command=("serve",))
TRUSTED = McpServer(name="files", command=("serve",), trusted=True)
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def _listed(name, description="Does it.", schema=None, **hints):
    return ListedTool(name, description, SCHEMA if schema is None else schema, hints)


# ── names ────────────────────────────────────────────────────────────────────────────────────────


def test_a_valid_name_is_unchanged():
    assert tool_name("files", "read_file") == "mcp__files__read_file"
    assert tool_name("my-files_2", "a__b") == "mcp__my-files_2__a__b"


def test_an_invalid_name_is_always_changed_in_the_same_way():
    """A name in an old log must find its tool, so the expected names are fixed here."""
    assert tool_name("files", "read file") == "mcp__files__read_file_d8793cb6"
    assert tool_name("files", "x" * 80) == f"mcp__files__{'x' * 43}_5179a044"


_SERVERS = st.from_regex(r"[a-c][a-c_-]{0,5}", fullmatch=True)
_TOOLS = st.text("ab_-. é\0", max_size=70)


@given(st.lists(st.tuples(_SERVERS, _TOOLS), unique=True, max_size=8))
def test_names_are_valid_for_every_provider_and_unique(pairs):
    names = [tool_name(*pair) for pair in pairs]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    assert len(set(names)) == len(names)


def test_names_of_servers_and_tools_cannot_be_confused():
    assert len({tool_name("a", "b__c"), tool_name("a__b", "c"), tool_name("a", "_b"), tool_name("a_", "b")}) == 4


# ── the replay word ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("hints", "word"),
    [
        ({}, "never"),
        ({"readOnlyHint": True}, "safe"),
        ({"idempotentHint": True}, "safe"),
        ({"destructiveHint": False}, "never"),
        ({"openWorldHint": False}, "never"),
        ({"readOnlyHint": False, "idempotentHint": None}, "never"),
        ({"readOnlyHint": "yes"}, "never"),
    ],
)
def test_hints_count_only_from_trusted_servers(hints, word):
    """RUN-6: the replay word follows the hints of a trusted server; otherwise it is `never`."""
    assert replay_of(TRUSTED, hints) == word
    assert replay_of(SERVER, hints) == "never"


# ── what is declared ─────────────────────────────────────────────────────────────────────────────


def test_the_declaration_of_a_tool():
    (told,) = declare_tools(TRUSTED, [_listed("read file", readOnlyHint=True)]).tools
    assert told == {
        "name": tool_name("files", "read file"),
        "description": "Does it.",
        "schema": SCHEMA,
        "replay": "safe",
        "from": {"mcp": {"name": "files", "command": ["serve"], "trusted": True, "tool": "read file"}},
    }
    assert parse_source(told) == ToolSource(TRUSTED, "read file")


def test_the_order_of_a_listing_does_not_matter():
    """Law 8: the beginning of the context does not change when a server reorders its list."""
    listed = [_listed("b"), _listed("a"), _listed("c")]
    assert canonical_json(declare_tools(SERVER, listed).tools) == canonical_json(
        declare_tools(SERVER, listed[::-1]).tools
    )


def test_hostile_listings():
    """Law 13: tools that cannot be declared are left out with a notice, others are limited in size and escaped."""
    deep = {"type": "object", "properties": {}}
    for _ in range(100_000):
        deep = {"type": "object", "properties": {"a": deep}}
    found = declare_tools(
        SERVER,
        [
            _listed("fine", "Reads\x1b[2J\u202e a file.\u200b\nTwo lines."),
            _listed("long", "x" * 100_000),
            _listed("twice"),
            _listed("twice"),
            _listed("array", schema={"type": "array"}),
            _listed("large", schema={"type": "object", "description": "x" * 100_000}),
            _listed("deep", schema=deep),
            _listed("half \ud800"),
            _listed("odd", schema={"type": "object", "properties": {"a": 3}}),
            _listed("needs", schema={"type": "object", "required": "a"}),
            ListedTool("unread", "", {}, fault="nobody can read it"),
            _listed("bare", schema={}),
            _listed("", ""),
        ],
    )
    told = {tool["from"]["mcp"]["tool"]: tool for tool in found.tools}
    assert sorted(told) == ["", "bare", "fine", "long", "twice"]
    assert told["fine"]["description"] == "Reads[2J a file.\nTwo lines."
    assert len(told["long"]["description"]) < 9_000
    assert told["bare"]["schema"] == {"type": "object", "properties": {}}
    assert len(found.left_out) == 8
    assert "the tool 'unread' of the MCP server files is left out: nobody can read it" in found.left_out
    assert all("of the MCP server files is left out: " in line and "\n" not in line for line in found.left_out)


def test_the_number_of_tools_is_limited():
    found = declare_tools(SERVER, [_listed(f"t{number}") for number in range(600)])
    assert len(found.tools) == 512
    assert len(found.left_out) == 11
    assert found.left_out[-1] == "more tools of the MCP server files are left out: 78"


# ── from the log ─────────────────────────────────────────────────────────────────────────────────


def test_declarations_of_other_sources_are_ignored():
    assert parse_source({"name": "read", "replay": "safe"}) is None
    assert parse_source({"name": "read", "from": {"elsewhere": {}}}) is None


@pytest.mark.parametrize(
    "value", ["x", {}, {"tool": 3}, {"tool": "t"}, {"tool": "t", "name": "a", "command": ["x"], "sandbox": "none"}]
)
def test_an_invalid_source_is_refused(value):
    """An unknown key may be a limit that would not be kept: the tool is not available then."""
    with pytest.raises(UsageError):
        parse_source({"name": "mcp__a__t", "from": {"mcp": value}})


@pytest.mark.parametrize("name", ["read", "mcp__other__t", 3, None])
def test_a_name_that_does_not_match_its_server_is_refused(name):
    """Law 13: an approval of `read` is not an approval of another program under that name."""
    with pytest.raises(UsageError, match="has a name that does not match its origin"):
        parse_source({"name": name, "from": {"mcp": {**SERVER.value, "tool": "t"}}})
