"""The input of a tool call, parsed from the text of a model: only values that a log can hold are accepted."""

import pytest

from wakelog.log.content import Reply, ToolCall
from wakelog.log.entry import Message
from wakelog.providers.event_stream import parse_tool_input
from wakelog.stores.memory import MemoryStore
from wakelog.testing.builders import SessionBuilder


def _nested(levels):
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    ("text", "value"), [("", {}), (" \n", {}), ("{}", {}), ("3", 3), ("null", None), ('{"a": [1, {}]}', {"a": [1, {}]})]
)
def test_valid_inputs(text, value):
    assert parse_tool_input(text) == value


@pytest.mark.parametrize("text", ["{", "{]", "nan", '"\ud83d"', _nested(101), _nested(300), _nested(100_000)])
def test_invalid_inputs(text):
    """Law 6: a call that cannot be written into the log is not made."""
    with pytest.raises(ValueError):
        parse_tool_input(text)


def test_the_deepest_accepted_input_fits_into_an_entry():
    """RUN-8."""
    story = SessionBuilder(MemoryStore())
    call = ToolCall(id="c", name="look", input=parse_tool_input(_nested(99)))
    story.session.append(Message(message=Reply(content=(call,))))
    assert story.session.branch().nodes[-1].value.message.tool_calls == (call,)
