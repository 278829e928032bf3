"""Small logs in which one rule alone decides: each of these tests fails when its rule is removed.

They were written against planted bugs (`tests/mutants`) that broader tests did not find.
"""

from wakelog.log.content import Prompt, Text
from wakelog.log.entry import Custom, Queued
from wakelog.projections.context import build_context
from wakelog.projections.pending import open_tool_calls, pending
from wakelog.reading import read_active, read_log
from wakelog.testing.builders import SessionBuilder


def texts(story: SessionBuilder, strategy: str = "full") -> list[str]:
    messages = build_context(story.session.branch(), strategy).messages
    return [part.text for message in messages for part in message.content if isinstance(part, Text)]


def test_a_custom_entry_with_text_stays_out():
    """VIEW-2: the declaration as a message counts, not that there is text."""
    story = SessionBuilder()
    story.user("hi")
    story.session.append(Custom(custom_type="x", content=(Text(text="aside"),)))
    assert texts(story) == ["hi"]
    story.session.append(Custom(custom_type="x", content=(Text(text="told"),), in_context=True))
    assert texts(story) == ["hi", "told"]


def test_a_result_closes_the_call_of_its_own_reply():
    """Law 7, RUN-7: two replies call with the same provider id; the older one is answered first."""
    story = SessionBuilder()
    story.user("go")
    first = story.reply(calls=[("t1", "sh", {})])
    second = story.reply(calls=[("t1", "sh", {})])
    story.result(first, "t1")
    assert [call.reply_id for call in open_tool_calls(story.session.branch())] == [second.id]


def test_the_summary_counts_towards_the_budget():
    """VIEW-1: 20 tokens of summary and messages of 10: a budget of 50 has room for three."""
    story = SessionBuilder()
    story.user("old")
    story.session.compact("s" * 80)
    sizes = []
    for _ in range(8):
        story.user("x" * 40)
        sizes.append(build_context(story.session.branch(), "budget:50").tokens)
    assert sizes == [30, 40, 50, 40, 50, 40, 50, 40]


def test_a_window_of_four_drops_two_at_a_time():
    """Law 8: the start stays where it is for two messages, and so does the prefix."""
    story = SessionBuilder()
    starts = []
    for number in range(9):
        story.user(f"p{number}")
        starts.append(texts(story, "window:4")[0])
    assert starts == ["p0", "p0", "p0", "p0", "p2", "p2", "p4", "p4", "p6"]


def test_a_queued_message_of_another_branch_is_not_pending_here():
    """TREE-1: an annotation of a node that the tail never read belongs to that node's branches only."""
    story = SessionBuilder()
    first = story.user("a")
    story.user("b")
    elsewhere = story.user("another way", at=first.id)
    story.session.compact("a and b")
    story.session.append(Queued(message=Prompt(content="for the other branch")), at=elsewhere.id)
    for read in (read_log, read_active):
        assert pending(read(story.store, story.session.id).tree.branch()).queue == ()
