"""RUN-12, RUN-13, RUN-18: actions of people on a session, their wrong uses, and crashes in the middle of them."""

import pytest

from tests.runtime.rigs import Rig, asks
from wakelog.decide.decisions import Await, Idle
from wakelog.errors import Conflict, NotFound, UsageError
from wakelog.log.content import Faulted, Prompt, Text
from wakelog.log.entry import (
    Attention,
    AttentionResolved,
    Cancelled,
    Compaction,
    Custom,
    Failed,
    FaultReport,
    Head,
    Message,
    ModelCall,
    ModelChange,
    Queued,
)
from wakelog.projections.branch_state import branch_state
from wakelog.projections.overview import overview
from wakelog.questions import PersonDecision, open_questions, resolve_question
from wakelog.runtime.user_actions import has_failed_turn, request_cancel, request_compaction, rerun_tool, retry_turn
from wakelog.session import Session
from wakelog.testing.crashing_store import CrashingStore, SimulatedCrash

PAY = {"Pay.": [asks(("pay", 1)), {"text": "Paid."}], "Go on.": [{"text": "Gone."}]}


def _asking(**agreed):
    """A session that waits for an approval."""
    rig = Rig(PAY, approvals={"pay": "ask"}, **agreed)
    assert isinstance(rig.say("Pay.").decision, Await)
    return rig


# ── cancel ───────────────────────────────────────────────────────────────────────────────────────


def test_cancel_ends_the_current_turn():
    """RUN-12: the cancel is an entry at once, the turn ends when the session is woken, and the session stays usable."""
    rig = _asking()
    assert request_cancel(rig.session).value.mode == "cancel"
    assert rig.wake().decision == Idle("cancelled")
    assert [value.reason for value in rig.values(Cancelled)] == ["asked by a person"]
    assert rig.outside.effects == {}
    assert rig.say("Go on.").decision == Idle()


def test_a_cancelled_turn_leaves_no_open_question():
    """RUN-12: the question about a settled call can no longer be answered."""
    rig = _asking()
    assert len(open_questions(rig.session)) == 1
    request_cancel(rig.session)
    rig.wake()
    assert open_questions(rig.session) == []
    assert overview(rig.session.read().tree).state == "idle"


def test_an_idle_session_cannot_be_cancelled():
    """RUN-12: nothing is written, so no old cancel ends the next turn."""
    rig = Rig(PAY)
    assert request_cancel(rig.session) is None
    rig.say("Go on.")
    assert request_cancel(rig.session) is None
    assert rig.values(Queued) == []


def test_a_cancel_does_not_affect_the_next_turn():
    """RUN-12: it applies to the turn in which it was written."""
    rig = _asking()
    request_cancel(rig.session)
    request_cancel(rig.session)
    rig.wake()
    rig.say("Go on.")
    assert len(rig.values(Cancelled)) == 1


def test_a_cancel_after_the_end_of_its_turn_is_ignored():
    """RUN-12: it does not apply to the next turn."""
    rig = Rig(PAY)
    rig.say("Go on.")
    rig.session.append(Queued(mode="cancel"))
    assert rig.say("Go on.").decision == Idle()
    assert rig.values(Cancelled) == []


# ── retry ────────────────────────────────────────────────────────────────────────────────────────


class Down:
    """A provider that cannot be reached."""

    name, can_resume = "down", False

    def __call__(self, *_):
        return self

    async def stream(self, request):
        yield Faulted("connection", "no route to the model", retryable=True, delay_ms=0)


def test_a_failed_turn_can_be_retried():
    """RUN-12: the failures stay on an abandoned branch; the prompt is answered."""
    rig = Rig({"Go on.": [{"text": "Gone."}]}, faults_max=2)
    works, rig.provider = rig.provider, Down()
    assert rig.say("Go on.").decision == Idle("failed")
    assert rig.values(Failed)[-1].error.message == "2 calls in a row came to nothing; the last: no route to the model"
    rig.provider = works
    assert retry_turn(rig.session).value.target_id == rig.values(Failed)[0].parent_id
    report = rig.wake()
    assert (report.decision, report.text) == (Idle(), "Gone.")
    assert len(rig.values(Failed)) == 3


def test_each_retry_has_its_own_fault_limit():
    """RUN-8, RUN-12: failures of earlier tries do not count against the next one."""
    rig = Rig({}, faults_max=3)
    rig.provider = Down()
    rig.say("Go on.")
    for tries in (2, 3):
        retry_turn(rig.session)
        assert rig.wake().decision == Idle("failed")
        assert sum(isinstance(entry.value, ModelCall) for entry in rig.session.read().entries) == 3 * tries
        assert rig.values(Failed)[-1].error.message.startswith("3 calls in a row")


def test_settings_changed_since_apply_to_the_retry():
    """RUN-12: another model can be set before the retry; a crash before the head is moved changes nothing."""
    rig = Rig({"Go on.": [{"text": "Gone."}]}, faults_max=1)
    works, rig.provider = rig.provider, Down()
    rig.say("Go on.")
    rig.session.append(ModelChange(model="better", provider="scripted"))
    assert has_failed_turn(rig.session)
    rig.provider = works
    retry_turn(rig.session)
    assert not has_failed_turn(rig.session)
    assert rig.wake().text == "Gone."
    assert branch_state(rig.session.branch()).answered_model == "better"
    with pytest.raises(Conflict, match="did not fail"):
        retry_turn(rig.session)


@pytest.mark.parametrize("came", [Custom(custom_type="note"), Compaction(summary="They talked.")], ids=["note", "fold"])
def test_a_retry_goes_back_before_the_failures_whatever_followed_them(came):
    """RUN-12: also where a compaction hides them from the session; two in a row are one failure."""
    rig = Rig({"Go on.": [{"text": "Gone."}]}, faults_max=2)
    works, rig.provider = rig.provider, Down()
    rig.say("Go on.")
    rig.session.append_compaction(came) if isinstance(came, Compaction) else rig.session.append(came)
    rig.provider = works
    assert has_failed_turn(rig.session)
    assert retry_turn(rig.session).value.target_id == rig.values(Failed)[0].parent_id
    assert rig.wake().text == "Gone."


@pytest.mark.meddled
def test_settings_between_the_failures_of_one_turn_do_not_split_it():
    """RUN-12: another model was set during a retry wait: the retry goes back before all failures."""
    rig = Rig({"Go on.": [{"text": "Gone."}]}, faults_max=1)
    said = rig.session.say("Go on.")
    rig.session.append(Failed(reason="call", error=FaultReport(kind="overload", retryable=True)))
    rig.session.append(ModelChange(model="better", provider="scripted"))
    rig.session.append(Failed(reason="faults", error=FaultReport(kind="faults")))
    retry_turn(rig.session)
    assert [node.id for node in rig.session.branch().nodes][-2] == said.id
    assert rig.wake().text == "Gone."


def test_only_a_failed_turn_can_be_retried():
    """RUN-12: nothing is written otherwise."""
    rig = Rig(PAY)
    rig.say("Go on.")
    with pytest.raises(Conflict, match="did not fail"):
        retry_turn(rig.session)
    assert rig.values(Head) == []


# ── questions ────────────────────────────────────────────────────────────────────────────────────


def test_questions_name_their_call_and_their_choices():
    """RUN-13: listed with the tool call and the possible decisions."""
    (question,) = open_questions(_asking().session)
    assert question.attention.reason == "approve"
    assert question.open_call.tool_call.name == "pay"
    assert question.choices == ("approve", "deny")


def test_a_question_without_a_call_can_be_resolved():
    """RUN-13: an extension may ask too."""
    rig = Rig(PAY)
    asked = rig.session.append(Attention(reason="look here"))
    (question,) = open_questions(rig.session)
    assert question.open_call is None
    resolve_question(rig.session, asked.id, "ran")
    assert open_questions(rig.session) == []


def test_an_approved_call_runs_once_and_a_denied_one_never():
    """RUN-13: the decision is in the log and is applied once."""
    decisions: list[tuple[PersonDecision, int]] = [("approve", 1), ("deny", 0)]
    for word, paid in decisions:
        rig = _asking()
        resolve_question(rig.session, open_questions(rig.session)[0].attention.id, word)
        assert rig.wake().decision == Idle()
        assert sum(rig.outside.effects.values()) == paid
        assert rig.wake().decision == Idle()
        assert sum(rig.outside.effects.values()) == paid


@pytest.mark.parametrize("word", ["ran", "did not run", "run again", "result", "maybe", ""])
def test_only_the_choices_of_a_question_are_accepted(word):
    """RUN-13: an approval does not answer another kind of question, and the error lists the choices."""
    rig = _asking()
    attention = open_questions(rig.session)[0].attention.id
    with pytest.raises(UsageError) as error:
        resolve_question(rig.session, attention, word)
    assert "approve" in error.value.hint
    assert rig.values(AttentionResolved) == []


def test_a_result_text_belongs_to_the_decision_result_only():
    """RUN-13: either one without the other is refused."""
    rig = Rig(PAY)
    asked = rig.session.append(Attention(reason="unknown"))
    mistakes: list[tuple[PersonDecision, str | None]] = [("result", None), ("ran", "text")]
    for decision, result in mistakes:
        with pytest.raises(UsageError):
            resolve_question(rig.session, asked.id, decision, result=result)
    resolved = resolve_question(rig.session, asked.id, "result", result="").value
    assert isinstance(resolved, AttentionResolved)
    assert resolved.result == (Text(text=""),)


def test_a_question_is_decided_once():
    """RUN-13: the second of two concurrent answers is refused."""
    rig = _asking()
    attention = open_questions(rig.session)[0].attention.id
    resolve_question(rig.session, attention, "deny")
    with pytest.raises(NotFound):
        resolve_question(rig.session, attention, "approve")
    with pytest.raises(NotFound):
        resolve_question(rig.session, "nothing", "approve")


# ── folds ────────────────────────────────────────────────────────────────────────────────────────


def test_a_compaction_is_requested_once_with_its_instructions():
    """RUN-16: the next worker of the session carries it out."""
    rig = Rig({"Go on.": [{"text": "Gone. " * 40}]}, summary="Short.")
    with pytest.raises(UsageError, match="nothing to compact"):
        request_compaction(rig.session)
    rig.say("Go on.")
    rig.say("Go on.")
    request_compaction(rig.session, instructions="Be kind.")
    rig.wake()
    (call,) = [value for value in rig.values(ModelCall) if value.purpose == "compaction"]
    assert b"Be kind." in rig.store.blobs.get(call.injected[0])
    assert rig.wake().decision == Idle()
    with pytest.raises(UsageError, match="nothing to compact"):
        request_compaction(rig.session, keep="nowhere")


# ── rerun ────────────────────────────────────────────────────────────────────────────────────────


def _paid():
    rig = Rig(PAY)
    rig.say("Pay.")
    result = next(entry for entry in rig.entries if isinstance(entry.value, Message) and _is_result(entry))
    reply = rig.session.tree.nodes[result.value.message.reply_id]
    return rig, result, reply


def _is_result(entry):
    return getattr(entry.value.message, "tool_call_id", None) is not None


def test_a_rerun_asks_and_runs_once_more_on_its_own_branch():
    """RUN-18: a branch before the result, a new call, an approval; the old branch stays."""
    rig, result, reply = _paid()
    asked = rerun_tool(rig.session, result.id)
    (question,) = open_questions(rig.session)
    assert question.attention.id == asked.id
    assert isinstance(rig.wake().decision, Await)
    assert sum(rig.outside.effects.values()) == 1
    resolve_question(rig.session, asked.id, "approve")
    assert rig.wake().decision == Idle()
    assert sum(rig.outside.effects.values()) == 2
    assert len(rig.outside.effects) == 2
    tree = rig.session.read().tree
    assert len(tree.children(tree.parent(reply.id))) == 2
    assert result.id not in {node.id for node in tree.branch().nodes}


def test_a_rerun_can_name_the_reply():
    """RUN-18: where the reply has one tool call."""
    rig, _, reply = _paid()
    assert rerun_tool(rig.session, reply.id).value.reason == "approve"


@pytest.mark.meddled
def test_a_rerun_of_anything_but_one_settled_call_is_refused():
    """RUN-18: a prompt, a reply of many calls, a result whose call is gone, an unknown entry, a session in a turn."""
    rig = Rig({"Two.": [asks(("pay", 1), ("look", 2)), {"text": "Done."}]})
    rig.say("Two.")
    nodes = rig.session.read().tree.nodes
    prompt = next(node for node in nodes.values() if _says(node, Prompt))
    reply = nodes[rig.session.read().tree.children(prompt.id)[0]]
    for entry in (prompt.id, reply.id):
        with pytest.raises(UsageError, match="is not a tool result"):
            rerun_tool(rig.session, entry)
    with pytest.raises(NotFound):
        rerun_tool(rig.session, "nowhere")
    rig.session.acquire("somebody", ttl_s=60)
    with pytest.raises(Conflict, match="is running"):
        rerun_tool(rig.session, reply.id)


def _says(node, kind):
    return isinstance(node.value, Message) and isinstance(node.value.message, kind)


@pytest.mark.parametrize("head_at_the_fork", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("write", range(5))
def test_a_rerun_that_crashes_anywhere_runs_nothing_unapproved(write, after, head_at_the_fork):
    """RUN-18, law 6: after a crash the next wake finds the question, or no new call."""
    rig, result, reply = _paid()
    if head_at_the_fork:
        rig.session.append(Head(target_id=rig.session.tree.parent(reply.id)))
    try:
        rerun_tool(Session(CrashingStore(rig.store, dies_at=write, after=after), "s", clock=rig.clock), result.id)
    except SimulatedCrash:
        assert write < 4
    else:
        assert write == 4
    before = dict(rig.outside.effects)
    tree = rig.session.read().tree
    made = [node for node in tree.nodes.values() if _says(node, type(reply.value.message)) and node.id != reply.id]
    is_found = any(node.id == tree.head and node.value.message.tool_calls for node in made)
    if not head_at_the_fork or is_found:
        rig.wake()
        assert dict(rig.outside.effects) == before
        assert len(open_questions(rig.session)) == is_found
