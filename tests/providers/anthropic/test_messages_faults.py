"""What goes wrong outside: the right kind, the right retry word, one line for people; then the session goes on."""

import asyncio
import contextlib
import socket

import pytest

from tests.loopback import CUT, Answer, Loopback, events
from tests.providers.anthropic.speaking import (
    KEY,
    MODEL,
    STREAMED,
    answer,
    heard,
    provider,
    refused,
    reply,
    started,
    text,
)
from tests.providers.asking import request
from wakelog.app.agent import Agent
from wakelog.decide.decisions import Idle
from wakelog.log.content import Reply
from wakelog.log.entry import Failed, Message, Partial
from wakelog.providers.anthropic.messages import fault_of_error_event
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.stores.memory import MemoryStore

TOO_LONG = "prompt is too long: 208656 tokens > 200000 maximum"
TOO_MUCH = "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length"
UNPAID = "Your credit balance is too low to access the Anthropic API."
ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

# What the server does, then the kind, whether to try again, and when.
FAILURES = {
    "429": (refused(429, "rate_limit_error", retry_after="3"), "rate_limited", True, 3_000),
    "429 in milliseconds": (
        refused(429, "rate_limit_error", retry_after="3", retry_after_ms="250"),
        "rate_limited",
        True,
        250,
    ),
    "429 for good": (refused(429, "rate_limit_error", x_should_retry="false"), "rate_limited", False, None),
    "529": (refused(529, "overloaded_error"), "overloaded", True, None),
    "500": (refused(500, "api_error"), "server", True, None),
    "502 of a proxy": (Answer([b"<html>Bad gateway</html>"], 502, {}), "server", True, None),
    "503": (Answer([b""], 503, {}), "overloaded", True, None),
    "504": (refused(504, "timeout_error"), "timeout", True, None),
    "408": (Answer([b"{}"], 408, {}), "timeout", True, None),
    "401": (refused(401, "authentication_error", f"invalid key {KEY}"), "auth", False, None),
    "403": (refused(403, "permission_error"), "auth", False, None),
    "404": (refused(404, "not_found_error", "model: claude-none"), "not_found", False, None),
    "413": (refused(413, "request_too_large"), "too_large", False, None),
    "413 of a proxy": (Answer([b"too large"], 413, {}), "too_large", False, None),
    "400 too long": (refused(400, message=TOO_LONG), "context_overflow", False, None),
    "400 too long with the reply": (refused(400, message=TOO_MUCH), "context_overflow", False, None),
    "400 unpaid": (refused(400, message=UNPAID), "quota", False, None),
    "402": (refused(402, "billing_error"), "quota", False, None),
    "400": (refused(400, message="messages.0: bad"), "bad_request", False, None),
    "422": (refused(422, "unheard_of"), "bad_request", False, None),
    "an error in the stream": (answer(started(), *text(0, "so far")[:-1], ERROR), "overloaded", True, None),
    "a cut": (Answer([*events(started(), *text(0, "so far")), CUT], headers=STREAMED), "cut", True, None),
}


@pytest.fixture(scope="module")
def server():
    with Loopback() as running:
        yield running


@pytest.mark.parametrize("name", FAILURES)
def test_failures(server, name):
    """RUN-8: the table of failures."""
    told, kind, retryable, delay_ms = FAILURES[name]
    server.play(told)
    _, end = heard(provider(server), request())
    assert (end.kind, end.retryable, end.delay_ms) == (kind, retryable, delay_ms)
    assert end.message
    assert end.message.isprintable(), "one line"
    assert len(server.asked) > 0


def test_nobody_listens():
    """RUN-8: a connection that is refused is tried again later."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    _, end = heard(provider(_At(f"http://127.0.0.1:{port}")), request())
    assert (end.kind, end.retryable, end.message) == (
        "connection",
        True,
        f"127.0.0.1:{port} cannot be reached: All connection attempts failed",
    )


class _At:
    def __init__(self, url):
        self.url = url


def test_the_line_is_for_people(server):
    """LOG-13: what the server says is kept in one short line, without the key it was sent and without raw bodies."""
    long = f"You sent\n\x1b[31m{KEY}\x1b[0m and " + "much more " * 99
    server.play(refused(400, message=long), Answer([b"<html>secret page</html>"], 500, {}))
    said, raw = (heard(provider(server), request())[1].message for _ in range(2))
    assert said.startswith("the request was refused (400): You sent [31m… [0m and much")
    assert KEY not in said
    assert (said.isprintable(), len(said) < 400) == (True, True)
    assert raw == "the server failed (500)"


@pytest.mark.parametrize("error", [None, [], "x", {}, {"type": 7}, {"type": "unheard_of", "message": 9}])
def test_errors_of_any_shape(error):
    """RUN-8: an error event that says nothing is a failure of the server."""
    told = fault_of_error_event(error)
    assert (told.kind, told.retryable, told.message) == ("server", True, "the server failed")


def test_a_limit_of_spending():
    """RUN-8: no time to wait helps against it, though it comes as a limit of rate."""
    error = {"type": "rate_limit_error", "message": "no", "details": {"error_code": "enforced_spend_limit_reached"}}
    assert fault_of_error_event(error).kind == "quota"


# ── in the log ───────────────────────────────────────────────────────────────────────────────────


def woken(server, *answers):
    """A session with one prompt, woken against a server that plays these; time is not sat out."""
    store, waits = MemoryStore(), []
    agent = Agent(model=f"anthropic:{MODEL}")
    session = agent.begin(store)
    session.say("Hi.")
    server.play(*answers)

    async def pause(ms):
        waits.append(ms)
        clock.ahead_ms += ms

    clock = _Ahead(session.clock)
    runtime = LiveRuntime(store, provider=lambda *_: provider(server), clock=clock)
    report = asyncio.run(wake(runtime.with_changes(sleep=pause), session.name))
    return [entry.value for entry in session.read().entries], report, waits


class _Ahead:
    """Time that a wait moves on at once."""

    def __init__(self, clock):
        self._clock = clock
        self.ahead_ms = 0

    def now_ms(self):
        return self._clock.now_ms() + self.ahead_ms

    def new_id(self):
        return self._clock.new_id()


@pytest.mark.parametrize("name", [name for name, told in FAILURES.items() if told[2]])
def test_then_wake_goes_on(server, name):
    """RUN-8: a failure that passes is a `failed` entry; what was said until then is kept, and the answer comes."""
    told, kind, _, delay_ms = FAILURES[name]
    entries, report, waits = woken(server, told, answer(*reply(text(0, "Here I am."))))
    (failed,) = [value for value in entries if isinstance(value, Failed)]
    assert (failed.error.kind, failed.error.retryable, failed.error.delay_ms) == (kind, True, delay_ms)
    assert len(waits) == 1
    assert delay_ms is None or 0 <= delay_ms - waits[0] < 1_000
    partials = [value.content[0].text for value in entries if isinstance(value, Partial)]
    assert partials == (["so far"] if name in ("an error in the stream", "a cut") else [])
    replies = [value.message for value in entries if isinstance(value, Message) and isinstance(value.message, Reply)]
    assert [(each.text, each.provider, each.model, each.request_id) for each in replies] == [
        ("Here I am.", "anthropic", MODEL, "req_1")
    ]
    assert report.decision == Idle()


@pytest.mark.parametrize("name", ["401", "400", "404", "413", "400 unpaid", "429 for good"])
def test_what_does_not_pass_ends_the_turn(server, name):
    """RUN-8: nobody asks again what will be refused again."""
    before = len(server.asked)
    entries, report, waits = woken(server, FAILURES[name][0])
    (failed,) = [value for value in entries if isinstance(value, Failed)]
    assert (failed.error.kind, failed.error.retryable) == (FAILURES[name][1], False)
    assert (report.decision, waits, len(server.asked) - before) == (Idle("failed"), [], 1)
