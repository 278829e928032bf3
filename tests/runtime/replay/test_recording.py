"""RUN-14: what was given to the runtime and what it wrote itself, told apart line by line."""

from tests.runtime.rigs import Rig, asks
from wakelog.log.entry import ModelCall, Spawned
from wakelog.runtime.replay.recording import new_ids_of, read_script
from wakelog.runtime.user_actions import rerun_tool


def _script(rig):
    return read_script(rig.store.load("s"))


def test_people_give_and_the_runtime_writes():
    """Law 11: prompts, settings and decisions are found; calls, replies, results and leases are written again."""
    rig = Rig({"Go.": [asks(("look", 1)), {"text": "Done."}]})
    rig.say("Go.")
    rig.session.rename("a title")
    told = [(recorded.entry.type, recorded.is_input) for recorded in _script(rig)]
    given = [kind for kind, was_given in told if was_given]
    written = [kind for kind, was_given in told if not was_given]
    assert given == ["session", "context", "message", "session_renamed"]
    assert set(written) == {"activity", "call", "message", "tool_started", "sent"}


def test_before_a_worker_came_everything_was_given():
    """Law 11: an imported log, whatever it holds, is where it begins."""
    rig = Rig({"Go.": [{"text": "Done."}]})
    rig.session.append(ModelCall(call_id="c", reply_id="r"))
    assert all(recorded.is_input for recorded in _script(rig))


def test_a_rerun_is_a_persons():
    """RUN-18: its call, its reply and its question are given; what the runtime asks later is its own."""
    rig = Rig({"Go.": [asks(("look", 1)), {"text": "Done."}]})
    rig.say("Go.")
    (result,) = [entry for entry in rig.entries if b'"toolResult"' in entry.raw]
    before = len(rig.entries)
    rerun_tool(rig.session, result.id)
    assert all(recorded.is_input for recorded in _script(rig)[before:])


def test_a_line_that_is_no_entry_is_given():
    """Law 9: damage stands where it stands."""
    rig = Rig({"Go.": [{"text": "Done."}]})
    rig.say("Go.")
    rig.store.plant("s", b"\x00\n")
    last = _script(rig)[-1]
    assert (last.is_input, last.entry, last.body) == (True, None, None)


def test_ids_are_made_in_their_order():
    """Law 11: the reply's id before the call's, the child's before the annotation's."""
    rig = Rig({})
    call = rig.session.append(ModelCall(id="c1", call_id="c1", reply_id="r1"))
    spawned = rig.session.append(Spawned(child_session="kid", reply_id="r1", tool_call_id="t"))
    assert new_ids_of(call) == ("r1", "c1")
    assert new_ids_of(spawned) == ("kid", spawned.id)
    assert new_ids_of(rig.entries[0]) == ("s",)
