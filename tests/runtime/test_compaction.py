"""RUN-16, VIEW-4: folding by the model, and that a fold which is no use changes nothing and cannot loop."""

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


def test_a_context_over_its_threshold_is_folded_first():
    """RUN-16: at the agent's own figure; the summary stands for the rest, framed once, and the state goes with it."""
    rig = _rig()
    for _ in range(4):
        assert rig.say("Go.").decision == Idle()
    folds = rig.values(Compaction)
    assert folds
    assert all(fold.summary == with_summary_prefix("Short.") and fold.trigger == "threshold" for fold in folds)
    assert all(fold.tokens_after < fold.tokens_before and fold.state is not None for fold in folds)
    assert build_context(rig.session.branch()).messages[0].content[0].text == with_summary_prefix("Short.")


def test_figures_of_a_fold_are_those_of_the_context():
    """RUN-16: what it says was saved was saved."""
    rig = _rig()
    while not rig.values(Compaction):
        rig.say("Go.")
    (fold,) = rig.values(Compaction)
    tree = rig.session.read().tree
    assert build_context(tree.branch(fold.parent_id)).tokens == fold.tokens_before
    assert build_context(tree.branch(fold.id)).tokens == fold.tokens_after


@pytest.mark.parametrize(("summary", "kind"), [("", "empty"), ("long " * 4_000, "did_not_shrink")])
def test_a_summary_that_is_no_use_changes_nothing_and_ends(summary, kind):
    """RUN-16: an annotation says why; the model is asked all the same, with a smaller window that the call names."""
    rig = _rig(summary)
    for _ in range(4):
        assert rig.say("Go.").decision == Idle()
    assert rig.values(Compaction) == []
    assert {partial.error.kind for partial in rig.values(Partial)} == {kind}
    # What it cost was spent all the same.
    assert all(partial.usage for partial in rig.values(Partial))
    assert usage(rig.entries).calls == len(rig.values(ModelCall))
    calls = [call for call in rig.values(ModelCall) if call.purpose == "compaction"]
    assert len(calls) <= 2 * 4
    assert any(call.strategy == "budget:150" for call in rig.values(ModelCall))


def test_a_worker_that_dies_in_every_fold_still_answers():
    """RUN-16, RUN-4: after two tries the turn goes on without."""
    rig = _rig()
    for _ in range(2):
        rig.say("Go.")
    rig.session.say("Go.")
    deaths = 0
    while "compaction" in {call.purpose for call in rig.values(ModelCall)[-1:]} or deaths == 0:
        assert deaths < 5
        deaths += rig.die(2)
    assert rig.wake().decision == Idle()


def test_a_fold_never_parts_a_call_from_its_result():
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
    """A model that can read only so many tokens, and says so in its own way."""

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
def test_what_is_too_long_for_the_provider_is_folded(tokens):
    """RUN-16: without any figure agreed, a context that the provider refuses is made shorter until it fits."""
    rig = Rig(STORY)
    rig.provider = Narrow(STORY, tokens=tokens)
    for _ in range(8):
        assert rig.say("Go.").decision == Idle()
    assert len([value for value in rig.values(Message) if isinstance(value.message, Reply)]) == 8
    assert any(fault.error.kind == "context_overflow" for fault in rig.values(Failed))
    assert rig.values(Compaction) or any(call.strategy.startswith("budget:") for call in rig.values(ModelCall))


def test_a_provider_that_finds_everything_too_long():
    """RUN-16: it ends, and is said to have failed."""
    rig = Rig(STORY)
    rig.provider = Narrow(STORY, tokens=0)
    assert rig.say("Go.").decision == Idle("failed")
