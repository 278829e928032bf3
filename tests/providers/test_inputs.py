"""The input of a call, out of what a model wrote: whatever can be kept in a log, and nothing else."""

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
def test_what_a_text_spells(text, value):
    assert parse_tool_input(text) == value


@pytest.mark.parametrize("text", ["{", "{]", "nan", '"\ud83d"', _nested(101), _nested(300), _nested(100_000)])
def test_what_spells_nothing(text):
    """Law 6: a call that could not be written into the log is not made."""
    with pytest.raises(ValueError):
        parse_tool_input(text)


def test_the_deepest_can_be_kept():
    """RUN-8: what a model says is no mistake of whoever wakes it."""
    story = SessionBuilder(MemoryStore())
    call = ToolCall(id="c", name="look", input=parse_tool_input(_nested(99)))
    story.session.append(Message(message=Reply(content=(call,))))
    assert story.session.branch().nodes[-1].value.message.tool_calls == (call,)
