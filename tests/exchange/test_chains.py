"""ST-9: what readers of linear sessions share: ids of records that repeat, calls and results, strange arguments."""

import pytest

from wakelog.exchange import chains
from wakelog.exchange.chains import EntryChain, tool_call
from wakelog.exchange.sessions import entry_id
from wakelog.log.codec import encode
from wakelog.log.content import Reply, ToolCall
from wakelog.log.entry import Custom, Message


@pytest.mark.parametrize("text", ['{"n":"\\ud800"}', '{"a":' * 300 + "1" + "}" * 300, "[1]", '{"n":NaN}', "ls -l", ""])
def test_arguments_that_no_entry_can_hold_stay_text(text):
    call = tool_call("c1", "sh", text)
    assert call.input == text
    assert encode(Message(id="a", parent_id="b", timestamp="t", message=Reply(content=(call,))))


def test_arguments_are_decoded():
    assert tool_call("c1", "sh", '{"cmd": "ls"}').input == {"cmd": "ls"}
    assert tool_call("c1", "sh", {"cmd": "ls"}).input == {"cmd": "ls"}


def test_keys_that_repeat_are_numbered_once_each(monkeypatch):
    """Time grows with the number of records, also if all have one key."""
    asked = 0

    def counted(tool, key):
        nonlocal asked
        asked += 1
        return entry_id(tool, key)

    monkeypatch.setattr(chains, "entry_id", counted)
    chain = EntryChain("t", "s")
    ids = [chain.add(Custom(custom_type="x"), "same", "").body.id for _ in range(500)]
    assert (len(set(ids)), asked <= 1_000) == (500, True)


def test_results_are_those_of_the_calls_in_order():
    """Ids of calls repeat: in one reply, and in later ones, which count then."""
    chain = EntryChain("t", "s")
    calls = tuple(ToolCall(id="c", name=name, input={}) for name in ("one", "two"))
    first = chain.add(Message(message=Reply(content=calls)), "r1", "")
    assert [call.name for call in (chain.call("c"), chain.call("c")) if call is not None] == ["one", "two"]
    assert chain.call("c") is None
    second = chain.add(Message(message=Reply(content=calls[:1])), "r2", "")
    found = chain.call("c")
    assert found is not None
    assert (found.reply_id, first.body.id != second.body.id) == (second.body.id, True)
    assert (chain.call("absent"), chain.call(None)) == (None, None)
