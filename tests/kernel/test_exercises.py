"""RUN-20: three exercises for session logs, from the beginner's to the advanced: kill the process and continue.

Each is a real process that is really killed, and started again on nothing but the log it left.
"""

import signal

import pytest

from tests.kernel import charging
from tests.kernel.holder import SESSION, TALK, Place
from tests.kernel.judging import judge
from tests.kernel.likeness import likeness
from tests.kernel.outside import Outside, held
from tests.kernel.watching import Watched
from wakelog.log.content import Prompt, Reply, ToolResult
from wakelog.log.entry import Message, Partial, Resumed, ToolStarted
from wakelog.reading import read_log
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore

KILLED = -signal.SIGKILL


def _values(store, kind):
    return [entry.value for entry in read_log(store, SESSION).entries if isinstance(entry.value, kind)]


def _converse(place, go, *, killed=False):
    """Three prompts; during the second the process may be killed, and is started again on the same log."""
    place.begin("Hurry.")
    go()
    Session(place.store, SESSION).say("Pay.")
    if killed:
        with Watched(place.folder, "before pay", "die") as worker:
            assert worker.end()[0] == KILLED
    go()
    Session(place.store, SESSION).say("Talk.")
    go()


def test_beginner_kill_the_process_and_the_conversation_continues(tmp_path):
    """The beginner's exercise, RUN-2, RUN-4, law 15: a killed conversation continues as if it had not been killed.

    Both logs say the same, word for word, down to the digests of what the model was handed.
    """
    alone, hurt = (Place(tmp_path / name) for name in ("alone", "hurt"))

    def in_a_new_process():
        with Watched(hurt.folder) as worker:
            assert worker.end()[0] == 0

    _converse(alone, alone.wake)
    _converse(hurt, in_a_new_process, killed=True)
    assert likeness(hurt.store, ignored=("cwd",)) == likeness(alone.store, ignored=("cwd",))
    said = [value.message.text for value in _values(hurt.store, Message) if isinstance(value.message, Reply)]
    assert said == ["At once.", "I pay.", "It is paid.", TALK]
    assert len(hurt.outside.ledger) == 1
    for place in (alone, hurt):
        judge(place.store, place.outside)


def test_intermediate_kill_in_the_stream_and_see_a_clean_restart(tmp_path):
    """The intermediate exercise, RUN-8: under `replace` the user sees a clean restart, and no half message stays."""
    place = Place(tmp_path)
    place.begin("Talk.")
    with Watched(tmp_path, "talking", "die") as worker:
        assert worker.end()[0] == KILLED
    before = len(place.outside.events)
    with Watched(tmp_path) as worker:
        assert worker.end()[0] == 0
    events = place.outside.events[before:]
    (partial,), (resumed,) = _values(place.store, Partial), _values(place.store, Resumed)
    reply = partial.reply_id
    assert events[:3] == [
        {"begin": reply, "attempt": 2},
        {"reset": reply},
        {"delta": reply, "offset": 0, "text": TALK[:5]},
    ], "the half message is taken back before a word of the new one"
    assert sum("reset" in event for event in events) == 1
    assert events[-1] == {"end": reply}
    assert held(place.outside.events) == {reply: TALK}
    assert Prompt(content=partial.content).text == TALK[:25], "what was seen is kept, though it is void"
    assert (resumed.strategy, resumed.prior_chars) == ("replace", 25)
    judge(place.store, place.outside)


@pytest.mark.parametrize("word", ["receipt", "safe"])
@pytest.mark.parametrize("dies", ["before", "after"])
def test_advanced_kill_in_the_tool_and_it_runs_exactly_once(tmp_path, word, dies):
    """The advanced exercise, RUN-6, law 6: killed between `tool_started` and the result, the tool runs exactly once.

    Its first action is to look its own call up in a side log, and what it finds there it gives as its result.
    """
    with Watched(tmp_path, word, dies, module="tests.kernel.charging") as worker:
        assert worker.end()[0] == KILLED
    side, store = charging.SideLog(str(tmp_path)), JsonlStore(str(tmp_path / "store"))
    (begun,) = _values(store, ToolStarted)
    assert len(side.charges) == (1 if dies == "after" else 0), "killed where it should be"
    assert not [value for value in _values(store, Message) if isinstance(value.message, ToolResult)]
    with Watched(tmp_path, word, module="tests.kernel.charging") as worker:
        assert worker.end()[0] == 0
    (charge,) = side.charges
    assert charge["call"] == [begun.reply_id, begun.tool_call_id]
    (result,) = [value.message for value in _values(store, Message) if isinstance(value.message, ToolResult)]
    assert (result.status, result.text) == ("ok", charge["result"])
    judge(store, Outside(str(tmp_path / "outside")))
