"""The demo model: it calls real tools in order, and reports their results."""

import asyncio
from typing import Any

import msgspec
import pytest

from tests.providers.asking import TOOLS, assistant, calls_of, deltas, request, result, text_of, user
from wakelog.log.content import Finished, TextDelta
from wakelog.ports.runtime import ToolInvocation
from wakelog.providers.demo import DemoProvider
from wakelog.tools import builtin_tools


def ask(*messages, tools=TOOLS, **more):
    return deltas(DemoProvider(), request(*messages, tools=tools, **more))


def run_turn(prompt, outcome, before=()):
    """Run a turn to its end as a runtime would: return the calls made, and the last text."""
    messages = [*before, user(prompt)]
    made: list[list[tuple[str, Any]]] = []
    for answers in range(20):
        answer = ask(*messages, answers=answers)
        assert isinstance(answer[-1], Finished)
        calls = calls_of(answer)
        if not calls:
            return made, text_of(answer)
        made.append([(call.name, call.input) for call in calls])
        messages.append(assistant(text_of(answer), *calls))
        for call in reversed(calls):
            text, is_error = outcome(call)
            messages.append(result(call, text, is_error=is_error))
    raise AssertionError("the turn does not end")


def fine(call):
    return f"the outcome of {call.name} {sorted(call.input.values())}", False


def test_a_turn_with_a_tool():
    """It calls the tool, and then reports its result."""
    made, text = run_turn("read notes.txt", lambda call: ("first\nsecond\n", False))
    assert made == [[("read", {"path": "notes.txt"})]]
    assert text == "Done: read notes.txt\n    first\n    second"


def test_steps_run_one_after_the_other():
    """Each step waits for the results of the one before; files named together are one step."""
    made, text = run_turn("read a and b, then run make", fine)
    assert made == [[("read", {"path": "a"}), ("read", {"path": "b"})], [("shell", {"command": "make"})]]
    # The results came in the other order: each is told with its own call.
    assert [line.strip() for line in text.splitlines()] == [
        "Done: read a",
        "the outcome of read ['a']",
        "Done: read b",
        "the outcome of read ['b']",
        "Done: run `make`",
        "the outcome of shell ['make']",
    ]


def test_an_earlier_turn_does_not_count():
    """The progress of a turn is counted from its own prompt."""
    (call,) = calls_of(ask(user("read a")))
    before = [user("read a"), assistant("", call), result(call, "x"), assistant("Done")]
    made, _ = run_turn("read a", fine, before=before)
    assert made == [[("read", {"path": "a"})]]


def test_it_stops_at_a_failed_step():
    """Law 6: a failed or unknown result is reported and not tried again."""
    made, text = run_turn("run make, then read log.txt", lambda call: ("unknown whether this ran", True))
    assert made == [[("shell", {"command": "make"})]]
    assert text == (
        "That did not work: run `make`\n    unknown whether this ran\nSo I stopped there. Not done: read log.txt."
    )


def test_a_call_without_a_result_is_reported_as_unknown():
    (call,) = calls_of(ask(user("run make")))
    assert text_of(ask(user("run make"), assistant("", call))) == "I do not know what came of this: run `make`."


def test_the_same_request_gets_the_same_reply():
    """Law 2: no state is kept between calls; ids of tool calls differ by position."""
    provider = DemoProvider()
    asked = request(user("read a and b"), tools=TOOLS, answers=4)
    assert deltas(provider, asked) == deltas(provider, asked) == deltas(DemoProvider(), asked)
    assert [call.id for call in calls_of(deltas(provider, asked))] == ["call_4_0", "call_4_1"]


def test_a_reply_can_be_resumed_at_every_position():
    """RUN-8: it declares that it can resume."""
    whole = text_of(ask(user("hello")))
    for said in range(len(whole) + 1):
        assert whole[:said] + text_of(ask(user("hello"), prefill=whole[:said])) == whole


def test_text_comes_in_small_pieces():
    pieces = [delta.text for delta in ask(user("hello")) if isinstance(delta, TextDelta)]
    assert len(pieces) > 5
    assert max(map(len, pieces)) <= 16


@pytest.mark.parametrize("prompt", ["hello", "run pwd and then dance"])
def test_an_unknown_prompt_gets_a_help_text(prompt):
    """Nothing is run, and three lines list what it understands."""
    answer = ask(user(prompt))
    assert calls_of(answer) == []
    assert text_of(answer).count("\n") == 2
    for words in ("read FILE", "run COMMAND", "ask an agent"):
        assert words in text_of(answer)


def test_the_help_text_names_declared_tools_only():
    """Without tools it says so."""
    text = text_of(ask(user("hello"), tools=TOOLS[:1]))
    assert "read FILE" in text
    assert "COMMAND" not in text
    assert "no tools" in text_of(ask(user("hello"), tools=()))


def test_a_missing_tool_is_named_before_any_call():
    answer = ask(user("read a, then run make and then ask an agent to rest"), tools=TOOLS[:1])
    assert calls_of(answer) == []
    assert "the tools agent, shell" in text_of(answer)
    assert "I only have read" in text_of(answer)
    assert "I have no tools" in text_of(ask(user("read a"), tools=()))


def test_a_tool_of_the_caller_can_be_called():
    weather = {"name": "weather", "description": "", "schema": {}}
    (call,) = calls_of(ask(user('use weather with {"town": "Rome"}'), tools=(weather,)))
    assert (call.name, call.input) == ("weather", {"town": "Rome"})


def test_long_results_are_shortened():
    made, text = run_turn("read a", lambda call: ("\n".join(["x" * 500] * 40), False))
    assert made
    assert text.endswith("(28 more lines)")
    assert len(text) < 12 * 200


def test_an_empty_result_is_reported():
    assert run_turn("run true", lambda call: ("\n", False))[1].endswith("    (nothing)")


def test_a_context_without_a_prompt():
    """A window may have dropped the prompt."""
    assert "did not understand" in text_of(ask(assistant("something")))


def test_a_summary_is_an_extract():
    """RUN-16: a compaction lists the prompts, the tools and the last result, and calls no tool."""
    (call,) = calls_of(ask(user("read a")))
    history = [user("read a " + "word " * 100), assistant("", call), result(call, "x" * 900), assistant("It is x.")]
    answer = ask(*history, user("Summarise: read b"), purpose="compaction")
    assert calls_of(answer) == []
    assert text_of(answer).split("\n") == [
        "What was asked:",
        "- read a " + "word " * 14 + "…",
        "Tools used: read (1).",
        "The last answer began: It is x.",
    ]


def test_a_summary_stays_short():
    """RUN-16: the length of a summary is limited, however long the session."""
    history = [message for number in range(500) for message in (user(f"{number} " + "y" * 999), assistant("z " * 99))]
    assert len(text_of(ask(*history, user("Summarise."), purpose="compaction"))) < 42 * 200
    assert text_of(ask(user("Summarise."), purpose="compaction")) == "Nothing was asked."


def test_with_the_real_tools(tmp_path):
    """It calls the built-in tools with their own argument names."""
    tools = {tool.name: tool for tool in builtin_tools(str(tmp_path))}

    def outcome(call):
        came = asyncio.run(really(tools[call.name], call))
        return came.text, came.is_error

    prompt = (
        'write "buy milk" to notes.txt, then replace milk with bread in notes.txt, then list, then search for bread, '
        "then count the words in notes.txt and read notes.txt"
    )
    made, text = run_turn(prompt, outcome)
    assert [name for step in made for name, _ in step] == ["write", "edit", "list", "grep", "shell", "read"]
    assert "That did not work" not in text
    assert text.endswith("Done: read notes.txt\n    buy bread")
    assert (tmp_path / "notes.txt").read_text() == "buy bread\n"


async def really(tool, call):
    """Run a call as the runtime does: with the intent of `prepare`."""
    asked = ToolInvocation(reply_id="r1", tool_call_id=call.id, arguments=call.input)
    intent = await tool.prepare(asked)
    return await tool.run(msgspec.structs.replace(asked, intent=intent))
