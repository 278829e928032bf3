"""What servers say when they do not answer: the word for it, whether to try again, and when; never a key."""

import socket

import pytest

from tests.loopback import Answer
from tests.providers.asking import deltas, request, user
from tests.providers.openai.asking import PROVIDERS, requested, said_by, serving
from tests.providers.openai.wire import error_answer
from wakelog.log.content import Faulted
from wakelog.providers.openai.api import fault_of_error_event, fault_of_response

KEY = "sk-proj-abcdefghijklmnop1234"


@pytest.mark.parametrize(
    ("status", "code", "message", "kind", "retryable"),
    [
        (429, "rate_limit_exceeded", "slow down", "rate_limited", True),
        (429, "insufficient_quota", "no money", "quota", False),
        (429, "rate_limit_exceeded", "Request too large for m: the tokens must be reduced", "context_overflow", False),
        (402, None, "pay first", "quota", False),
        (401, "invalid_api_key", "bad key", "auth", False),
        (403, None, "not from here", "auth", False),
        (404, "model_not_found", "no such model", "not_found", False),
        (400, "context_length_exceeded", "too long", "context_overflow", False),
        (400, None, "This model's maximum context length is 4096 tokens", "context_overflow", False),
        (400, "exceed_context_size_error", "the request exceeds the available size", "context_overflow", False),
        (400, None, "no such parameter", "bad_request", False),
        (422, None, "no such parameter", "bad_request", False),
        (413, None, "too big", "too_large", False),
        (408, None, "too late", "timeout", True),
        (500, "server_error", "oops", "server", True),
        (502, None, "bad gateway", "server", True),
        (503, None, "loading model", "overloaded", True),
        (529, None, "busy", "overloaded", True),
    ],
)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_word_for_a_refusal(provider, status, code, message, kind, retryable):
    """Each becomes a `failed` entry with the right retry word; the SDK itself tries nothing again."""
    _, end = said_by(provider, error_answer(status, code, message))
    assert (end.kind, end.retryable, end.delay_ms) == (kind, retryable, None)
    assert f"({status})" in end.message


def test_one_request_is_one_request():
    """The kernel tries again, so that every try stands in the log."""
    for provider in PROVIDERS.values():
        with serving(error_answer(500)) as server:
            deltas(provider(), requested(server))
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("message", "delay_ms"),
    [
        ("Please try again in 20ms. Visit us", 20),
        ("Please try again in 1.2s.", 1_200),
        ("Please try again in 6m0s.", 360_000),
        ("Try again in a while", None),
    ],
)
def test_when_to_try_again_in_words(message, delay_ms):
    """RUN-8: OpenAI says it in its words; what stands in the headers is more exact."""
    error = {"message": message, "code": "rate_limit_exceeded"}
    assert fault_of_response(429, {}, error).delay_ms == fault_of_error_event(error).delay_ms == delay_ms
    assert fault_of_response(429, {"retry-after": "3"}, error).delay_ms == 3_000


@pytest.mark.parametrize(
    "error",
    [None, 3, [], "", {}, {"message": None}, {"error": None}, {"error": {"error": {"error": "deep"}}}, {"code": {}}],
)
def test_no_shape_of_an_error_is_an_exception(error):
    assert isinstance(fault_of_response(500, {}, error), Faulted)
    assert isinstance(fault_of_error_event(error), Faulted)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>502 Bad Gateway</html>",
        b"",
        b'{"error": "model \'x\' not found"}',
        b'{"object": "error", "message": "model \'x\' not found", "code": 404}',
        b'{"detail": [{"input": "the whole conversation"}]}',
    ],
)
def test_bodies_of_other_servers(body):
    _, end = said_by("openai-chat", Answer([body], 404, {"content-type": "application/json"}))
    assert end.kind == "not_found"
    assert ("'x' not found" in end.message) == (b"'x'" in body)
    assert "conversation" not in end.message


def test_nothing_secret_and_nothing_long_is_told():
    """LOG-13: one line, no key, no payload."""
    for status, message in [
        (401, f"Incorrect API key provided: {KEY}."),
        (400, f"Incorrect API key provided: {KEY}\nBearer {KEY}\x1b[31m " + "long " * 500),
    ]:
        told = fault_of_response(status, {}, {"message": message}).message
        assert KEY not in told
        assert "abcdefgh" not in told
        assert told.isprintable()
        assert len(told) < 300


@pytest.mark.parametrize("provider", PROVIDERS)
def test_nobody_is_there(provider):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        asked = request(user("hi"), params={"endpoint": f"http://127.0.0.1:{port}/v1"})
        (end,) = deltas(PROVIDERS[provider](), asked)
    assert (end.kind, end.retryable) == ("connection", True)
