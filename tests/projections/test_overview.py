"""The overview of a session, and the one word for its state (VIEW-8, ST-3, ST-4)."""

import pytest

from wakelog.log.content import Note, Reply, Text, Usage
from wakelog.log.entry import Attention, Cancelled, Failed, Message, Queued, SendFailed, Sent, Setting, Terminated
from wakelog.projections.branch_state import IMPORTED_SETTING
from wakelog.projections.overview import overview
from wakelog.testing.builders import SessionBuilder


def state(*bodies, **given):
    story = SessionBuilder()
    story.user("go")
    story.reply("done")
    for body in bodies:
        story.session.append(body)
    return overview(story.session.tree, **given).state


@pytest.mark.parametrize(
    ("bodies", "given", "word"),
    [
        ((), {}, "idle"),
        ((Cancelled(),), {}, "idle"),
        ((Failed(),), {}, "failed"),
        ((Queued(),), {}, "pending"),
        ((Attention(),), {}, "waiting"),
        ((), {"held": True}, "running"),
        ((Attention(),), {"damaged": True}, "damaged"),
        ((Queued(), Terminated()), {"held": True, "damaged": True}, "terminated"),
    ],
)
def test_state_words(bodies, given, word):
    """VIEW-8: idle, pending, waiting, running, failed, damaged, terminated; the gravest wins."""
    assert state(*bodies, **given) == word


def test_an_unanswered_session():
    story = SessionBuilder()
    assert overview(story.session.tree).state == "idle"
    story.user("go")
    assert overview(story.session.tree).state == "pending"


def test_an_undelivered_reply():
    """RUN-23: a session with only a reply to send is undelivered; any other work comes first."""
    story = SessionBuilder()
    story.user("go")
    call = story.call("r1", channels=["bot", "terminal"])
    story.session.append(Message(id="r1", message=Reply(content=(Text(text="done"),), call_id=call.value.call_id)))
    found = overview(story.session.tree)
    assert (found.state, found.undelivered) == ("undelivered", 2)
    story.session.append(Sent(reply_id="r1", channel="bot"), at="r1")
    story.session.append(SendFailed(reply_id="r1", channel="terminal"), at="r1")
    found = overview(story.session.tree)
    assert (found.state, found.undelivered) == ("undelivered", 1)
    story.user("more")
    assert overview(story.session.tree).state == "pending"
    story.reply("more")
    story.session.append(Sent(reply_id="r1", channel="terminal"), at="r1")
    assert overview(story.session.tree).state == "idle"


def test_the_overview():
    """ST-4: title and archive state are the latest written; usage and counts are those of all branches."""
    story = SessionBuilder()
    first = story.user("one")
    story.reply("a", usage=Usage(input_tokens=5, cost_micros=1))
    story.reply("b", at=first.id, usage=Usage(input_tokens=7, cost_micros=2))
    story.session.rename("Draft")
    story.session.rename("Final")
    story.session.archive()
    found = overview(story.session.tree)
    assert (found.title, found.archived, found.agent, found.sender, found.number) == ("Final", True, "crab", "user", 1)
    assert (found.entries, found.messages, found.calls, found.usage.input_tokens) == (7, 3, 2, 12)
    assert found.model == "example"
    story.session.archive(archived=False)
    assert not overview(story.session.tree).archived


def imported():
    """A session imported from another tool, with an answered prompt."""
    story = SessionBuilder()
    story.session.append(Setting(key=IMPORTED_SETTING, value="claude-code"))
    story.user("go")
    story.reply("done")
    return story


def test_a_record_of_another_tool_asks_for_no_answer():
    """ST-4: an imported session that ended with `/exit` is idle; a prompt, or a note of an extension, is pending."""
    story = imported()
    story.session.append(Message(message=Note(content="/exit", custom_type="claude-code:command")))
    assert overview(story.session.tree).state == "idle"
    story.session.append(Message(message=Note(content="a timer rang", custom_type="timer")))
    assert overview(story.session.tree).state == "pending"


def test_an_old_open_tool_call_does_not_interrupt_a_session():
    """ST-4: the conversation went on without its result; a call of the last reply is a turn that has not ended."""
    story = imported()
    story.user("list the files")
    story.reply("I look", calls=[("t1", "ls", {})])
    assert overview(story.session.tree).state == "interrupted"
    story.user("never mind")
    assert overview(story.session.tree).state == "interrupted"
    story.reply("all right")
    found = overview(story.session.tree)
    assert (found.state, found.open_calls) == ("idle", 1)
