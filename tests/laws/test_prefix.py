"""Law 8 and VIEW-5: without a compaction, a setting change or a stride, each request begins with the one before."""

from hypothesis import given, settings
from hypothesis import strategies as st

from wakelog.log.codec import canonical_json
from wakelog.log.content import ToolCall
from wakelog.projections.context import build_context
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
    """VIEW-1: a window holds at most N messages and the rest of the group it begins in."""
    for context in _requests(turns, f"window:{size}"):
        group = 0
        for message in context.messages[1:]:
            if message.role != "toolResult":
                break
            group += 1
        assert len(context.messages) <= size + group + 1
        assert context.messages[-1].role in ("user", "toolResult")
