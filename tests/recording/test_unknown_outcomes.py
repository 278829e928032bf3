"""RUN-26: an unknown outcome is shown to people until one of them answers it; the answer is told to the model."""

import pytest

from tests.recording.test_recording import asking
from wakelog.decide import wording
from wakelog.errors import NotFound
from wakelog.log.content import Reply, ToolCall, ToolResult
from wakelog.log.entry import AttentionResolved, Message
from wakelog.overviews import read_overview
from wakelog.projections.branch_state import IMPORTED_SETTING
from wakelog.projections.overview import overview
from wakelog.session import Session

CALL = ToolCall(id="c1", name="pay", input={"amount": 5})
RAN = wording.OUTCOME_RAN.format(call='pay({"amount":5})')


@pytest.fixture
def doubtful(store, session):
    """A recovered session: its program stopped while a tool ran."""
    session.user("pay")
    session.assistant(Reply(content=(CALL,)))
    session.tool(CALL).__enter__()
    session.close()
    with Session.get(store, session.name) as again:
        again.recover()
        again.assistant("It may have been paid.")
        yield again


def texts(session):
    return ["".join(part.text for part in message.content) for message in session.messages() if message.role == "user"]


def marked(session):
    """Return the number of unknown outcomes, which is the same from the tail, the whole log, a stream and a list."""
    store, name = session.store, session.name
    tail, whole = overview(Session.get(store, name).tree), overview(session.read().tree)
    assert tail.unknown_outcomes == whole.unknown_outcomes == read_overview(store, name).unknown_outcomes
    return whole.unknown_outcomes


def test_it_is_shown_until_a_person_answers(doubtful):
    """RUN-26: neither time nor a new message answers it; the state stays idle."""
    (found,) = doubtful.unknown_outcomes()
    assert (found.tool, found.input, found.reason) == ("pay", {"amount": 5}, "outcome")
    assert doubtful.questions() == ()
    doubtful.user("and?")
    doubtful.assistant("I do not know.")
    assert (marked(doubtful), overview(doubtful.tree).state) == (1, "idle")
    found.answer("ran")
    assert (marked(doubtful), doubtful.unknown_outcomes()) == (0, ())
    with pytest.raises(NotFound):
        found.answer("did not run")


def test_the_answer_is_told_once(doubtful):
    """Law 8: it is a new message behind those that were sent; later prompts do not repeat it."""
    before = doubtful.messages()
    (found,) = doubtful.unknown_outcomes()
    found.answer("result", result="Two of three were paid.")
    assert doubtful.messages() == before
    doubtful.user("and?")
    doubtful.assistant("I see.")
    doubtful.user("Go on.")
    said = wording.OUTCOME_SAID.format(call='pay({"amount":5})', said="Two of three were paid.")
    assert texts(doubtful) == ["pay", "and?", said, "Go on."]
    assert doubtful.messages()[: len(before)] == before


def test_a_dismissal_tells_the_model_nothing(doubtful):
    (found,) = doubtful.unknown_outcomes()
    found.answer("dismiss")
    doubtful.user("and?")
    assert (marked(doubtful), texts(doubtful)) == (0, ["pay", "and?"])


def test_a_compaction_carries_it(doubtful):
    """VIEW-4, RUN-26: the result is then in no tail; its input is still shown, and it can be answered."""
    doubtful.compact("They talked about a payment.")
    assert Session.get(doubtful.store, doubtful.name).tree.partial
    (found,) = doubtful.unknown_outcomes()
    assert (marked(doubtful), found.input) == (1, {"amount": 5})
    found.answer("ran")
    doubtful.compact("They talked about it again.")
    assert marked(doubtful) == 0
    doubtful.user("and?")
    assert texts(doubtful)[-1] == RAN
    doubtful.compact("Told.")
    doubtful.assistant("I see.")
    doubtful.user("Go on.")
    assert texts(doubtful) == ["Told.", "Go on."]


def test_it_stays_where_the_head_is_moved(doubtful):
    """Law 6: the effect of a tool is not undone by going back."""
    first = next(entry for entry in doubtful.entries() if entry.type == "message")
    doubtful.move_head(first.id)
    assert marked(doubtful) == 1
    doubtful.unknown_outcomes()[0].answer("did not run")
    assert marked(doubtful) == 0


def test_it_can_be_dismissed_after_the_end(doubtful):
    """RUN-26: a mark of a terminated session does not stay for ever."""
    doubtful.end()
    doubtful.close()
    assert marked(doubtful) == 1
    Session.get(doubtful.store, doubtful.name).unknown_outcomes()[0].answer("dismiss")
    assert marked(doubtful) == 0


def test_a_fork_has_its_own(doubtful):
    """TREE-4: inherited ones stay with the parent; a call that was open at the fork is one of the fork."""
    assert doubtful.fork().unknown_outcomes() == ()
    doubtful.user("again")
    doubtful.assistant(asking(("c2", "mail")))
    doubtful.tool("c2").__enter__()
    child = doubtful.fork()
    assert [found.tool for found in child.unknown_outcomes()] == ["mail"]
    assert marked(child) == 1
    assert [found.tool for found in doubtful.unknown_outcomes()] == ["pay"]


def test_history_of_another_agent_asks_nothing(store):
    """RUN-26: an imported result is of a tool that another program ran."""
    session = Session.create(store, agent="other", settings={IMPORTED_SETTING: "claude-code"})
    session.append(Message(message=Reply(content=(CALL,))))
    session.append(Message(message=ToolResult(tool_call_id="c1", tool_name="pay", status="unknown", content="?")))
    assert marked(session) == 0


def test_an_answer_to_something_else_changes_nothing(doubtful):
    """Law 2: decisions about other entries, known or not, leave it open."""
    other = next(entry for entry in doubtful.entries() if entry.type == "message")
    for named in (other.id, "nothing"):
        doubtful.append(AttentionResolved(attention_id=named, decision="dismiss"))
    assert marked(doubtful) == 1
