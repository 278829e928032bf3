"""Law 8 and VIEW-5: without a compaction, a setting change or a stride, each request begins with the one before."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.logs import STORIES, tell
from wakelog.log.codec import canonical_json
from wakelog.log.content import ToolCall
from wakelog.projections.context import build_context, group_starts, message_tokens
from wakelog.testing.builders import SessionBuilder

TURNS = st.lists(st.tuples(st.integers(1, 200), st.integers(0, 3)), min_size=1, max_size=25)
PLANS = st.sampled_from(["full", "window:4", "window:7", "window:20", "budget:60", "budget:300", "budget:2000"])


def _requests(turns, plan):
    """The context at each point where the model would be called: after each prompt and each set of results."""
    story = SessionBuilder()
    for size, calls in turns:
        story.user("p" * size)
        yield build_context(story.session.branch(), plan)
        for parallel in range(calls, 0, -1):
            asked = [(f"t{number}", "bash", {"n": size}) for number in range(parallel)]
            reply = story.reply("thinking", calls=asked)
            for call, _, _ in asked:
                story.result(reply, call, "r" * size)
            yield build_context(story.session.branch(), plan)
        story.reply("done")


def _bytes(context):
    return b"".join(canonical_json(part) for message in context.messages for part in message.content)


@settings(max_examples=60, deadline=None)
@given(TURNS, PLANS)
def test_stable_prefix(turns, plan):
    """Law 8: as long as the window starts at the same entry, bytes are only added at the end."""
    before = None
    for context in _requests(turns, plan):
        if before is not None and before.entry_ids[0] == context.entry_ids[0]:
            assert _bytes(context).startswith(_bytes(before))
        before = context


@settings(max_examples=60, deadline=None)
@given(TURNS, st.sampled_from([4, 7, 20]))
def test_windows_move_in_strides(turns, size):
    """Law 8: a window of N moves at most once for every half of N messages, and never back."""
    starts: list[str] = []
    last = None
    for last in _requests(turns, f"window:{size}"):
        if last.entry_ids[0] not in starts[-1:]:
            starts.append(last.entry_ids[0])
    told = sum(3 + calls * (calls + 3) // 2 for _, calls in turns)
    assert starts == sorted(set(starts))
    assert len(starts) - 1 <= told // max(1, size // 2)


@settings(max_examples=60, deadline=None)
@given(TURNS, PLANS)
def test_call_groups_are_whole(turns, plan):
    """VIEW-1: in every window each result has its call before it, and each call its result after it."""
    for context in _requests(turns, plan):
        asked = []
        for message in context.messages:
            asked += [part.id for part in message.content if isinstance(part, ToolCall)]
            if message.role == "toolResult":
                asked.remove(message.tool_call_id)
        assert asked == []


@settings(max_examples=60, deadline=None)
@given(TURNS, st.integers(2, 20))
def test_windows_keep_their_size(turns, size):
    """VIEW-1: a window holds at most N messages, or exactly the newest group."""
    for context in _requests(turns, f"window:{size}"):
        assert len(context.messages) <= size or group_starts(context.messages) == [0]
        assert context.over_limit == max(0, len(context.messages) - size)
        assert context.messages[-1].role in ("user", "toolResult")


@settings(max_examples=200, deadline=None)
@given(STORIES, st.integers(1, 60))
def test_a_budget_is_exceeded_by_the_newest_group_alone(steps, size):
    """VIEW-1: on random branches a context stays within its budget, or it is exactly the newest group and says so."""
    tree = tell(steps).session.tree
    for leaf in tree.leaves():
        branch = tree.branch(leaf)
        full, context = build_context(branch), build_context(branch, f"budget:{size}")
        assert context.over_limit == max(0, context.tokens - size)
        if context.over_limit:
            newest = full.entry_ids[max(group_starts(full.messages)) :]
            assert context.entry_ids == newest
        elif full.tokens <= size:
            assert context.entry_ids == full.entry_ids


@settings(max_examples=60, deadline=None)
@given(TURNS, st.integers(40, 400))
def test_budgets_move_in_strides(turns, size):
    """Law 8: a budget of N tokens moves at most once for every half of N tokens, or for a group larger than that."""
    starts = [context.entry_ids[0] for context in _requests(turns, f"budget:{size}")]
    moves = sum(before != after for before, after in pairwise(starts))
    *_, whole = _requests(turns, "full")
    stride, groups = size // 2, _group_tokens(whole)
    assert starts == sorted(starts)
    assert moves <= sum(groups) // stride + sum(group > size - stride for group in groups)


def _group_tokens(context):
    starts = sorted(group_starts(context.messages))
    return [sum(map(message_tokens, context.messages[at:end])) for at, end in pairwise([*starts, None])]
