"""The built-in tools: their names, their order and their replay words."""

import pytest

from wakelog.errors import UsageError
from wakelog.tools import BUILTIN_NAMES, builtin_tools

REPLAY = {"read": "safe", "list": "safe", "grep": "safe", "write": "receipt", "edit": "receipt", "shell": "never"}


def test_the_replay_words_of_the_built_in_tools(tmp_path):
    """RUN-6."""
    assert {made.name: made.replay for made in builtin_tools(str(tmp_path))} == REPLAY


def test_every_tool_and_argument_has_a_description(tmp_path):
    for made in builtin_tools(str(tmp_path)):
        assert made.description.endswith(".")
        assert all(found["description"].endswith(".") for found in made.schema["properties"].values())
        assert "call" not in made.schema["properties"]


def test_the_order_is_that_of_the_names(tmp_path):
    assert [made.name for made in builtin_tools(str(tmp_path))] == list(BUILTIN_NAMES)
    assert [made.name for made in builtin_tools(str(tmp_path), ["shell", "read"])] == ["shell", "read"]


def test_an_unknown_name(tmp_path):
    with pytest.raises(UsageError, match="unknown built-in tool 'fly'"):
        builtin_tools(str(tmp_path), ["fly"])
