"""RUN-6: functions as tools: return values and exceptions are outcomes, and receipts answer for started calls."""

import asyncio
import sys
import threading

import pytest

from tests.patience import PATIENCE_S
from tests.tools.asking import ask, begun, invocation, perform, refusal
from wakelog.errors import StoreError, UsageError
from wakelog.ports.runtime import ToolInvocation, ToolOutcome
from wakelog.tools.function_tool import by_name, tool


@tool
def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b


def test_the_default_replay_word_is_never():
    """Law 6: without a replay word, a tool is never run twice."""
    assert (add.name, add.description, add.replay) == ("add", "Adds.", "never")
    assert ask(add, a=1) == ToolOutcome("2")
    assert add(1, b=3) == 4


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ({"b": 1, "a": [None, True]}, '{"a":[null,true],"b":1}'),
        (None, "null"),
        (ToolOutcome("told", is_error=True), ToolOutcome("told", is_error=True)),
        ("odd \udc80", "odd \\udc80"),
    ],
)
@pytest.mark.parametrize("waits", [True, False])
def test_return_values_become_text(value, text, waits):
    async def slow():
        return value

    def quick():
        return value

    assert ask(tool(slow if waits else quick)) == (text if isinstance(text, ToolOutcome) else ToolOutcome(text))


def test_a_return_value_that_is_not_json_is_an_error():
    def odd():
        return object()

    assert ask(tool(odd)).is_error


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration("no"), SystemExit("no"), KeyError("no")])
@pytest.mark.parametrize("waits", [True, False])
def test_exceptions_become_outcomes(error, waits):
    """A tool raises nothing: not even exceptions that would leave a thread or an event loop waiting for ever."""

    async def slow():
        raise error

    def quick():
        raise error

    outcome = ask(tool(slow if waits else quick))
    assert outcome.is_error
    # A coroutine turns StopIteration into a RuntimeError.
    assert outcome.text.startswith((f"{type(error).__name__}: ", "RuntimeError: coroutine raised StopIteration"))


def test_a_refusal_has_the_message_of_the_author():
    def picky():
        raise UsageError("not on Sundays")

    assert refusal(tool(picky)) == "not on Sundays"


def test_bad_arguments_never_reach_the_function():
    calls = []

    @tool(name="seen-it")
    def seen(a: int):
        calls.append(a)

    assert refusal(seen, a="x").startswith("bad arguments")
    assert (calls, seen.name) == ([], "seen-it")


def test_a_wrapped_async_function_is_awaited():
    async def inner():
        return "from inside"

    def outer():
        return inner()

    assert ask(tool(outer)) == ToolOutcome("from inside")


def test_the_invocation_is_given_and_shows_from_the_loops_thread():
    threads, pieces = set(), []

    @tool
    def talk(word: str, call: ToolInvocation):
        call.show(word)
        call.show("!")
        return call.tool_call_id

    def show(text):
        threads.add(threading.current_thread())
        pieces.append(text)

    outcome = asyncio.run(perform(talk, invocation(show, word="hello")))
    assert (outcome.text, pieces, threads) == ("call-1", ["hello", "!"], {threading.main_thread()})


@pytest.mark.parametrize("waits", [True, False])
def test_a_failing_output_callback_is_not_an_outcome_of_the_tool(waits):
    """Law 5: output that could not be journaled was not shown, and the run ends with the callback's own error."""

    async def slow(call: ToolInvocation):
        call.show("x")
        return "done"

    def quick(call: ToolInvocation):
        call.show("x")
        return "done"

    def show(text):
        raise StoreError("the disk is full")

    with pytest.raises(StoreError):
        asyncio.run(perform(tool(slow if waits else quick), invocation(show)))


def test_an_abandoned_thread_shows_nothing_after_a_cancel():
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    pieces: list[str] = []

    @tool
    def stubborn(call: ToolInvocation):
        began.set()
        go_on.wait(PATIENCE_S)
        call.show("too late")
        ended.set()

    async def main():
        task = asyncio.create_task(stubborn.run(invocation(pieces.append)))
        await asyncio.to_thread(began.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        await asyncio.to_thread(ended.wait, 60)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert (ended.is_set(), pieces) == (True, [])


def test_cancelling_reaches_an_async_function():
    cleaned = []

    @tool
    async def waiting(call: ToolInvocation):
        try:
            call.show("")
            await asyncio.Event().wait()
        finally:
            cleaned.append(call.tool_call_id)

    async def main():
        begun = asyncio.Event()
        task = asyncio.create_task(waiting.run(invocation(lambda _: begun.set())))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert cleaned == ["call-1"]


# ── receipts ─────────────────────────────────────────────────────────────────────────────────────


def receipt_tool(answer=None, prepare=None):
    runs = []

    @tool(replay="receipt")
    def charge(amount: int):
        runs.append(amount)
        return "charged"

    if prepare:
        charge.prepare(prepare)

    @charge.receipt
    async def find(call: ToolInvocation):
        if isinstance(answer, Exception):
            raise answer
        return answer

    return charge, runs


def answered(made, **arguments):
    async def main():
        return await made.receipt(await begun(made, invocation(**arguments)))

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "heard"),
    [
        (ToolOutcome("charged"), ToolOutcome("charged")),
        ("not begun", "not begun"),
        ("cannot say", "cannot say"),
        ("no such word", "cannot say"),
        (None, "cannot say"),
        (RuntimeError("offline"), "cannot say"),
    ],
)
def test_the_three_answers_of_a_receipt(answer, heard):
    """RUN-6: done, not begun, unknown; a failing or invalid receipt gives unknown."""
    assert answered(receipt_tool(answer)[0], amount=1) == heard


def test_the_intent_is_the_return_value_of_prepare():
    async def prepare(call):
        return {"key": call.tool_call_id, 1: (2, 3)}

    made, _ = receipt_tool(prepare=prepare)
    assert asyncio.run(made.prepare(invocation(amount=1))) == {"key": "call-1", "1": [2, 3]}
    assert asyncio.run(receipt_tool()[0].prepare(invocation(amount=1))) == {}


@pytest.mark.parametrize(
    ("prepare", "arguments"),
    [
        (None, {"amount": "much"}),
        (lambda call: 1 / 0, {"amount": 1}),
        (lambda call: "no mapping", {"amount": 1}),
        (lambda call: {"a": object()}, {"amount": 1}),
    ],
)
def test_a_refusal_in_prepare_is_kept(prepare, arguments):
    """Law 6: a refusal is in the intent, so the run has no effect and the receipt gives the same answer."""
    made, runs = receipt_tool("not begun", prepare)
    outcome = ask(made, **arguments)
    assert outcome.is_error
    assert answered(made, **arguments) == outcome
    assert runs == []


def test_the_replay_word_receipt_needs_a_receipt_function():
    @tool(replay="receipt")
    def promise(): ...

    for use in (lambda: by_name([promise]), lambda: ask(promise), lambda: asyncio.run(promise.run(invocation()))):
        with pytest.raises(UsageError, match="no receipt function"):
            use()


def test_a_receipt_function_needs_the_replay_word_receipt():
    for register in (add.receipt, add.prepare):
        with pytest.raises(UsageError, match="receipt and prepare functions are never called"):
            register(lambda call: "not begun")
    assert asyncio.run(add.receipt(invocation(a=1))) == "cannot say"


def test_names_are_checked():
    with pytest.raises(UsageError, match="not a valid tool name"):
        tool(name="a b")(print_nothing)
    with pytest.raises(UsageError, match='replay must be "safe", "receipt" or "never", not '):
        tool(replay="sometimes")(print_nothing)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="two tools"):
        by_name([add, add])
    assert by_name([add]) == {"add": add}


def print_nothing():
    sys.stdout.write("")
