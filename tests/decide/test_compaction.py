"""VIEW-4, RUN-16, law 7: what a compaction may replace, and that compacting again ends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakelog.decide.compaction import (
    COMPACTION_TRIES_MAX,
    can_keep_from,
    is_compaction_exhausted,
    is_shorter,
    plan_compaction,
    replaced_part,
)
from wakelog.log.content import Text, ToolCall
from wakelog.log.entry import FaultReport, ModelCall, Partial
from wakelog.projections.context import build_context
from wakelog.testing.builders import SessionBuilder


def _turns(story, *sizes):
    """Append prompts and replies of so many tokens each; return the ids of the prompts."""
    prompts = []
    for size in sizes:
        prompts.append(story.user("p" * 4 * size).id)
        story.reply("r" * 4 * size)
    return prompts


def test_the_newest_messages_that_fit_are_kept():
    """RUN-16: as many tokens as the policy says, counted from the end."""
    story = SessionBuilder()
    prompts = _turns(story, 10, 10, 10)
    assert plan_compaction(story.session.branch(), 20) == prompts[2]
    assert plan_compaction(story.session.branch(), 45) == prompts[1]


def test_the_last_group_is_kept_where_all_or_nothing_fits():
    """RUN-16: a requested compaction happens; a single message is not compacted."""
    story = SessionBuilder()
    assert plan_compaction(story.session.branch(), 100) is None
    prompt = story.user("p").id
    assert plan_compaction(story.session.branch(), 100) is None
    reply = story.reply("r").id
    assert plan_compaction(story.session.branch(), 0) == reply
    assert plan_compaction(story.session.branch(), 10_000) == reply
    assert prompt != reply


CALLS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 3)), min_size=1, max_size=8)


@settings(max_examples=80, deadline=None)
@given(CALLS, st.integers(0, 200), st.integers(0, 2))
def test_a_compaction_never_splits_a_call_group(turns, keep, repeats):
    """Laws 7 and 8, VIEW-4: the kept part begins between groups, after every further compaction, too."""
    story = SessionBuilder()
    for size, calls in turns:
        story.user("p" * size)
        asked: list[tuple[str, str, dict[str, object]]] = [(f"t{number}", "bash", {}) for number in range(calls)]
        reply = story.reply("r", calls=asked)
        for call, _, _ in asked:
            story.result(reply, call, "x" * size)
    for _ in range(repeats + 1):
        branch = story.session.branch()
        kept = plan_compaction(branch, keep)
        if kept is None:
            return
        assert can_keep_from(branch, kept)
        story.session.compact("s", first_kept=kept)
        _is_valid(build_context(story.session.branch()).messages)


def _is_valid(messages):
    awaited = []
    for message in messages:
        awaited += [part.id for part in message.content if isinstance(part, ToolCall)]
        if message.role == "toolResult":
            awaited.remove(message.tool_call_id)
    assert awaited == []


def test_compacting_again_comes_to_an_end():
    """RUN-16: a compaction that would replace only the last summary is not planned."""
    story = SessionBuilder()
    _turns(story, 10, 10, 10)
    for _ in range(10):
        kept = plan_compaction(story.session.branch(), 5)
        if kept is None:
            break
        story.session.compact("summary", first_kept=kept)
    assert kept is None


def test_each_branch_is_compacted_by_itself():
    """VIEW-4: the plan of one branch does not depend on a compaction of another."""
    story = SessionBuilder()
    first, second, _ = _turns(story, 10, 10, 10)
    other = story.session.tree.head
    story.session.compact("summary", first_kept=second)
    story.user("elsewhere", at=other)
    assert plan_compaction(story.session.branch(other), 20) is not None
    assert build_context(story.session.branch(other)).entry_ids[0] == first


def test_what_may_be_kept():
    """VIEW-4: an entry of the context, not the first of it, and not a result without its call."""
    story = SessionBuilder()
    first = story.user("p").id
    reply = story.reply("r", calls=[("t", "bash", {})])
    result = story.result(reply, "t").id
    branch = story.session.branch()
    assert [can_keep_from(branch, entry) for entry in (first, reply.id, result, "nowhere")] == [
        False,
        True,
        False,
        False,
    ]


def test_everything_before_the_kept_part_is_replaced():
    """VIEW-4: everything before the first kept entry; everything where nothing is kept."""
    story = SessionBuilder()
    _, second = _turns(story, 5, 5)
    context = build_context(story.session.branch())
    assert replaced_part(context, second).entry_ids == context.entry_ids[:2]
    assert replaced_part(context, None) is context


def test_a_summary_must_be_shorter_than_what_it_replaces():
    """RUN-16: equal is not shorter, or compacting would never end."""
    story = SessionBuilder()
    _, second = _turns(story, 5, 5)
    context = build_context(story.session.branch())
    size = replaced_part(context, second).tokens
    assert not is_shorter(context, second, "x" * 4 * size)
    assert is_shorter(context, second, "x" * 4 * (size - 1))
    assert isinstance(context.messages[0].content[0], Text)


@pytest.mark.parametrize("kind", ["did_not_shrink", "empty", "overload"])
def test_a_failed_compaction_is_not_tried_for_ever(kind):
    """RUN-16: a summary that was not shorter is not requested again; other failures are tried once more."""
    story = SessionBuilder()
    _turns(story, 5, 5)
    tries = 0
    while not is_compaction_exhausted(story.session.branch()):
        story.session.append(ModelCall(call_id=f"c{tries}", reply_id=f"r{tries}", purpose="compaction"))
        story.session.append(Partial(reply_id=f"r{tries}", error=FaultReport(kind=kind)))
        tries += 1
    assert tries == (1 if kind == "did_not_shrink" else COMPACTION_TRIES_MAX)
    story.user("something new")
    assert not is_compaction_exhausted(story.session.branch())


def test_a_killed_compaction_counts_as_an_attempt():
    """RUN-16: a worker that dies in every compaction does not compact for ever."""
    story = SessionBuilder()
    _turns(story, 5)
    for tries in range(COMPACTION_TRIES_MAX):
        assert not is_compaction_exhausted(story.session.branch())
        story.session.append(ModelCall(call_id=f"c{tries}", reply_id=f"r{tries}", purpose="compaction"))
    assert is_compaction_exhausted(story.session.branch())
