"""Our providers and the SDK's own clients at the same server."""

import asyncio
import contextlib
from functools import partial

import openai

from tests.loopback import Loopback
from tests.providers.asking import deltas, user
from wakelog.decide.assembly import assemble_parts
from wakelog.log.content import Faulted, Finished, Image, Text, Thinking, ToolCall
from wakelog.ports.runtime import ModelRequest
from wakelog.projections.context import ContextMessage
from wakelog.providers.http_provider import HttpProvider
from wakelog.providers.openai.chat import CHAT
from wakelog.providers.openai.responses import RESPONSES

MODEL = "gpt-5"
PROVIDERS = {"openai": partial(HttpProvider, RESPONSES), "openai-chat": partial(HttpProvider, CHAT)}


@contextlib.contextmanager
def serving(*answers):
    with Loopback() as server:
        server.play(*answers)
        yield server


def requested(server, *messages, params=None, **more):
    """A request that goes to a server."""
    settings = {"endpoint": f"{server.url}/v1", **(params or {})}
    return ModelRequest(model=MODEL, messages=messages or (user("hi"),), params=settings, **more)


def said_by(provider, *answers, **more):
    """What a provider makes of an answer: the parts, and how it ended."""
    with serving(*answers) as server:
        told = deltas(PROVIDERS[provider](), requested(server, **more))
    assert isinstance(told[-1], Finished | Faulted)
    assert not any(isinstance(delta, Finished | Faulted) for delta in told[:-1])
    return assemble_parts(told[:-1]), told[-1]


def as_reply(parts, provider="openai", model=MODEL):
    return ContextMessage(role="assistant", content=tuple(parts), provider=provider, model=model)


def _client(server):
    return openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0)


def final_response(*answers):
    """What the SDK's accumulator makes of the same stream."""

    async def collect(server):
        async with _client(server) as client, client.responses.stream(model=MODEL, input="hi") as stream:
            return await stream.get_final_response()

    with serving(*answers) as server:
        return asyncio.run(collect(server))


def final_completion(*answers):
    """What the SDK's accumulator makes of the same stream."""

    async def collect(server):
        async with _client(server) as client, client.chat.completions.stream(model=MODEL, messages=[]) as stream:
            return (await stream.until_done()).current_completion_snapshot

    with serving(*answers) as server:
        return asyncio.run(collect(server))


def texts(parts):
    return [part.text for part in parts if isinstance(part, Text)]


def thoughts(parts):
    return [part.thinking for part in parts if isinstance(part, Thinking)]


def calls(parts):
    return [(part.id, part.name, part.input) for part in parts if isinstance(part, ToolCall)]


def picture(data="aGk="):
    return Image(mime_type="image/png", data=data)
