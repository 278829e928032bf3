"""The official SDKs judge our requests: what we send is what they would send, and has the types that they declare."""

import asyncio
import json
from functools import partial
from typing import Any, get_type_hints

import anthropic
import openai
import pytest
from anthropic._constants import ANTHROPIC_API_VERSION
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from tests.loopback import Answer, Loopback
from tests.providers.asking import TOOLS, assistant, deltas, request, result, user
from tests.providers.wire_formats import KEY, RIGS
from wakelog.log.content import Finished, Image, ToolCallDelta
from wakelog.projections.context import ContextMessage
from wakelog.providers.anthropic.messages import API_VERSION
from wakelog.providers.http_provider import HttpProvider
from wakelog.version import VERSION

# The SDKs describe themselves and their platform; a server needs none of it.
SDK_ONLY = "x-stainless-"
CREATE = {
    "anthropic": lambda client: partial(client.messages.with_streaming_response.create, max_tokens=1, messages=[]),
    "openai": lambda client: partial(client.responses.with_streaming_response.create, input=[]),
    "openai-chat": lambda client: partial(client.chat.completions.with_streaming_response.create, messages=[]),
}
CLIENTS = {"anthropic": anthropic.AsyncAnthropic, "openai": openai.AsyncOpenAI, "openai-chat": openai.AsyncOpenAI}
PARAMS = {
    "anthropic": MessageCreateParamsStreaming,
    "openai": ResponseCreateParamsStreaming,
    "openai-chat": CompletionCreateParamsStreaming,
}
# Kept, because a part that is validated later needs its judge.
JUDGES: dict[str, TypeAdapter[Any]] = {name: TypeAdapter(shape) for name, shape in PARAMS.items()}
ENVIRONMENTS = {
    "anthropic": [
        {},
        {"ANTHROPIC_CUSTOM_HEADERS": "anthropic-beta: one,two\n X-Team : a b \nno colon\n"},
        {"ANTHROPIC_CUSTOM_HEADERS": "Authorization: Basic YQ==\nanthropic-version: 2023-06-01\nX-Empty:"},
    ],
    "openai": [
        {},
        {"OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "proj_1"},
        {"OPENAI_CUSTOM_HEADERS": "X-Team: a:b\nOpenAI-Project: proj_2", "OPENAI_PROJECT_ID": "proj_1"},
        {"OPENAI_CUSTOM_HEADERS": "authorization: Basic YQ=="},
    ],
}
CASES = [(name, environ) for name in RIGS for environ in ENVIRONMENTS[name.removesuffix("-chat")]]


def sent_by_us(server, rig, environ, asked=None):
    """The request that the provider sends."""
    server.play(Answer(rig.whole))
    provider = HttpProvider(rig.way, environ={rig.way.vendor.key_variables[0]: KEY, **environ})
    told = deltas(provider, asked or request(params={"endpoint": f"{server.url}{rig.path}"}))
    assert isinstance(told[-1], Finished)
    return server.asked[-1]


def sent_by_sdk(server, rig, body):
    """The request that the SDK sends with the same body, key and address, in the environment of this process."""

    async def send():
        address = f"{server.url}{rig.path}"
        async with (
            CLIENTS[rig.way.name](api_key=KEY, base_url=address, max_retries=0) as client,
            CREATE[rig.way.name](client)(model="", stream=True, extra_body=body),
        ):
            pass

    server.play(Answer(rig.whole))
    asyncio.run(send())
    return server.asked[-1]


def compared(headers):
    """The headers that matter to a server."""
    return {
        name: value
        for name, value in headers.items()
        if not name.startswith(SDK_ONLY) and name not in ("user-agent", "content-length")
    }


@pytest.mark.parametrize(("name", "environ"), CASES)
def test_the_same_request(name, environ, monkeypatch):
    """RUN-8: path, body, authentication, version and the user's own headers are those of the SDK."""
    rig = RIGS[name]
    for variable in {key for each in ENVIRONMENTS.values() for case in each for key in case}:
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    with Loopback() as server:
        ours = sent_by_us(server, rig, environ)
        theirs = sent_by_sdk(server, rig, ours.json)
    assert (ours.path, ours.json) == (theirs.path, theirs.json)
    assert compared(ours.headers) == compared(theirs.headers)
    assert ours.headers["user-agent"] == f"wakelog/{VERSION}"
    assert not any(header.startswith(SDK_ONLY) for header in ours.headers)


def test_the_version_is_that_of_the_sdk():
    """Our requests and parsers are judged by types of one version of the API: it is the one that is asked for."""
    assert API_VERSION == ANTHROPIC_API_VERSION


# ── types ────────────────────────────────────────────────────────────────────────────────────────

CALL = ToolCallDelta("call_1", "read", {"path": "a"})
PICTURE = ContextMessage(role="user", content=(Image(mime_type="image/png", data="aGk="),))
CONVERSATIONS = {
    "one message": (user("hi"),),
    "a tool call": (user("hi"), assistant("so", CALL), result(CALL, "text"), user("and?")),
    "a failed tool": (user("hi"), assistant("", CALL), result(CALL, "no", is_error=True)),
    "a picture": (PICTURE,),
}
SETTINGS = [{}, {"maxTokens": 99, "effort": "low"}, {"temperature": 0.5, "thinking": "drop"}]


def exhaust(value):
    """Some parts are validated only when they are read."""
    if isinstance(value, dict):
        value = value.values()
    if not isinstance(value, str | bytes) and hasattr(value, "__iter__"):
        for inner in value:
            exhaust(inner)


@pytest.mark.parametrize("params", SETTINGS, ids=str)
@pytest.mark.parametrize("messages", CONVERSATIONS.values(), ids=CONVERSATIONS)
@pytest.mark.parametrize("name", RIGS)
def test_the_whole_body_has_the_types_of_the_sdk(name, messages, params):
    """RUN-8: every key of the body is one that the SDK declares, and every value has its type."""
    rig = RIGS[name]
    with Loopback() as server:
        settings = {"endpoint": f"{server.url}{rig.path}", **params}
        asked = request(*messages, system="Be brief.", tools=TOOLS, params=settings)
        body = json.loads(sent_by_us(server, rig, {}, asked).body)
    # The Anthropic SDK has no name for the temperature any more; the API still has.
    assert body.keys() - {"temperature"} <= get_type_hints(PARAMS[name]).keys()
    exhaust(JUDGES[name].validate_python(body))
