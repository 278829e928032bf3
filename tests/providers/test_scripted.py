"""The scripted model: the same position in the script gives the same reply."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.asking import assistant, calls_of, deltas, request, text_of, thinking_of, user
from wakelog.errors import UsageError
from wakelog.log.content import Faulted, Finished, TextDelta, ThinkingDelta, ToolCallDelta, Usage
from wakelog.projections.context import estimate_tokens, message_tokens
from wakelog.providers.scripted import ScriptedProvider


def write(tmp_path, *lines):
    script = tmp_path / "script.jsonl"
    script.write_bytes(b"".join(line.encode() + b"\n" for line in lines))
    return str(script)


def test_the_order_of_deltas():
    """Reasoning, text, tool calls, the end."""
    calls = [{"name": "read", "input": {"path": "a"}}, {"name": "list"}, {"name": "list", "id": "mine"}]
    provider = ScriptedProvider([{"text": "abcdef", "thinking": "hm", "toolCalls": calls, "deltaChars": 4}])
    *answer, finished = deltas(provider, request())
    assert answer == [
        ThinkingDelta("hm"),
        TextDelta("abcd"),
        TextDelta("ef"),
        ToolCallDelta("call_0_0", "read", {"path": "a"}),
        ToolCallDelta("call_0_1", "list", {}),
        ToolCallDelta("mine", "list", {}),
    ]
    assert finished.stop_reason == "tools"


@given(st.text(max_size=60), st.text(max_size=60), st.integers(1, 70))
def test_the_pieces_are_the_whole_text(text, thinking, size):
    """RUN-10: splitting a reply loses and adds nothing, and no piece is longer than `deltaChars`."""
    provider = ScriptedProvider([{"text": text, "thinking": thinking, "deltaChars": size}])
    answer = deltas(provider, request())
    assert (text_of(answer), thinking_of(answer)) == (text, thinking)
    pieces = [delta.text for delta in answer if isinstance(delta, TextDelta)]
    assert all(len(piece) == size for piece in pieces[:-1])
    assert all(0 < len(piece) <= size for piece in pieces)


def test_the_position_comes_from_the_request():
    """Law 2: the provider keeps no count; in any order, a request gets the reply of its position."""
    provider = ScriptedProvider([{"text": word, "toolCalls": [{"name": "read"}]} for word in ("one", "two", "three")])
    for place in (2, 0, 1, 1, 0):
        answer = deltas(provider, request(answers=place))
        assert text_of(answer) == ("one", "two", "three")[place]
        assert calls_of(answer)[0].id == f"call_{place}_0"


def test_concurrent_streams_are_independent():
    """Law 2."""
    provider = ScriptedProvider([{"text": "a" * 40, "deltaChars": 3}, {"text": "b" * 40, "deltaChars": 3}])

    async def collect(place):
        return [delta async for delta in provider.stream(request(answers=place))]

    async def both():
        return await asyncio.gather(collect(0), collect(1))

    assert [text_of(answer) for answer in asyncio.run(both())] == ["a" * 40, "b" * 40]


def test_delays_are_between_deltas(monkeypatch):
    """`delayMs` between two deltas; without one other tasks still run in between."""
    slept = []
    real = asyncio.sleep

    async def sleep(seconds):
        slept.append(seconds)
        await real(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    replies = [{"text": "abcdef", "deltaChars": 2, "delayMs": 250}, {"text": "abcd", "deltaChars": 2}]
    provider = ScriptedProvider(replies)
    deltas(provider, request())
    assert slept == [0.25, 0.25]
    deltas(provider, request(answers=1))
    assert slept[2:] == [0]


def test_usage_is_the_estimate():
    """RUN-16: the usage of offline sessions is the estimate that budgets are compared with."""
    asked = request(user("x" * 40), assistant("y" * 41), system="s" * 8)
    provider = ScriptedProvider([{"text": "abcde", "thinking": "fgh", "toolCalls": [{"name": "read", "input": 1}]}])
    usage = deltas(provider, asked)[-1].usage
    assert usage == Usage(input_tokens=10 + 11 + 2, output_tokens=4, cost_micros=0)
    assert usage.input_tokens == sum(map(message_tokens, asked.messages)) + 2
    assert estimate_tokens(()) == 0


def test_usage_and_stop_reason_as_given():
    given_ = {"inputTokens": 7, "outputTokens": 8, "costMicros": 9}
    (finished,) = deltas(ScriptedProvider([{"usage": given_, "stopReason": "length"}]), request())
    assert finished == Finished("length", usage=Usage(input_tokens=7, output_tokens=8, cost_micros=9))


def test_a_fault_comes_after_the_text():
    """RUN-12: the text before the failure is emitted, and the failure is a value."""
    error = {"kind": "overloaded", "message": "busy", "retryable": True, "delayMs": 1500}
    provider = ScriptedProvider([{"text": "so far", "error": error}, {"error": {"kind": "refused"}}])
    assert deltas(provider, request()) == [TextDelta("so far"), Faulted("overloaded", "busy", True, 1500)]
    assert deltas(provider, request(answers=1)) == [Faulted("refused", "", False, None)]


@pytest.mark.parametrize(("count", "says"), [(0, "0 replies"), (1, "1 reply,"), (2, "2 replies")])
def test_a_request_after_the_end_of_the_script_is_a_fault(tmp_path, count, says):
    """It is not retryable."""
    path = write(tmp_path, *['{"text":"x"}'] * count)
    for place in (count, count + 5):
        (fault,) = deltas(ScriptedProvider.from_file(path), request(answers=place, prefill="x"))
        assert (fault.kind, fault.retryable) == ("script_ended", False)
        assert path in fault.message
        assert says in fault.message


# ── going on ─────────────────────────────────────────────────────────────────────────────────────


def test_resume_gives_the_rest():
    """RUN-8: for every prefix of the text, the resumed reply is the rest, without reasoning."""
    text = "Hello, wörld \U0001f600!"
    reply = {"text": text, "thinking": "hm", "deltaChars": 3, "toolCalls": [{"name": "read"}]}
    provider = ScriptedProvider([reply], can_resume=True)
    for said in range(len(text) + 1):
        answer = deltas(provider, request(prefill=text[:said]))
        assert text[:said] + text_of(answer) == text
        assert thinking_of(answer) == ("" if said else "hm")
        assert len(calls_of(answer)) == 1


@pytest.mark.parametrize("prefill", ["hello", "Hello!", "Hello, world and more"])
def test_resuming_another_text_is_a_fault(prefill):
    """RUN-8: a reply never continues a text that it does not begin with."""
    (fault,) = deltas(ScriptedProvider([{"text": "Hello, world"}], can_resume=True), request(prefill=prefill))
    assert fault.kind == "cannot_resume"


def test_a_model_that_cannot_resume_does_not():
    (fault,) = deltas(ScriptedProvider([{"text": "Hello"}]), request(prefill="Hel"))
    assert fault.kind == "cannot_resume"


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def test_a_script_file_has_one_reply_per_line(tmp_path):
    """Empty lines are ignored."""
    provider = ScriptedProvider.from_file(write(tmp_path, '{"text":"one"}', "", "  ", '{"text":"two"}\r'))
    assert provider.can_resume is False
    assert [text_of(deltas(provider, request(answers=place))) for place in (0, 1)] == ["one", "two"]


@pytest.mark.parametrize(
    ("options", "can"), [('{"canResume":true}', True), ('{"canResume":false}', False), ("{}", False)]
)
def test_options_are_in_the_first_line(tmp_path, options, can):
    provider = ScriptedProvider.from_file(write(tmp_path, f'{{"options":{options}}}', '{"text":"one"}'))
    assert provider.can_resume is can
    assert text_of(deltas(provider, request())) == "one"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not JSON"),
        ('{"text":"\\ud800"}', "not JSON"),
        ("[1]", "object"),
        ('"text"', "object"),
        ('{"text":1}', "$.text"),
        ('{"deltaChars":0}', "$.deltaChars"),
        ('{"deltaChars":1.5}', "$.deltaChars"),
        ('{"delayMs":-1}', "$.delayMs"),
        ('{"toolCalls":[{"input":{}}]}', "name"),
        ('{"toolCalls":{"name":"read"}}', "$.toolCalls"),
        ('{"error":{"message":"x"}}', "kind"),
        ('{"error":"x"}', "$.error"),
        ('{"options":{}}', "'options'"),
        ('{"toolcalls":[]}', "did you mean 'toolCalls'?"),
        ('{"Text":"x"}', "did you mean 'text'?"),
        ('{"delta_chars":3}', "did you mean 'deltaChars'?"),
        ('{"toolCalls":[{"name":"a"},{"nmae":"b"}]}', "did you mean 'name'?"),
        ('{"error":{"kind":"x","retriable":true}}', "did you mean 'retryable'?"),
        ('{"usage":{"inputToken":3}}', "did you mean 'inputTokens'?"),
        ('{"zzz":1}', "use one of text, thinking, toolCalls"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, says):
    """The error has the file, the line and the reason, before anything is played."""
    path = write(tmp_path, '{"text":"fine"}', "", line)
    with pytest.raises(UsageError) as error:
        ScriptedProvider.from_file(path)
    assert f"{path}, line 3" in error.value.message
    assert says in f"{error.value.message}; {error.value.hint}"


@pytest.mark.parametrize("line", ['{"options":{"canresume":true}}', '{"options":true}', '{"options":{},"text":"x"}'])
def test_bad_options(tmp_path, line):
    path = write(tmp_path, line)
    with pytest.raises(UsageError, match="line 1"):
        ScriptedProvider.from_file(path)


def test_tool_arguments_are_not_checked(tmp_path):
    """Keys of the script format have no meaning there."""
    line = '{"toolCalls":[{"name":"x","input":{"error":{"a":1},"usage":[{"b":2}],"toolCalls":3}}]}'
    (call,) = calls_of(deltas(ScriptedProvider.from_file(write(tmp_path, line)), request()))
    assert call.input == {"error": {"a": 1}, "usage": [{"b": 2}], "toolCalls": 3}


def test_a_bad_reply_in_a_list():
    with pytest.raises(UsageError, match="reply 2 of the script"):
        ScriptedProvider([{"text": "fine"}, {"txt": "not"}])
    with pytest.raises(UsageError, match="reply 1 of the script"):
        ScriptedProvider(["text"])  # type: ignore[list-item]


@pytest.mark.parametrize("name", ["missing.jsonl", ".", "nul\0byte"])
def test_a_file_that_cannot_be_read(tmp_path, name):
    with pytest.raises(UsageError, match="cannot be read"):
        ScriptedProvider.from_file(f"{tmp_path}/{name}")


def test_a_script_that_is_not_text_is_refused(tmp_path):
    script = tmp_path / "script.jsonl"
    script.write_bytes(b'{"text":"\xff"}\n')
    with pytest.raises(UsageError, match="line 1"):
        ScriptedProvider.from_file(str(script))
