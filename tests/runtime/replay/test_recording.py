"""RUN-14: lines that were given to the runtime are told apart from lines that the runtime wrote."""

from tests.runtime.rigs import Rig, asks
from wakelog.log.entry import ModelCall, Spawned
from wakelog.runtime.replay.recording import new_ids_of, read_script
from wakelog.runtime.user_actions import rerun_tool


def _script(rig):
    return read_script(rig.store.load("s"))


def test_prompts_and_decisions_are_given_and_replies_and_results_are_written():
    """Law 11: prompts, settings and decisions are inputs; calls, replies, results and leases are written again."""
    rig = Rig({"Go.": [asks(("look", 1)), {"text": "Done."}]})
    rig.say("Go.")
    rig.session.rename("a title")
    told = [(recorded.entry.type, recorded.is_input) for recorded in _script(rig)]
    given = [kind for kind, was_given in told if was_given]
    written = [kind for kind, was_given in told if not was_given]
    assert given == ["session", "context", "message", "session_renamed"]
    assert set(written) == {"activity", "call", "message", "tool_started", "sent"}


def test_everything_before_the_first_worker_is_given():
    """Law 11: an imported log, whatever it contains, is the starting point of the replay."""
    rig = Rig({"Go.": [{"text": "Done."}]})
    rig.session.append(ModelCall(call_id="c", reply_id="r"))
    assert all(recorded.is_input for recorded in _script(rig))


def test_a_rerun_is_given():
    """RUN-18: the call, reply and question of a rerun are inputs; questions that the runtime asks later are its own."""
    rig = Rig({"Go.": [asks(("look", 1)), {"text": "Done."}]})
    rig.say("Go.")
    (result,) = [entry for entry in rig.entries if b'"toolResult"' in entry.raw]
    before = len(rig.entries)
    rerun_tool(rig.session, result.id)
    assert all(recorded.is_input for recorded in _script(rig)[before:])


def test_a_damaged_line_is_given():
    """Law 9: a damaged line stays at its position."""
    rig = Rig({"Go.": [{"text": "Done."}]})
    rig.say("Go.")
    rig.store.plant("s", b"\x00\n")
    last = _script(rig)[-1]
    assert (last.is_input, last.entry, last.body) == (True, None, None)


def test_ids_are_collected_in_the_order_they_were_drawn():
    """Law 11: the id of a reply comes before that of its call, the id of a child before that of its annotation."""
    rig = Rig({})
    call = rig.session.append(ModelCall(id="c1", call_id="c1", reply_id="r1"))
    spawned = rig.session.append(Spawned(child_session="kid", reply_id="r1", tool_call_id="t"))
    assert new_ids_of(call) == ("r1", "c1")
    assert new_ids_of(spawned) == ("kid", spawned.id)
    assert new_ids_of(rig.entries[0]) == ("s",)
