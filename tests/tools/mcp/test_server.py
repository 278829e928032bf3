"""A server as a value: RUN-19 asks that it be complete, law 14 that it hold no secret."""

import re
from pathlib import Path

import msgspec
import pytest

from wakelog.errors import UsageError
from wakelog.tools.mcp import McpServer, parse_server

WHOLE = {
    "name": "files",
    "command": ["npx", "server"],
    "env": ["TOKEN"],
    "cwd": "/srv",
    "trusted": True,
    "timeoutS": 5.0,
}


def test_it_is_restored_from_the_log():
    """RUN-19: the stored form gives an equal server."""
    for value in (WHOLE, {"name": "web", "url": "https://host/mcp", "bearerEnv": "T", "headersFrom": {"X-Key": "K"}}):
        server = parse_server(value)
        assert server.value == value
        assert parse_server(msgspec.json.decode(server.key)) == server


def test_the_defaults_are_untrusted_and_limited():
    server = McpServer(name="a", command=("x",))
    assert (server.trusted, server.env, server.timeout_s) == (False, (), 60.0)
    assert server.value == {"name": "a", "command": ["x"]}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"name": "a"}, "needs either a command or a url"),
        ({"name": "a", "command": ["x"], "url": "http://h"}, "needs either a command or a url"),
        ({"name": "a b", "command": ["x"]}, "not a valid MCP server name: 'a b'"),
        ({"name": "", "command": ["x"]}, "not a valid MCP server name"),
        ({"name": "a", "url": "ftp://h"}, "has an invalid url"),
        ({"name": "a", "url": "http://[::"}, "has an invalid url"),
        ({"name": "a", "url": "https://me:secret@host/mcp"}, "a secret in its url"),
        ({"name": "a", "url": "http://h", "env": ["X"]}, "env and cwd have no effect"),
        ({"name": "a", "url": "http://h", "headersFrom": {"a\nb": "X"}}, "has an invalid header name"),
        ({"name": "a", "url": "http://h", "bearerEnv": "sk-12"}, "has an invalid variable name"),
        ({"name": "a", "command": ["x"], "env": ["K=V"]}, "has an invalid variable name"),
        ({"name": "a", "command": ["x"], "bearerEnv": "K"}, "use env"),
        ({"name": "a", "command": ["x\0"]}, "cannot be run"),
        ({"name": "a", "command": [""]}, "cannot be run"),
        ({"name": "a", "command": ["x"], "timeoutS": 0}, "has an invalid timeoutS: 0"),
        ({"name": "a", "command": "x"}, "the description of the MCP server a is invalid"),
        ({"name": "a", "command": ["x"], "colour": 1}, "colour"),
        ({"name": 3, "command": ["x"]}, "without a name is invalid"),
    ],
)
def test_a_mistake_is_an_error_of_one_line(value, says):
    with pytest.raises(UsageError) as caught:
        parse_server(value)
    assert says in f"{caught.value.message} {caught.value.hint}"
    assert "\n" not in caught.value.message + caught.value.hint
    assert "secret@" not in caught.value.message


def test_the_documentation_names_every_key():
    """docs/tools.md."""
    text = (Path(__file__).parents[3] / "docs" / "tools.md").read_text()
    section = text.partition("## MCP servers")[2].partition("**Names.**")[0]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", section, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert named == list(McpServer.__struct_encode_fields__)


def test_the_working_folder_of_a_command():
    """The folder of the session, or its own relative to that; a URL has none."""
    assert McpServer(name="a", command=("x",)).in_folder("/work").cwd == "/work/"
    assert McpServer(name="a", command=("x",), cwd="sub").in_folder("/work").cwd == "/work/sub"
    assert McpServer(name="a", command=("x",), cwd="/own").in_folder("/work").cwd == "/own"
    assert McpServer(name="a", url="http://h").in_folder("/work").cwd == ""
