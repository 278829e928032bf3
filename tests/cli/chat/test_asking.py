"""Questions in the chat: every answer that a question has can be typed, and a message is not taken for one (RUN-13)."""

import pytest

from wakelog.cli.chat.asking import Asking, ask_lines
from wakelog.cli.draw import Look
from wakelog.cli.questions import ANSWERS, Waiting
from wakelog.log.entry import Attention
from wakelog.runtime.user_actions import Question

QUESTIONS = [(reason, key, word) for reason, (_, answers) in ANSWERS.items() for key, word in answers.items()]


def asked(story, reason):
    attention = Attention(id="a1", parent_id=story.session.tree.head, reason=reason)
    return Waiting(story.session, Question(attention))


@pytest.mark.parametrize(("reason", "key", "word"), QUESTIONS)
def test_every_answer_is_offered_and_taken(story, reason, key, word):
    """Law 6: also where a reply is lost, and the tools it called may have run."""
    asking = Asking()
    asking.left = [asked(story, reason)]
    asking.see()
    assert asking.takes(f" {key.upper()} "), word
    (line,) = ask_lines(Look(width=200), asking.left[0], is_open=True)
    assert f"[{key}] " in line
    assert not line.startswith(":")


@pytest.mark.parametrize("reason", ANSWERS)
def test_a_message_is_no_answer(story, reason):
    asking = Asking()
    asking.left = [asked(story, reason)]
    asking.see()
    assert not asking.takes("hello")
