"""Questions in the chat: every answer of a question can be typed, and a message is not taken for one (RUN-13)."""

import pytest

from wakelog.cli.chat.questions import OpenQuestions, answer_lines
from wakelog.cli.ui.session_run import ANSWER_KEYS, unknown_outcomes_text
from wakelog.cli.ui.terminal import TerminalStyle
from wakelog.log.content import Reply, ToolCall
from wakelog.log.entry import Attention
from wakelog.questions import Question
from wakelog.session import Session
from wakelog.stores import open_store

QUESTIONS = [(reason, key, word) for reason, (_, answers) in ANSWER_KEYS.items() for key, word in answers.items()]


def asked(story, reason):
    attention = Attention(id="a1", parent_id=story.session.tree.head, reason=reason)
    return Question(story.session, attention)


@pytest.mark.parametrize(("reason", "key", "word"), QUESTIONS)
def test_every_answer_is_offered_and_taken(story, reason, key, word):
    """Law 6: also where a reply is lost, and the tools it called may have run."""
    asking = OpenQuestions()
    asking.unanswered = [asked(story, reason)]
    asking.mark_seen()
    assert asking.accepts(f" {key.upper()} "), word
    (line,) = answer_lines(TerminalStyle(width=200), asking.unanswered[0], is_answerable=True)
    assert f"[{key}] " in line
    assert not line.startswith(":")


@pytest.mark.parametrize("reason", ANSWER_KEYS)
def test_a_message_is_not_an_answer(story, reason):
    asking = OpenQuestions()
    asking.unanswered = [asked(story, reason)]
    asking.mark_seen()
    assert not asking.accepts("hello")


def test_unknown_outcomes_are_announced_and_asked_on_request(tmp_path):
    """RUN-26: they hold up nothing; `/questions` asks about them, and a letter dismisses one."""
    store = open_store(f"{tmp_path}/s")
    with Session.create(store) as session:
        session.user("pay")
        session.assistant(Reply(content=(ToolCall(id="c1", name="pay", input={"amount": 5}),)))
        session.tool("c1").__enter__()
    with Session.get(store, session.name) as again:
        again.recover()
    asking = OpenQuestions()
    asking.update(again)
    announced = asking.take_new_outcomes()
    assert '1 tool call may have run: pay({"amount":5}); /questions answers' in unknown_outcomes_text(
        announced, "/questions"
    )
    assert not asking.take_new_outcomes()
    assert not asking.is_answerable
    asking.reset()
    assert asking.current == announced[0]
    asking.mark_seen()
    assert not asking.answer(again, "d"), "there is nothing to continue"
    asking.update(again)
    assert not asking.outcomes
