"""ST-10: responses of three APIs are recorded and sent back as these APIs need them, judged by the vendors' own types.

The responses are generated. The SDK's types check each of them first, then the request that is rebuilt from the log:
signed and encrypted parts must come back byte for byte, tool calls and results must be paired, and each request must
extend the one before it (law 8: stable prefix).
"""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from anthropic.types import MessageParam
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam
from openai.types.responses import Response, ResponseInputItemParam
from pydantic import TypeAdapter, ValidationError

from wakelog.errors import UsageError
from wakelog.log.content import Text, Thinking, Usage
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(
    str.strip
)
OPAQUE = st.text("ABCDEFGHabcdefgh0123456789+/=", min_size=1, max_size=40)
NAMES = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
INPUTS = st.dictionaries(NAMES, st.one_of(st.integers(-9, 9), WORDS, st.lists(st.booleans(), max_size=2)), max_size=3)
ANTHROPIC_PARAMS = TypeAdapter(list[MessageParam])
CHAT_PARAMS = TypeAdapter(list[ChatCompletionMessageParam])
RESPONSES_PARAMS = TypeAdapter(list[ResponseInputItemParam])


def check_types(adapter: TypeAdapter[Any], request: list[dict[str, Any]]) -> None:
    """Fail unless the SDK's types accept a request. Iterables are validated only as they are read, so all are read."""
    read_all(adapter.validate_python(request))


def read_all(value: Any) -> None:
    if isinstance(value, dict):
        value = value.values()
    if not isinstance(value, str) and isinstance(value, Iterable):
        for each in value:
            read_all(each)


def test_the_types_refuse_a_wrong_request():
    """The control: a block without its fields is refused, nested ones too."""
    with pytest.raises(ValidationError):
        check_types(ANTHROPIC_PARAMS, [{"role": "user", "content": [{"type": "tool_result"}]}])
    with pytest.raises(ValidationError):
        check_types(RESPONSES_PARAMS, [{"type": "function_call", "name": "x"}])


def new_session() -> Session:
    return Session.create(MemoryStore(), agent="bot", sender="ada")


def in_turn(number: int, items: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Return the items of a turn with call ids that no other turn has, as real APIs return them."""
    return [{**item, key: f"{item[key]}_{number}"} if key in item else item for item in items]


# ── Anthropic Messages ───────────────────────────────────────────────────────────────────────────


def anthropic_message(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": blocks,
        "stop_reason": "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 7, "cache_read_input_tokens": 5},
    }
    AnthropicMessage.model_validate(message)
    return message


@st.composite
def anthropic_blocks(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Reasoning, text and tool calls, in the order in which the API returns them."""
    thinking = draw(
        st.lists(
            st.one_of(
                st.builds(lambda text, sign: {"type": "thinking", "thinking": text, "signature": sign}, WORDS, OPAQUE),
                st.builds(lambda data: {"type": "redacted_thinking", "data": data}, OPAQUE),
            ),
            max_size=2,
        )
    )
    texts = [{"type": "text", "text": text} for text in draw(st.lists(WORDS, max_size=2))]
    calls = [
        {"type": "tool_use", "id": f"toolu_{draw(NAMES)}_{number}", "name": draw(NAMES), "input": draw(INPUTS)}
        for number in range(draw(st.integers(0, 2)))
    ]
    return [*thinking, *(texts + calls or [{"type": "text", "text": "ok"}])]


@given(st.lists(anthropic_blocks(), min_size=1, max_size=3))
def test_anthropic_responses_are_sent_back_as_they_came(turns):
    session, before = new_session(), list[dict[str, Any]]()
    for number, drawn in enumerate(turns):
        blocks = in_turn(number, drawn, "id")
        session.user("go")
        reply = session.assistant(anthropic_message(blocks))
        for call in reply.tool_calls:
            session.tool_result(call, "done")
        request = session.to_anthropic()
        check_types(ANTHROPIC_PARAMS, request)
        sent = [message["content"] for message in request if message["role"] == "assistant"]
        assert sent[-1] == blocks
        assert request[: len(before)] == before
        assert_results_follow_calls(request)
        before = request
        if reply.tool_calls:
            session.assistant("done")
            before = session.to_anthropic()


def assert_results_follow_calls(request: list[dict[str, Any]]) -> None:
    """Every message with tool calls is followed by one with exactly their results."""
    for at, message in enumerate(request):
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        if calls:
            after = request[at + 1]["content"]
            assert [block["tool_use_id"] for block in after if block["type"] == "tool_result"] == calls


def test_an_anthropic_response_object():
    """ST-10: the object of the SDK is accepted; its request id, usage and stop reason are kept."""
    response = AnthropicMessage.model_validate(anthropic_message([{"type": "text", "text": "hi"}]))
    response._request_id = "req_9"
    reply = new_session().assistant(response)
    assert (reply.request_id, reply.stop_reason, reply.model) == ("req_9", "stop", "claude-sonnet-5")
    assert reply.usage == Usage(input_tokens=11, output_tokens=7, cache_read_tokens=5)


def test_blocks_that_only_the_vendor_understands():
    """ST-10: results of server tools and citations come back to the same model unchanged, and to no other."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "oslo"}}
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {"type": "web_search_result", "url": "https://example.org", "title": "Oslo", "encrypted_content": "E"}
        ],
    }
    citation = {
        "type": "web_search_result_location",
        "url": "https://example.org",
        "title": "Oslo",
        "encrypted_index": "I",
        "cited_text": "cold",
    }
    cited = {"type": "text", "text": "It is cold.", "citations": [citation]}
    session = new_session()
    session.user("go")
    session.assistant(anthropic_message([search, found, cited]))
    assert session.to_anthropic()[-1]["content"] == [search, found, cited]
    assert session.to_anthropic(model="claude-other-5")[-1]["content"] == [{"type": "text", "text": "It is cold."}]
    assert session.to_openai_chat()[-1] == {"role": "assistant", "content": "It is cold."}


def test_reasoning_goes_back_to_its_own_model_alone():
    """ST-10: another model cannot read signed reasoning, so it is left out there."""
    session = new_session()
    session.user("go")
    session.assistant(
        anthropic_message([{"type": "thinking", "thinking": "t", "signature": "S"}, {"type": "text", "text": "hi"}])
    )
    assert session.to_anthropic()[-1]["content"][0]["signature"] == "S"
    assert len(session.to_anthropic(model="claude-other-5")[-1]["content"]) == 1


def test_cache_marks():
    """VIEW-5: with `cache` the ends of the last two user messages are marked, without it none is."""
    session = new_session()
    for number in range(3):
        session.user(f"prompt {number}")
        session.assistant("ok")
    session.user("last")
    marked = [message for message in session.to_anthropic(cache=True) if "cache_control" in message["content"][-1]]
    assert [message["content"][-1]["text"] for message in marked] == ["prompt 2", "last"]
    assert "cache_control" not in json.dumps(session.to_anthropic())


# ── OpenAI Chat Completions ──────────────────────────────────────────────────────────────────────


def chat_completion(content: str | None, calls: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    completion = {
        "id": "chatcmpl_1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-5",
        "choices": [
            {
                "index": 0,
                "message": {**message, **({"tool_calls": calls} if calls else {})},
                "finish_reason": "tool_calls" if calls else "stop",
                "logprobs": None,
            }
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }
    ChatCompletion.model_validate(completion)
    return completion


@st.composite
def chat_calls(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Tool calls whose arguments are JSON text in either of the two usual styles."""
    style = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    return [
        {
            "id": f"call_{draw(NAMES)}_{number}",
            "type": "function",
            "function": {
                "name": draw(NAMES),
                "arguments": json.dumps(draw(INPUTS), ensure_ascii=False, separators=style),
            },
        }
        for number in range(draw(st.integers(0, 2)))
    ]


@given(st.lists(st.tuples(WORDS, chat_calls()), min_size=1, max_size=3), st.booleans())
def test_chat_completions_are_sent_back_as_they_came(turns, as_object):
    session, before = new_session(), list[dict[str, Any]]()
    for number, (text, drawn) in enumerate(turns):
        calls = in_turn(number, drawn, "id")
        session.user("go")
        response = chat_completion(text, calls)
        reply = session.assistant(ChatCompletion.model_validate(response) if as_object else response)
        assert (reply.usage, reply.request_id) == (Usage(input_tokens=11, output_tokens=7), "chatcmpl_1")
        for call in reply.tool_calls:
            session.tool_result(call, "done")
        request = session.to_openai_chat(system="Be brief.")
        check_types(CHAT_PARAMS, request)
        sent = [message for message in request if message["role"] == "assistant"][-1]
        assert (sent["content"], sent.get("tool_calls", [])) == (text, calls)
        assert request[: len(before)] == before
        before = request
        if reply.tool_calls:
            session.assistant("done")
            before = session.to_openai_chat(system="Be brief.")


def test_a_bare_assistant_message():
    """ST-10: the message of a choice is accepted too, with its tool calls."""
    session = new_session()
    session.user("go")
    call = {"id": "call_1", "type": "function", "function": {"name": "pay", "arguments": '{"euros":3}'}}
    reply = session.assistant({"role": "assistant", "content": None, "tool_calls": [call]})
    assert [(each.id, each.name, each.input) for each in reply.tool_calls] == [("call_1", "pay", {"euros": 3})]


# ── OpenAI Responses ─────────────────────────────────────────────────────────────────────────────


def response_object(output: list[dict[str, Any]]) -> dict[str, Any]:
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "gpt-5",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "usage": {
            "input_tokens": 11,
            "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 18,
        },
    }
    Response.model_validate(response)
    return response


@st.composite
def response_output(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A reasoning item with encrypted content, then a message and function calls."""
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": text} for text in draw(st.lists(WORDS, max_size=2))],
        "encrypted_content": draw(OPAQUE),
    }
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": draw(WORDS), "annotations": []}],
    }
    calls = [
        {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{draw(NAMES)}_{number}",
            "name": draw(NAMES),
            "arguments": json.dumps(draw(INPUTS), ensure_ascii=False, separators=(",", ":")),
        }
        for number in range(draw(st.integers(0, 2)))
    ]
    return [
        *draw(st.sampled_from([[], [reasoning]])),
        *draw(st.sampled_from([[message], [message] if not calls else []])),
        *calls,
    ]


@given(st.lists(response_output(), min_size=1, max_size=3), st.booleans())
def test_responses_are_sent_back_item_by_item(turns, as_object):
    session, before = new_session(), list[dict[str, Any]]()
    for number, drawn in enumerate(turns):
        output = in_turn(number, drawn, "call_id")
        session.user("go")
        response = response_object(output)
        reply = session.assistant(Response.model_validate(response) if as_object else response)
        assert reply.usage == Usage(input_tokens=7, output_tokens=7, cache_read_tokens=4)
        for call in reply.tool_calls:
            session.tool_result(call, "done")
        items = session.to_openai_responses()
        check_types(RESPONSES_PARAMS, items)
        assert items[len(before) + 1 :][: len(output)] == output
        assert items[: len(before)] == before
        before = items
        if reply.tool_calls:
            session.assistant("done")
            before = session.to_openai_responses()


# ── custom tool calls ────────────────────────────────────────────────────────────────────────────

RAW_INPUTS = st.one_of(st.just(""), st.just('{"a": 1}'), st.just("12"), WORDS, st.just("*** Begin\n+ x\n"))


def custom_items(inputs: list[str]) -> list[dict[str, Any]]:
    """Items of the Responses API: reasoning, then custom tool calls, then a function call."""
    custom = [
        {"type": "custom_tool_call", "id": f"ctc_{at}", "call_id": f"call_{at}", "name": "patch", "input": text}
        for at, text in enumerate(inputs)
    ]
    return [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEALED"},
        *custom,
        {"type": "function_call", "id": "fc_1", "call_id": "call_f", "name": "pay", "arguments": "{}"},
    ]


@given(st.lists(RAW_INPUTS, min_size=1, max_size=3), st.booleans())
def test_custom_tool_calls_of_the_responses_api(inputs, as_object):
    """ST-10: they are tool calls with their raw text as input, and their results have the type that the API needs."""
    session, items = new_session(), custom_items(inputs)
    session.user("go")
    response = response_object(items)
    reply = session.assistant(Response.model_validate(response) if as_object else response)
    found = [(call.id, call.name, call.input) for call in reply.tool_calls]
    assert found == [*((f"call_{at}", "patch", text) for at, text in enumerate(inputs)), ("call_f", "pay", {})]
    assert reply.stop_reason == "tools"
    for call in reply.tool_calls:
        with session.tool(call) as run:
            assert run.call.input == call.input
            run.result = "done"
    sent = session.to_openai_responses()
    check_types(RESPONSES_PARAMS, sent)
    assert sent[1 : 1 + len(items)] == items
    outputs = [(item["type"], item["call_id"], item["output"]) for item in sent[1 + len(items) :]]
    custom = [("custom_tool_call_output", f"call_{at}", "done") for at in range(len(inputs))]
    assert outputs == [*custom, ("function_call_output", "call_f", "done")]
    assert_other_models_get_functions(session, inputs)


def assert_other_models_get_functions(session: Session, inputs: list[str]) -> None:
    """Another model gets a function call with the text as its one argument, and a function's result."""
    plain = session.to_openai_responses(model="gpt-6")
    check_types(RESPONSES_PARAMS, plain)
    calls = [item for item in plain if item.get("type") == "function_call"]
    assert [json.loads(item["arguments"]) for item in calls] == [*({"input": text} for text in inputs), {}]
    assert {item["type"] for item in plain if "output" in item} == {"function_call_output"}
    check_types(ANTHROPIC_PARAMS, session.to_anthropic())
    check_types(CHAT_PARAMS, session.to_openai_chat())


def test_further_fields_of_a_custom_tool_call():
    """Law 10: a namespace goes back with its call; without its reasoning the call is sent without its id."""
    item = {**custom_items(["x"])[1], "namespace": "files"}
    session = new_session()
    session.user("go")
    session.tool_result(session.assistant(response_object([custom_items([])[0], item])).tool_calls[0], "done")
    assert session.to_openai_responses()[2] == item
    key = "sk-ant-api03-" + "a1B2" * 20
    session.user("again")
    thought = {"type": "reasoning", "id": "rs_2", "summary": [{"type": "summary_text", "text": key}]}
    reply = session.assistant(response_object([thought, {**item, "call_id": "call_9"}]))
    session.tool_result(reply.tool_calls[0], "done")
    sent = session.to_openai_responses()
    assert sent[-2] == {key: item[key] for key in item if key != "id"} | {"call_id": "call_9"}
    assert sent[-1] == {"type": "custom_tool_call_output", "call_id": "call_9", "output": "done"}


def test_a_secret_in_a_custom_tool_call():
    """Law 14: the program gets the real text, the log the redacted one, and the request stays valid."""
    key = "sk-ant-api03-" + "a1B2" * 20
    session = new_session()
    session.user("go")
    reply = session.assistant(response_object(custom_items([f"key {key}"])))
    assert reply.tool_calls[0].input == f"key {key}"
    for call in reply.tool_calls:
        session.tool_result(call, "done")
    assert not any(key.encode() in line.raw for line in session.store.load(session.name))
    sent = session.to_openai_responses()
    check_types(RESPONSES_PARAMS, sent)
    assert [item["type"] for item in sent[1:]] == ["function_call"] * 2 + ["function_call_output"] * 2


@given(st.lists(RAW_INPUTS, min_size=1, max_size=3), st.booleans())
def test_custom_tool_calls_of_chat_completions(inputs, as_object):
    """ST-10: between function calls, in order; each gets a tool message."""
    custom = [
        {"id": f"call_{at}", "type": "custom", "custom": {"name": "patch", "input": text}}
        for at, text in enumerate(inputs)
    ]
    function = {"id": "call_f", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
    calls, session = [custom[0], function, *custom[1:]], new_session()
    session.user("go")
    response = chat_completion(None, calls)
    reply = session.assistant(ChatCompletion.model_validate(response) if as_object else response)
    assert [call.input for call in reply.tool_calls] == [inputs[0], {}, *inputs[1:]]
    for call in calls:
        with session.tool(call) as run:
            run.result = "done"
    sent = session.to_openai_chat()
    check_types(CHAT_PARAMS, sent)
    assert sent[1]["tool_calls"] == calls
    assert sent[2:] == [{"role": "tool", "tool_call_id": call["id"], "content": "done"} for call in calls]
    check_types(CHAT_PARAMS, session.to_openai_chat(model="gpt-6"))
    assert {call["type"] for call in session.to_openai_chat(model="gpt-6")[1]["tool_calls"]} == {"function"}


def test_a_streamed_custom_tool_call():
    """ST-10: its text is not decoded, although it is JSON."""
    session = new_session()
    session.user("go")
    with session.streaming(model="gpt-5", provider="openai-chat") as stream:
        stream.tool_call("call_1", "run", "[1]", custom=True)
    assert stream.reply is not None
    assert [call.input for call in stream.reply.tool_calls] == ["[1]"]
    session.tool_result("call_1", "done")
    sent = session.to_openai_chat()[1]["tool_calls"]
    assert sent == [{"id": "call_1", "type": "custom", "custom": {"name": "run", "input": "[1]"}}]


def test_a_receipt_is_asked_with_the_text_of_a_custom_tool_call():
    """RUN-6: the function that looks up an earlier run gets the input of the call."""
    session, asked = new_session(), list[Any]()
    session.user("go")
    session.assistant(response_object(custom_items(["+ x"])[:2]))
    session.tool("call_0").__enter__()
    session.close()

    def find(call: Any) -> str:
        asked.append(call.arguments)
        return "done"

    again = Session.get(session.store, session.name)
    again.recover({"patch": find})
    assert asked == [{"input": "+ x"}]
    again.close()


def test_a_call_of_an_unknown_kind_is_refused():
    """ST-10: nothing of the reply is lost silently."""
    session = new_session()
    session.user("go")
    with pytest.raises(UsageError, match="neither a function call nor a custom one"):
        session.assistant({"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "other"}]})


# ── other values ─────────────────────────────────────────────────────────────────────────────────


def test_repeated_call_ids_are_made_unique():
    """RUN-7: two calls of one reply never share an id, whatever the API sent."""
    session = new_session()
    session.user("go")
    block = {"type": "tool_use", "id": "c", "name": "pay", "input": {}}
    reply = session.assistant({"type": "message", "role": "assistant", "content": [block, block]})
    assert [each.id for each in reply.tool_calls] == ["c", "c.2"]


def test_a_response_that_cannot_be_read():
    """ST-10: what is not a response is refused with a hint, not recorded in part."""
    session = new_session()
    session.user("go")
    with pytest.raises(UsageError, match="cannot be read"):
        session.assistant({"choices": [{"message": {"tool_calls": [{"id": "c", "function": {"arguments": "{"}}]}}]})
    assert session.needs_reply


def test_parts_of_a_recorded_message():
    """ST-10: each block is a part of its own, so that it is sent back as it came."""
    blocks = [
        {"type": "thinking", "thinking": "a", "signature": "S"},
        {"type": "text", "text": "one "},
        {"type": "text", "text": "two"},
    ]
    reply = new_session().assistant(anthropic_message(blocks))
    assert reply.content == (Thinking(thinking="a", signature="S"), Text(text="one "), Text(text="two"))
