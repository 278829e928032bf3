"""RUN-16, VIEW-4: compaction by the model; an unusable summary changes nothing and cannot cause a loop."""

import pytest

from tests.kernel.plays import Play
from tests.runtime.rigs import Rig, asks
from wakelog.decide.decisions import Idle
from wakelog.decide.wording import with_summary_prefix
from wakelog.log.content import Faulted, Reply
from wakelog.log.entry import Compaction, Failed, Message, ModelCall, Partial
from wakelog.projections.context import build_context, message_tokens
from wakelog.projections.usage import usage
from wakelog.runtime.user_actions import request_compaction

STORY = {"Go.": [{"text": "word " * 60}]}


def _rig(summary="Short.", **agreed):
    return Rig(STORY, summary=summary, **{"compact_at": 150, "keep": 30, **agreed})


def test_a_context_over_its_threshold_is_compacted_first():
    """RUN-16: at the agent's own threshold; the summary replaces the rest, framed once, and carries the state."""
    rig = _rig()
    for _ in range(4):
        assert rig.say("Go.").decision == Idle()
    folds = rig.values(Compaction)
    assert folds
    assert all(fold.summary == with_summary_prefix("Short.") and fold.trigger == "threshold" for fold in folds)
    assert all(fold.tokens_after < fold.tokens_before and fold.state is not None for fold in folds)
    assert build_context(rig.session.branch()).messages[0].content[0].text == with_summary_prefix("Short.")


def test_a_compaction_records_the_tokens_it_saved():
    """RUN-16: the token counts of a compaction are those of the context before and after it."""
    rig = _rig()
    while not rig.values(Compaction):
        rig.say("Go.")
    (fold,) = rig.values(Compaction)
    tree = rig.session.read().tree
    assert build_context(tree.branch(fold.parent_id)).tokens == fold.tokens_before
    assert build_context(tree.branch(fold.id)).tokens == fold.tokens_after


@pytest.mark.parametrize(("summary", "kind"), [("", "empty"), ("long " * 4_000, "did_not_shrink")])
def test_an_unusable_summary_changes_nothing_and_the_turn_ends(summary, kind):
    """RUN-16: an annotation says why; the model is called all the same, with a smaller window that the call names."""
    rig = _rig(summary)
    for _ in range(4):
        assert rig.say("Go.").decision == Idle()
    assert rig.values(Compaction) == []
    assert {partial.error.kind for partial in rig.values(Partial)} == {kind}
    # The tokens of the failed summary are counted.
    assert all(partial.usage for partial in rig.values(Partial))
    assert usage(rig.entries).calls == len(rig.values(ModelCall))
    calls = [call for call in rig.values(ModelCall) if call.purpose == "compaction"]
    assert len(calls) <= 2 * 4
    assert any(call.strategy == "budget:150" for call in rig.values(ModelCall))


def test_a_worker_that_crashes_in_every_compaction_still_answers():
    """RUN-16, RUN-4: after two attempts the turn goes on without a compaction."""
    rig = _rig()
    for _ in range(2):
        rig.say("Go.")
    rig.session.say("Go.")
    deaths = 0
    while "compaction" in {call.purpose for call in rig.values(ModelCall)[-1:]} or deaths == 0:
        assert deaths < 5
        deaths += rig.die(2)
    assert rig.wake().decision == Idle()


def test_a_compaction_never_separates_a_call_from_its_result():
    """Law 7: also when the last group alone is too long to be kept."""
    for keep in (5, 100, 150, 220):
        rig = Rig({"Go.": [asks(("look", 7), ("look", 14)), {"text": "word " * 20}]}, keep=keep)
        rig.say("Go.")
        rig.say("Go.")
        request_compaction(rig.session)
        assert rig.wake().decision == Idle()
        _keeps_whole_groups(rig)


def _keeps_whole_groups(rig):
    tree = rig.session.read().tree
    assert rig.values(Compaction)
    for fold in rig.values(Compaction):
        kept = tree.nodes[fold.first_kept_entry_id].value.message
        assert getattr(kept, "tool_call_id", None) is None


class Narrow(Play):
    """A model with a small context window, which reports an overflow in its own words."""

    def __init__(self, replies, *, tokens, summary="Short."):
        super().__init__(replies, summary=summary)
        self.tokens = tokens

    async def stream(self, request):
        if sum(map(message_tokens, request.messages)) > self.tokens:
            yield Faulted("context_overflow", "too long")
            return
        async for delta in super().stream(request):
            yield delta


@pytest.mark.parametrize("tokens", [90, 160, 240, 400])
def test_a_context_the_provider_refuses_is_compacted(tokens):
    """RUN-16: without a threshold in the policy, a context that the provider refuses is shortened until it fits."""
    rig = Rig(STORY)
    rig.provider = Narrow(STORY, tokens=tokens)
    for _ in range(8):
        assert rig.say("Go.").decision == Idle()
    assert len([value for value in rig.values(Message) if isinstance(value.message, Reply)]) == 8
    assert any(fault.error.kind == "context_overflow" for fault in rig.values(Failed))
    assert rig.values(Compaction) or any(call.strategy.startswith("budget:") for call in rig.values(ModelCall))


def test_a_provider_that_refuses_every_context_fails_the_turn():
    """RUN-16: the turn ends as failed."""
    rig = Rig(STORY)
    rig.provider = Narrow(STORY, tokens=0)
    assert rig.say("Go.").decision == Idle("failed")
