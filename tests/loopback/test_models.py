"""The scripted model speaks the four wire formats: the SDKs understand it, and requests are recorded alike."""

import contextlib
import http.client
import json
from typing import Any

import anthropic
import openai
import pytest

from tests.loopback import Call, ModelServer, Pause, Row, Say, Shell
from tests.loopback.models import SIDE_TEXT, shell_call
from tests.loopback.rows import OfferedTool, unpaired_calls
from tests.patience import PATIENCE_S

SCHEMA = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "why": {"type": "string"}},
    "required": ["command", "why"],
}
TEXT, COMMAND = "First a  text,\n世界 ", {"command": "ls -l", "why": "run"}
ASKED = "List the files"


@contextlib.contextmanager
def sent(server, path, body):
    """Send a request, and yield the answer."""
    with contextlib.closing(http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=PATIENCE_S)) as line:
        line.request("POST", path, json.dumps(body))
        yield line.getresponse()


def ask_anthropic(server, *, stream):
    client: Any = anthropic.Anthropic(base_url=server.url, api_key="x", max_retries=0)
    tools = [{"name": "Bash", "input_schema": SCHEMA}]
    fields = {"model": "m", "max_tokens": 9, "system": "Be", "tools": tools}
    messages = [{"role": "user", "content": ASKED}]
    with client:
        if stream:
            with client.messages.stream(messages=messages, **fields) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(messages=messages, **fields)
        first, second = message.content
        called = {"type": "tool_use", "id": second.id, "name": second.name, "input": second.input}
        answered = {"type": "tool_result", "tool_use_id": second.id, "content": [{"type": "text", "text": "a b"}]}
        turns = [{"role": "assistant", "content": [{"type": "text", "text": first.text}, called]}]
        client.messages.create(messages=[*messages, *turns, {"role": "user", "content": [answered]}], **fields)
    return first.text, second.name, second.input, second.id


def ask_chat(server, *, stream):
    client: Any = openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0)
    tools = [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}]
    messages = [{"role": "system", "content": "Be"}, {"role": "user", "content": ASKED}]
    with client:
        if stream:
            with client.chat.completions.stream(model="m", messages=messages, tools=tools) as events:
                message = events.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(model="m", messages=messages, tools=tools).choices[0].message
        [call] = message.tool_calls
        function = {"name": call.function.name, "arguments": call.function.arguments}
        calls = [{"id": call.id, "type": "function", "function": function}]
        said = {"role": "assistant", "content": message.content, "tool_calls": calls}
        answered = {"role": "tool", "tool_call_id": call.id, "content": "a b"}
        client.chat.completions.create(model="m", messages=[*messages, said, answered], tools=tools)
    return message.content, call.function.name, json.loads(call.function.arguments), call.id


def ask_responses(server, *, stream):
    client: Any = openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0)
    fields = {
        "model": "m",
        "instructions": "Be",
        "tools": [{"type": "function", "name": "shell", "parameters": SCHEMA}],
    }
    items = [{"role": "user", "content": [{"type": "input_text", "text": ASKED}]}]
    with client:
        if stream:
            with client.responses.stream(input=items, **fields) as events:
                response = events.get_final_response()
        else:
            response = client.responses.create(input=items, **fields)
        first, second = response.output
        said = {"role": "assistant", "content": [{"type": "output_text", "text": first.content[0].text}]}
        called = {"type": "function_call", "call_id": second.call_id, "name": second.name}
        answered = {"type": "function_call_output", "call_id": second.call_id, "output": "a b"}
        client.responses.create(input=[*items, said, {**called, "arguments": second.arguments}, answered], **fields)
    return first.content[0].text, second.name, json.loads(second.arguments), second.call_id


def ask_gemini(server, *, stream):
    fields = {
        "systemInstruction": {"parts": [{"text": "Be"}]},
        "tools": [{"functionDeclarations": [{"name": "run_shell_command", "parametersJsonSchema": SCHEMA}]}],
    }
    contents = [{"role": "user", "parts": [{"text": ASKED}]}]
    path = "/v1beta/models/m:" + ("streamGenerateContent?alt=sse" if stream else "generateContent")
    with sent(server, path, {"contents": contents, **fields}) as answer:
        raw = answer.read().decode()
    chunks = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: ")] or [json.loads(raw)]
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
    assert [chunk["candidates"][0].get("finishReason") for chunk in chunks][-1] == "STOP"
    text = "".join(part.get("text", "") for part in parts)
    [call] = [part["functionCall"] for part in parts if "functionCall" in part]
    response = {"functionResponse": {"id": call["id"], "name": call["name"], "response": {"output": "a b"}}}
    said = {"role": "model", "parts": [{"text": text}, {"functionCall": call}]}
    body = {"contents": [*contents, said, {"role": "user", "parts": [response]}], **fields}
    with sent(server, path, body) as answer:
        answer.read()
    return text, call["name"], call["args"], call["id"]


CLIENTS = {"anthropic": ask_anthropic, "chat": ask_chat, "responses": ask_responses, "gemini": ask_gemini}
SHELLS = {"anthropic": "Bash", "chat": "bash", "responses": "shell", "gemini": "run_shell_command"}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wire", CLIENTS)
def test_clients_understand_the_answers_and_requests_have_equal_rows(wire, stream):
    with ModelServer() as server:
        server.play([Say(TEXT), Shell("ls -l")])
        text, name, arguments, call_id = CLIENTS[wire](server, stream=stream)
    assert (text, name, arguments) == (TEXT, SHELLS[wire], COMMAND)
    assert [(request.wire, request.is_side, request.tools) for request in server.turns] == [
        (wire, False, (SHELLS[wire],))
    ] * 2
    assert server.turns[1].rows == (
        Row("system", "Be"),
        Row("user", ASKED),
        Row("assistant", TEXT),
        Row("call", f'{SHELLS[wire]} {{"command": "ls -l", "why": "run"}}', call_id),
        Row("result", "a b", call_id),
    )
    assert server.turns[1].problems == []


@pytest.mark.parametrize(
    "path", ["/v1/messages", "/v1/chat/completions", "/v1/responses", "/x/models/m:streamGenerateContent"]
)
def test_a_stream_is_held_in_the_middle_of_a_text(path):
    pause = Pause()
    with ModelServer(without_tools=True) as server:
        server.play([Say("Half a"), pause, Say(" sentence")])
        with sent(server, path, {"stream": True}) as answer:
            assert pause.reached.wait(PATIENCE_S)
            got = b""
            while b" a" not in got:
                got += answer.read1()
            assert b"sentence" not in got
            pause.release()
            assert b"sentence" in answer.read()


def test_side_requests_take_nothing_from_the_script():
    with ModelServer() as server:
        server.play([Say("The answer")])
        with sent(server, "/v1/chat/completions", {"messages": [{"role": "user", "content": "A title?"}]}) as answer:
            assert SIDE_TEXT in answer.read().decode()
        tools = [{"type": "function", "function": {"name": "bash"}}]
        for text in ("The answer", "Done."):
            with sent(server, "/v1/chat/completions", {"messages": [], "tools": tools}) as answer:
                assert text in answer.read().decode()
        with sent(server, "/v1/messages/count_tokens", {}) as answer:
            assert json.loads(answer.read())["input_tokens"] == 1
        with sent(server, "/v1/embeddings", {}) as answer:
            assert answer.status == 404
    assert [request.is_side for request in server.requests] == [True, False, False]
    assert [asked.path for asked in server.others] == ["/v1/messages/count_tokens", "/v1/embeddings"]


def test_a_shell_call_has_what_the_schema_requires():
    array = {"properties": {"command": {"type": "array"}, "n": {"type": "integer"}}, "required": ["command", "n"]}
    tools = [OfferedTool("read", {}), OfferedTool("shell", array)]
    assert shell_call(tools, "ls") == Call("shell", {"command": ["bash", "-lc", "ls"], "n": 1})
    with pytest.raises(AssertionError, match="none of the tools runs a command"):
        shell_call(tools[:1], "ls")


@pytest.mark.parametrize(
    ("kinds", "problems"),
    [
        ("c1 r1", []),
        ("c1 c2 r2 r1 u", []),
        ("c1", ["call 1 without a result"]),
        ("c1 u r1", ["call 1 without a result", "result 1 without a call"]),
        ("c1 r1 r1", ["result 1 without a call"]),
    ],
)
def test_unpaired_calls_are_found(kinds, problems):
    names = {"c": "call", "r": "result", "u": "user"}
    assert unpaired_calls([Row(names[kind[0]], "", kind[1:]) for kind in kinds.split()]) == problems
