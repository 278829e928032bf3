"""Laws 6 and 7, RUN-6: the rules for one open call that the case table cannot reach: seals and decisions."""

import pytest

from wakelog.decide import wording
from wakelog.decide.decisions import AskPerson, Await, RunTools, SettleToolCall, take_snapshot
from wakelog.decide.open_tool_calls import TOOL_CALL_RULES, decide_open_tool_calls
from wakelog.decide.policy import Policy, stored_policy
from wakelog.log.content import Reply, Text, ToolCall
from wakelog.log.entry import Attention, AttentionResolved, Cancelled, ContextEntry, Message, Partial, ToolStarted
from wakelog.reading import read_active, read_log
from wakelog.stores.memory import MemoryStore
from wakelog.testing.builders import SessionBuilder


class _Told:
    """A session with one reply of its own that calls tools."""

    def __init__(self, calls=1, **agreed):
        self.story = SessionBuilder()
        self.session = self.story.session
        self.session.append(ContextEntry(policy=stored_policy(Policy(**agreed))))
        self.story.user("p")
        reply_id = self.session.clock.new_id()
        self.story.call(reply_id)
        asked = tuple(ToolCall(id=f"t{number}", name="pay", input={}) for number in range(calls))
        self.reply = self.session.append(Message(id=reply_id, message=Reply(content=asked, call_id="c")))

    def started(self, replay="never", call="t0"):
        return self.session.append(ToolStarted(reply_id=self.reply.id, tool_call_id=call, replay=replay))

    def asked(self, reason="approve"):
        return self.session.append(Attention(reason=reason, reply_id=self.reply.id, tool_call_id="t0"))

    def decided(self, attention, decision, result=None):
        body = AttentionResolved(attention_id=attention.id, decision=decision, result=result)
        return self.session.append(body, at=self.reply.id)

    def judged(self, change=None):
        """Return the decision, which is the same for a reader of the tail; `change` may alter the bytes before."""
        lines = [line.raw for line in self.story.store.load(self.session.id)]
        store = MemoryStore()
        store.replace("s", "crab_user_1", b"".join(line + b"\n" for line in (change(lines) if change else lines)))
        logs = (read_log(store, "s", verify=True), read_active(store, "s"))
        whole, tail = (decide_open_tool_calls(take_snapshot(log.tree, 0, frozenset())) for log in logs)
        assert whole == tail
        return whole


def _other_type(lines):
    """Change a `tool_started` to an entry of an unknown type."""
    return [line.replace(b'"tool_started"', b'"tool_stopped"') for line in lines]


def _other_call(lines):
    return [
        line.replace(b'"toolCallId":"t0"', b'"toolCallId":"u0"') if b"tool_started" in line else line for line in lines
    ]


def _gone(lines):
    return [line for line in lines if b"tool_started" not in line]


def _unreadable(lines):
    return [b"\x00" * 9 if b"tool_started" in line else line for line in lines]


LOST = [_other_type, _other_call, _gone, _unreadable]


@pytest.mark.parametrize("lose", LOST, ids=lambda lose: lose.__name__.strip("_"))
def test_a_lost_tool_started_still_counts(lose):
    """Law 6: a line after a call that was changed, hidden or removed may have been its `tool_started`."""
    told = _Told()
    told.started()
    told.session.rename("something stands behind it")
    assert told.judged()[0] == "call unknown"
    row, decision = told.judged(lose)
    assert row == "call unknown"
    assert isinstance(decision, SettleToolCall)
    assert decision.result.status == "unknown"


@pytest.mark.parametrize("lose", LOST, ids=lambda lose: lose.__name__.strip("_"))
@pytest.mark.parametrize("word", ["approve", "run again"])
def test_a_decision_is_not_used_twice(lose, word):
    """Law 6, RUN-13: an approval is not used again because the entry that used it cannot be read."""
    told = _Told(approval="ask", unknown="ask")
    told.decided(told.asked(), word)
    assert isinstance(told.judged()[1], RunTools)
    told.started()
    told.session.rename("something stands behind it")
    assert isinstance(told.judged()[1], AskPerson)
    row, decision = told.judged(lose)
    assert isinstance(decision, AskPerson), row
    assert decision.reason == "unknown"


def test_a_decision_after_the_damage_is_followed():
    """Law 6: the question is asked once more, not for ever."""
    told = _Told(unknown="ask")
    told.started()
    told.session.rename("something stands behind it")
    attention = told.asked("unknown")
    told.decided(attention, "run again")
    assert isinstance(told.judged(_gone)[1], RunTools)


def test_a_tool_started_uses_up_the_approval():
    """RUN-13: the outcome of an approved run is a new question."""
    told = _Told(approval="ask", unknown="ask")
    told.decided(told.asked(), "approve")
    told.started()
    assert told.judged() == ("call unknown", AskPerson(told.judged()[1].open_call, "unknown"))


def test_an_intact_log_is_run():
    """RUN-4: the check of seals stops nothing in a log that is as it was written, or that never had seals."""
    told = _Told(calls=2)
    told.session.rename("a title")
    assert isinstance(told.judged()[1], RunTools)
    assert len(told.judged()[1].open_calls) == 2


@pytest.mark.parametrize(
    ("decision", "status", "text"),
    [
        ("deny", "denied", wording.DENIED_BY_PERSON),
        ("ran", "ok", wording.RAN),
        ("did not run", "skipped", wording.DID_NOT_RUN),
        ("gibberish", "denied", wording.DENIED_BY_PERSON),
    ],
)
def test_decisions_become_the_one_result(decision, status, text):
    """RUN-7, RUN-13: each decision has its result; an unknown word allows nothing."""
    told = _Told(approval="ask")
    told.decided(told.asked(), decision)
    row, settled = told.judged()
    assert (row, settled.result.status, settled.result.text) == ("call decided", status, text)
    assert settled.result.is_error == (status != "ok")


def test_a_result_given_by_hand_is_the_result():
    """RUN-13: word for word."""
    told = _Told(unknown="ask")
    told.started()
    told.decided(told.asked("unknown"), "result", (Text(text="it went through"),))
    assert told.judged()[1].result.text == "it went through"


def test_other_calls_run_while_one_waits():
    """RUN-4: one call waits for a person, the others do not."""
    told = _Told(calls=2)
    attention = told.asked()
    _, decision = told.judged()
    assert isinstance(decision, RunTools)
    assert [call.tool_call.id for call in decision.open_calls] == ["t1"]
    told.story.result(told.reply, "t1")
    assert told.judged() == ("call waits", Await(attention=(attention.id,)))


def test_live_output_of_a_tool_that_was_cut_off_is_in_its_result():
    """RUN-7: no process recorded that the tool was stopped, so its outcome is unknown; its live output is kept."""
    told = _Told()
    told.started()
    told.session.append(Partial(reply_id=told.reply.id, tool_call_id="t0", content=(Text(text="half"),)))
    told.session.append(Cancelled())
    row, decision = told.judged()
    assert (row, decision.result.status) == ("call not ours", "unknown")
    assert decision.result.text == wording.UNKNOWN + wording.OUTPUT_SO_FAR.format(shown="half")


@pytest.mark.parametrize(
    ("replay", "row"), [("safe", "call safe"), ("receipt", "call receipt"), ("never", "call unknown")]
)
def test_the_replay_mode_of_the_last_start_counts(replay, row):
    """RUN-6: it was recorded when the tool was started."""
    told = _Told()
    told.started("safe")
    told.started(replay)
    assert told.judged()[0] == row


def test_a_safe_tool_is_not_retried_for_ever():
    """RUN-6: after `attempts_max` a safe tool is given up."""
    told = _Told(attempts_max=2)
    told.started("safe")
    assert isinstance(told.judged()[1], RunTools)
    told.started("safe")
    assert told.judged()[1].result.text == wording.TOO_MANY_ATTEMPTS.format(attempts=2)


def test_every_row_has_a_description():
    """RUN-4: the table can be printed."""
    assert all(row.name and row.when and row.then for row in TOOL_CALL_RULES)
    assert len({row.name for row in TOOL_CALL_RULES}) == len(TOOL_CALL_RULES)
