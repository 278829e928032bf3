"""Laws 6 and 7, RUN-6: the rows that judge one open call, where the case table cannot reach: seals and decisions."""

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
        """What is decided, also by whoever reads only the tail; `change` may alter the bytes before."""
        lines = [line.raw for line in self.story.store.load(self.session.id)]
        store = MemoryStore()
        store.replace("s", "crab_user_1", b"".join(line + b"\n" for line in (change(lines) if change else lines)))
        logs = (read_log(store, "s", verify=True), read_active(store, "s"))
        whole, tail = (decide_open_tool_calls(take_snapshot(log.tree, 0, frozenset())) for log in logs)
        assert whole == tail
        return whole


def _other_type(lines):
    """The beginning of a tool becomes an entry of a type that nobody knows."""
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
def test_a_beginning_that_was_lost_still_counts(lose):
    """Law 6: a line that was changed, hidden or taken away behind a call may have been its beginning."""
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
    """Law 6, RUN-13: what a person allowed once is not allowed again because its use cannot be read any more."""
    told = _Told(approval="ask", unknown="ask")
    told.decided(told.asked(), word)
    assert isinstance(told.judged()[1], RunTools)
    told.started()
    told.session.rename("something stands behind it")
    assert isinstance(told.judged()[1], AskPerson)
    row, decision = told.judged(lose)
    assert isinstance(decision, AskPerson), row
    assert decision.reason == "unknown"


def test_a_person_who_decides_behind_the_damage_is_obeyed():
    """Law 6: the question is asked once more, not for ever."""
    told = _Told(unknown="ask")
    told.started()
    told.session.rename("something stands behind it")
    attention = told.asked("unknown")
    told.decided(attention, "run again")
    assert isinstance(told.judged(_gone)[1], RunTools)


def test_a_beginning_uses_up_the_decision_that_allowed_it():
    """RUN-13: what comes of a run that was allowed is a new question."""
    told = _Told(approval="ask", unknown="ask")
    told.decided(told.asked(), "approve")
    told.started()
    assert told.judged() == ("call unknown", AskPerson(told.judged()[1].open_call, "unknown"))


def test_what_is_whole_is_run():
    """RUN-4: the check of seals stops nothing that is as it was written, nor a log that never had seals."""
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
    """RUN-7, RUN-13: each word has its settlement; one that nobody knows allows nothing."""
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


def test_whatever_can_move_moves():
    """RUN-4: one call waits for a person, the others are not kept waiting."""
    told = _Told(calls=2)
    attention = told.asked()
    _, decision = told.judged()
    assert isinstance(decision, RunTools)
    assert [call.tool_call.id for call in decision.open_calls] == ["t1"]
    told.story.result(told.reply, "t1")
    assert told.judged() == ("call waits", Await(attention=(attention.id,)))


def test_what_it_had_put_out_is_told():
    """RUN-7: an interrupted tool's live output is part of its result."""
    told = _Told()
    told.started()
    told.session.append(Partial(reply_id=told.reply.id, tool_call_id="t0", content=(Text(text="half"),)))
    told.session.append(Cancelled())
    row, decision = told.judged()
    assert (row, decision.result.status) == ("call not ours", "interrupted")
    assert decision.result.text == wording.INTERRUPTED + wording.OUTPUT_SO_FAR.format(shown="half")


@pytest.mark.parametrize(
    ("replay", "row"), [("safe", "call safe"), ("receipt", "call receipt"), ("never", "call unknown")]
)
def test_the_word_of_the_last_beginning_counts(replay, row):
    """RUN-6: what may happen was written down when the tool was begun."""
    told = _Told()
    told.started("safe")
    told.started(replay)
    assert told.judged()[0] == row


def test_safe_is_not_for_ever():
    """RUN-6: above attempts_max a safe tool is given up."""
    told = _Told(attempts_max=2)
    told.started("safe")
    assert isinstance(told.judged()[1], RunTools)
    told.started("safe")
    assert told.judged()[1].result.text == wording.TOO_MANY_ATTEMPTS.format(attempts=2)


def test_every_row_says_what_it_is():
    """RUN-4: the table can be printed."""
    assert all(row.name and row.when and row.then for row in TOOL_CALL_RULES)
    assert len({row.name for row in TOOL_CALL_RULES}) == len(TOOL_CALL_RULES)
