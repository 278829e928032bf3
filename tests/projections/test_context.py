"""The context of the model: strategies, rules and digests (VIEW-1, VIEW-2, VIEW-9)."""

import msgspec
import pytest

from wakelog.errors import UsageError
from wakelog.log.content import BlobRef, Image, Prompt, Text, Thinking, ToolCall
from wakelog.log.entry import ContextEntry, Message
from wakelog.projections.context import Strategy, build_context, estimate_tokens, parse_strategy
from wakelog.testing.builders import SessionBuilder


def texts(story, plan="full"):
    return [message.content[0].text for message in build_context(story.session.branch(), plan).messages]


def talk(turns):
    story = SessionBuilder()
    for turn in range(turns):
        story.user(f"p{turn}")
        story.reply(f"r{turn}")
    return story


@pytest.mark.parametrize("text", ["full", "window:1", "window:50", "budget:100000"])
def test_strategies_are_written_as_they_are_read(text):
    """VIEW-1: the strategy that was used is in the log, so its text must say all of it."""
    assert str(parse_strategy(text)) == text


@pytest.mark.parametrize(
    "text", ["", "all", "window", "window:", "window:0", "window:-1", "budget:1.5", "window:²", "full:1"]
)
def test_invalid_strategies(text):
    with pytest.raises(UsageError):
        parse_strategy(text)


def test_full_is_everything():
    assert texts(talk(3)) == ["p0", "r0", "p1", "r1", "p2", "r2"]


def test_a_window_drops_in_strides():
    """Law 8: with a window of 4 the start moves by 2."""
    kept = [texts(talk(turns), "window:4") for turns in (1, 2, 3, 4)]
    assert kept == [["p0", "r0"], ["p0", "r0", "p1", "r1"], ["p1", "r1", "p2", "r2"], ["p2", "r2", "p3", "r3"]]


def test_a_budget_drops_in_strides():
    """VIEW-1: a budget counts tokens, not messages."""
    story = SessionBuilder()
    for _ in range(10):
        story.user("x" * 40)
    assert [build_context(story.session.branch(), f"budget:{size}").tokens for size in (1000, 100, 60, 20)] == [
        100,
        100,
        40,
        20,
    ]


def test_a_budget_holds_where_a_long_message_is_among_short_ones():
    """VIEW-1: a message that does not fit beside the newest one is left out, and not sent again and again."""
    story = SessionBuilder()
    story.user("x" * 16_000)
    for turn in range(13):
        story.reply(f"r{turn}")
        story.user(f"p{turn}")
        context = build_context(story.session.branch(), "budget:1000")
        assert (context.tokens <= 1000, context.over_limit) == (True, 0)
    assert len(context.messages) == 26


def test_a_group_larger_than_the_budget_is_sent_alone():
    """VIEW-1: the newest reply with its results is not separated; nothing else, also no summary, is sent with it."""
    story = SessionBuilder()
    story.user("old")
    story.session.compact("s" * 80)
    story.user("Look.")
    reply = story.reply("", calls=[("t1", "look", {})])
    story.result(reply, "t1", "x" * 400)
    context = build_context(story.session.branch(), "budget:60")
    assert [message.role for message in context.messages] == ["assistant", "toolResult"]
    assert context.over_limit == context.tokens - 60 > 0
    story.user("And now?")
    after = build_context(story.session.branch(), "budget:60")
    assert (texts(story, "budget:60"), after.over_limit) == (["s" * 80, "And now?"], 0)


def test_a_summary_larger_than_the_budget_is_left_out():
    """VIEW-1: else every request would be the newest group alone."""
    story = SessionBuilder()
    story.user("old")
    story.session.compact("s" * 400)
    for _ in range(3):
        story.user("x" * 40)
    assert build_context(story.session.branch(), "budget:50").tokens == 30


def test_the_summary_counts_towards_the_budget():
    story = SessionBuilder()
    story.user("old")
    story.session.compact("s" * 80)
    for _ in range(10):
        story.user("x" * 40)
    shown = build_context(story.session.branch(), "budget:60")
    assert shown.messages[0].content[0].text == "s" * 80
    assert shown.tokens <= 60


def test_unknown_parts_stay_out():
    """VIEW-2: an unknown part is in the log, not in the request."""
    story = SessionBuilder()
    line = {"type": "message", "message": {"role": "user", "content": [{"type": "unknown", "part": 1}]}}
    story.session.append(msgspec.convert(line, Message))
    story.user("hi")
    assert texts(story) == ["hi"]


def test_the_settings_in_force():
    """Law 2: system, tools and parameters come from the last context entry of the branch."""
    story = SessionBuilder()
    blob = BlobRef(digest="sha256:1", bytes=3)
    first = story.session.append(ContextEntry(system=blob, params={"temperature": 0}))
    story.user("hi")
    story.session.append(ContextEntry(tools=blob))
    assert (build_context(story.session.branch()).system, build_context(story.session.branch()).tools) == (None, blob)
    assert build_context(story.session.branch(first.id)).params == {"temperature": 0}


def test_different_contexts_have_different_digests():
    """VIEW-9: the digest covers messages, system, tools and parameters, and no entry ids."""
    one, other = talk(1), talk(1)
    assert build_context(one.session.branch()).digest == build_context(other.session.branch()).digest
    seen = {build_context(one.session.branch()).digest}
    for body in (
        Message(message=Prompt(content=(Text(text="p"),))),
        ContextEntry(params={"a": 1}),
        ContextEntry(system=BlobRef(digest="sha256:1", bytes=1)),
        ContextEntry(tools=BlobRef(digest="sha256:1", bytes=1)),
    ):
        one.session.append(body)
        seen.add(build_context(one.session.branch()).digest)
    assert len(seen) == 5


def test_tokens_are_estimated_from_bytes():
    """Law 11: ceil(UTF-8 bytes / 4), a fixed figure per image, never a tokenizer that may change."""
    assert estimate_tokens((Text(text="abcde"),)) == 2
    assert estimate_tokens((Text(text="🦀"), Text(text="é"))) == 2
    assert estimate_tokens((Thinking(thinking="abcd"), ToolCall(id="t", name="ls", input={"a": 1}))) == 4
    assert estimate_tokens((Image(mime_type="image/png"),)) == 1_500
    assert estimate_tokens(()) == 0


def test_a_strategy_is_a_value():
    assert Strategy("window", 4) == parse_strategy("window:4")
    assert texts(talk(3), Strategy("window", 4)) == texts(talk(3), "window:4")
