"""Whom to ask, and with which key; everything that a caller can get wrong is said in one line."""

import subprocess
import sys

import pytest

from tests.providers.asking import deltas, request, user
from tests.providers.openai.asking import PROVIDERS, requested, serving
from tests.providers.openai.wire import chat_reply, message, responses_answer
from wakelog.errors import UsageError
from wakelog.providers import open_provider
from wakelog.providers.endpoints import resolve_server
from wakelog.providers.openai.api import VENDOR
from wakelog.providers.requests import merge_body, parse_params

OPENAI = VENDOR.address
ANSWERS = {"openai": responses_answer(message("msg_1", "Hi")), "openai-chat": chat_reply("Hi")}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_both_open_by_name(provider):
    opened = open_provider(provider, "gpt-5")
    assert (opened.name, opened.can_resume) == (provider, False)


@pytest.mark.parametrize(
    ("endpoint", "environment", "url", "key"),
    [
        (None, {"OPENAI_API_KEY": "k"}, OPENAI, "k"),
        (None, {"OPENAI_API_KEY": " k\n", "OPENAI_BASE_URL": ""}, OPENAI, "k"),
        (None, {"OPENAI_BASE_URL": "http://localhost:1/v1"}, "http://localhost:1/v1", ""),
        ("http://127.0.0.1/v1", {"OPENAI_BASE_URL": "http://x/v1", "OPENAI_API_KEY": "k"}, "http://127.0.0.1/v1", "k"),
        ("https://eu.api.openai.com/v1", {"OPENAI_API_KEY": "k"}, "https://eu.api.openai.com/v1", "k"),
    ],
)
def test_the_server_that_is_meant(endpoint, environment, url, key):
    """The endpoint wins over the environment; a server that is not OpenAI may do without a key."""
    found = resolve_server(VENDOR, endpoint, environment)
    assert (found.url, found.key, found.is_vendor) == (url, key, "openai.com" in url)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_key_and_the_address_of_the_environment(provider, monkeypatch):
    """The SDK's usual variables, read when the question is asked."""
    with serving(ANSWERS[provider]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        told = deltas(PROVIDERS[provider](), request(user("hi")))
    assert told[-1].stop_reason == "stop"
    assert server.asked[0].headers["authorization"] == "Bearer sk-test"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_mistakes_are_told_before_anything_is_sent(provider, monkeypatch):
    """They are exceptions, and come from the call itself, not from the stream."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    opened = PROVIDERS[provider]()
    for asked in [request(user("hi")), request(user("hi"), params={"maxToken": 3})]:
        with pytest.raises(UsageError):
            opened.stream(asked)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_reply_cannot_be_gone_on_with(provider):
    """RUN-8: this wire takes no beginning of an answer, so none is glued to another."""
    with serving() as server:
        (end,) = deltas(PROVIDERS[provider](), requested(server, prefill="Once"))
    assert (end.kind, end.retryable, server.asked) == ("cannot_resume", False, [])


@pytest.mark.parametrize(
    ("params", "hint"),
    [
        ({"maxToken": 3}, "'maxTokens'"),
        ({"max_tokens": 3}, "'maxTokens'"),
        ({"zzz": 3}, "endpoint"),
    ],
)
def test_a_setting_that_nobody_knows(params, hint):
    with pytest.raises(UsageError) as error:
        parse_params(params)
    assert hint in error.value.hint


@pytest.mark.parametrize("params", [{"maxTokens": 0}, {"effort": "huge"}, {"thinking": True}, {"extra": 3}])
def test_a_setting_that_cannot_be(params):
    with pytest.raises(UsageError):
        parse_params(params)


def test_extra_is_laid_over_the_body():
    body = {"a": 1, "b": {"c": 1, "d": 2}, "e": [1]}
    assert merge_body(body, {"a": None, "b": {"c": None, "x": {"y": None}}, "e": [2], "f": 0}) == {
        "b": {"d": 2, "x": {}},
        "e": [2],
        "f": 0,
    }
    assert body == {"a": 1, "b": {"c": 1, "d": 2}, "e": [1]}


def test_without_the_http_client():
    """A missing package is one line with the extra's name."""
    code = (
        "import sys; sys.modules['anyio'] = None\n"
        "from wakelog.errors import UsageError\n"
        "from wakelog.providers import open_provider\n"
        "try: open_provider('openai', 'm')\n"
        "except UsageError as error: print(error.hint)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "pip install 'wakelog[openai]'\n"
