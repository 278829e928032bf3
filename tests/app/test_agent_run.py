"""`Agent.stream`, `run` and `wake` from the outside: typed events, results, questions answered now or later."""

import asyncio
import contextlib
import itertools

import pytest

from wakelog import (
    Agent,
    Faulted,
    Finished,
    Policy,
    Question,
    Restarted,
    RunResult,
    Session,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolFinished,
    ToolStarted,
    Usage,
    UsageError,
    WakelogError,
    open_store,
)
from wakelog.journals import read_journals
from wakelog.reading import read_log
from wakelog.runtime.replay.verification import replay


class Script:
    """A provider that yields the given deltas, one list for each model call."""

    name = "script"
    can_resume = False

    def __init__(self, *calls):
        self.calls = list(calls)

    async def stream(self, request):
        for delta in self.calls.pop(0):
            yield delta


PAY = ToolCallDelta("c1", "pay", {"euros": 3})
END = Finished("stop", Usage(input_tokens=1, output_tokens=2))
TWO_CALLS = ([ThinkingDelta("hm"), TextDelta("I will "), TextDelta("pay."), PAY, END], [TextDelta("Paid."), END])
ASKING = Policy(approvals={"pay": "ask"})


@pytest.fixture
def store():
    return open_store("memory:")


@pytest.fixture
def paid():
    return []


@pytest.fixture
def agent_with(paid):
    def pay(euros: int) -> str:
        """Pays."""
        paid.append(euros)
        return f"paid {euros}"

    def make(*calls, policy=None):
        return Agent("script:m", tools=[pay], provider=Script(*calls), policy=policy or Policy())

    return make


async def _collect(events):
    return [event async for event in events]


def test_the_events_of_a_run(store, agent_with, paid):
    """RUN-8: text, reasoning, tools and the result, in the order in which they happened."""
    events = asyncio.run(_collect(agent_with(*TWO_CALLS).stream(store, "Pay 3 euros.", sender="ada")))
    # Redaction may hold back the end of a piece, so there may be more pieces than the model sent.
    kinds = [kind for kind, _ in itertools.groupby(type(event) for event in events)]
    assert kinds == [ThinkingDelta, TextDelta, ToolStarted, ToolFinished, TextDelta, RunResult]
    (started,) = [event for event in events if isinstance(event, ToolStarted)]
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    result = events[-1]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "I will pay.Paid."
    assert (started.call.name, started.call.input) == ("pay", {"euros": 3})
    assert (finished.call, finished.result.text, finished.result.effective_status) == (started.call, "paid 3", "ok")
    assert (result.text, result.state, result.error, result.usage.output_tokens) == ("Paid.", "idle", None, 4)
    assert isinstance(result.session, Session)
    assert (result.session.tree.header.sender, paid) == ("ada", [3])


def test_an_event_is_in_the_log_or_the_journal_before_it_is_yielded(store, agent_with):
    """Law 5: nothing is displayed that a crash could lose."""

    async def run():
        session = None
        shown = ""
        async for event in agent_with(*TWO_CALLS).stream(store, "Pay.", session=(begun := agent_with().begin(store))):
            session = begun
            kept = [entry.raw for entry in read_log(store, session.name).entries]
            if isinstance(event, TextDelta):
                shown += event.text
                journals = read_journals(store, session.name).partials
                texts = b" ".join(kept).decode() + str(journals)
                assert event.text in texts
            elif isinstance(event, ToolStarted):
                assert any(b'"tool_started"' in line for line in kept)
            elif isinstance(event, ToolFinished):
                assert any(b'"toolResult"' in line for line in kept)
        assert shown == "I will pay.Paid."

    asyncio.run(run())


def test_a_repeated_model_call_makes_its_pieces_void(store, agent_with):
    """RUN-12: a reply that broke off and is repeated is marked, so that a display can start it again."""
    broken = [TextDelta("Hal lo "), Faulted("overloaded", "try later", retryable=True, delay_ms=0)]
    events = asyncio.run(_collect(agent_with(broken, [TextDelta("Hal lo there."), END]).stream(store, "Hi.")))
    (at,) = [at for at, event in enumerate(events) if isinstance(event, Restarted)]
    assert "Hal lo there.".startswith("".join(event.text for event in events[:at]))
    assert "".join(event.text for event in events[at + 1 : -1]) == "Hal lo there."
    assert events[-1].text == "Hal lo there."


def test_a_question_is_answered_during_the_run(store, agent_with, paid):
    """RUN-13: an answer before the next event continues the run in the same call."""

    async def run():
        kinds = []
        async for event in agent_with(*TWO_CALLS, policy=ASKING).stream(store, "Pay."):
            kinds.append(type(event).__name__)
            if isinstance(event, Question):
                assert (event.tool, event.input, event.reason, paid) == ("pay", {"euros": 3}, "approve", [])
                event.answer("approve")
        return kinds, event

    kinds, result = asyncio.run(run())
    assert (kinds.count("Question"), paid, result.state, result.text) == (1, [3], "idle", "Paid.")
    assert result.usage.output_tokens == 4


def test_a_question_is_answered_later(store, agent_with, paid):
    """RUN-13: the result lists what is asked; the session waits in the log until a person has answered."""
    agent = agent_with(*TWO_CALLS, policy=ASKING)
    result = agent.run_sync(store, "Pay.")
    assert (result.state, [question.tool for question in result.questions], paid) == ("waiting", ["pay"], [])
    (question,) = Session.get(store, result.session.name).questions()
    question.answer("deny")
    with pytest.raises(WakelogError, match="no open question"):
        question.answer("approve")
    again = agent.run_sync(store, session=result.session)
    assert (again.state, again.text, paid, again.questions) == ("idle", "Paid.", [], ())


@pytest.mark.parametrize(("answer", "effects"), [(True, [3]), (False, []), ("approve", [3]), ("deny", [])])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_question_is_answered_by_a_function(store, agent_with, paid, answer, effects, is_async):
    """RUN-13: a function of the program decides; it may be a coroutine function."""
    asked = []

    def decide(question):
        asked.append(question.tool)
        return answer

    async def decide_later(question):
        return decide(question)

    agent = agent_with(*TWO_CALLS, policy=ASKING)
    result = agent.run_sync(store, "Pay.", on_question=decide_later if is_async else decide)
    assert (result.state, result.text, paid, asked) == ("idle", "Paid.", effects, ["pay"])
    assert asyncio.run(replay(store, result.session.name)).ok


def test_a_function_may_leave_a_question_open(store, agent_with, paid):
    """RUN-13: None is no decision; the question is asked once and stays in the log."""
    asked: list[Question] = []
    result = agent_with(*TWO_CALLS, policy=ASKING).run_sync(store, "Pay.", on_question=asked.append)
    assert (result.state, len(asked), len(result.questions), paid) == ("waiting", 1, 1, [])


def test_an_answer_that_is_no_choice_is_refused(store, agent_with, paid):
    """A mistake of the program is named, nothing is decided, and nothing is lost."""
    agent = agent_with(*TWO_CALLS, policy=ASKING)
    session = agent.begin(store)
    with pytest.raises(UsageError, match=r"'maybe' is not possible.*approve, deny"):
        agent.run_sync(store, "Pay.", session=session, on_question=lambda _: "maybe")
    assert (paid, len(session.questions())) == ([], 1)


def test_one_step_at_a_time(store, agent_with, paid):
    """RUN-1: a step takes a session id, loads, acts and appends; every step may be taken by another agent object."""
    session = agent_with().begin(store)
    session.say("Pay.")
    provider = agent_with(*TWO_CALLS).provider
    rules: list[str] = []
    for _ in range(20):
        agent = Agent("script:m", tools=agent_with().tools, provider=provider)
        result = asyncio.run(agent.wake(store, session.id, steps=1))
        rules += result.report.rules
        if result.state == "idle":
            break
    assert (result.text, result.state, paid, len(rules) > 2) == ("Paid.", "idle", [3], True)


def test_a_stream_that_is_closed_leaves_a_session_to_continue(store, agent_with, paid):
    """RUN-2: leaving the loop stops the run like a crash; the next run completes it and pays once."""
    agent = agent_with(*TWO_CALLS, TWO_CALLS[1])
    session = agent.begin(store)

    async def leave():
        async with contextlib.aclosing(agent.stream(store, "Pay.", session=session)) as events:
            async for event in events:
                if isinstance(event, ToolFinished):
                    break

    asyncio.run(leave())
    assert store.held(session.name) is None
    result = agent.run_sync(store, session=session)
    assert (result.text, result.state, paid) == ("Paid.", "idle", [3])


def test_the_result_of_a_failed_turn_has_no_text_of_an_earlier_one(store, agent_with):
    """RUN-12: `text` belongs to this turn, and the error is in the result."""
    agent = agent_with([TextDelta("Hello."), END], [Faulted("auth", "the key was refused")])
    first = agent.run_sync(store, "Hi.")
    second = agent.run_sync(store, "Again.", session=first.session)
    assert (first.text, second.text, second.state, second.error.message) == (
        "Hello.",
        "",
        "failed",
        "the key was refused",
    )


def test_a_run_without_a_prompt_and_a_session_is_a_mistake(store, agent_with):
    with pytest.raises(UsageError, match=r"no prompt and no session.*pass a prompt"):
        agent_with().run_sync(store)


def test_an_error_of_the_run_is_raised_by_the_stream(store, agent_with):
    """What `wake` raises reaches the loop over the events, after the events that came before it."""

    class Refusing(Script):
        def stream(self, request):
            raise UsageError("this provider refuses")

    agent = Agent("script:m", provider=Refusing())
    with pytest.raises(UsageError, match="refuses"):
        asyncio.run(_collect(agent.stream(store, "Hi.")))


def test_many_sessions_in_one_event_loop(store, agent_with):
    """RUN-2: runs of different sessions share an event loop; each gets its own events."""

    async def run_all():
        agents = [agent_with([TextDelta(f"Hello {number}."), END]) for number in range(20)]
        runs = [agent.run(store, "Hi.", sender=f"s{number}") for number, agent in enumerate(agents)]
        return await asyncio.gather(*runs)

    results = asyncio.run(run_all())
    assert [result.text for result in results] == [f"Hello {number}." for number in range(20)]
    assert len({result.session.name for result in results}) == 20
