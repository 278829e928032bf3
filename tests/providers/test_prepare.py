"""A function of the caller prepares each request: it signs it, or sends it elsewhere; law 14 holds for it too."""

import asyncio
import hashlib
import json
import os
import re
import subprocess
import sys
from functools import partial

import httpx2
import pytest

from tests.loopback import Answer, Loopback
from tests.programs import programs
from tests.providers.asking import deltas, request, text_of
from tests.providers.wire_formats import KEY, RIGS
from wakelog.app.agent import Agent
from wakelog.errors import UsageError
from wakelog.log.content import Finished
from wakelog.log.entry import Failed
from wakelog.providers import HttpRequest, open_provider
from wakelog.stores.memory import MemoryStore


@pytest.fixture(params=RIGS)
def rig(request):
    return RIGS[request.param]


@pytest.fixture
def server():
    with Loopback() as running:
        yield running


def open_prepared(rig, prepare, **environ):
    """A provider of the vendor's own address, without a key unless `environ` has one."""
    return open_provider(rig.way.name, "m", environ, prepare=prepare)


def signing(url):
    """A function that sends every request to one URL, with a digest of its body."""

    def sign(prepared):
        digest = hashlib.sha256(prepared.body).hexdigest()
        return HttpRequest(f"{url}/signed", {**prepared.headers, "x-signature": digest}, prepared.body)

    return sign


class Signer:
    """An object that is called like a function, and awaits."""

    def __init__(self, url):
        self._sign = signing(url)

    async def __call__(self, prepared):
        await asyncio.sleep(0)
        return self._sign(prepared)


# ── what is sent ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("prepare", [signing, Signer], ids=["a function", "an object that awaits"])
def test_the_prepared_request_is_sent(rig, server, prepare):
    """RUN-8: the URL and the headers of the function; without a key there is no header that says so."""
    server.play(Answer(rig.whole))
    told = deltas(open_prepared(rig, prepare(server.url)), request())
    assert (text_of(told), type(told[-1])) == ("Hi", Finished)
    (asked,) = server.asked
    assert (asked.path, asked.headers["x-signature"]) == ("/signed", hashlib.sha256(asked.body).hexdigest())
    assert "authorization" not in asked.headers


def test_what_the_function_gets(rig, server):
    """The whole request, as it would be sent: the URL of the API call, the key, the vendor's headers, the body."""
    seen = []

    def record(prepared):
        seen.append(prepared)
        return prepared

    server.play(Answer(rig.whole))
    environ = {rig.way.vendor.key_variables[0]: KEY, rig.way.vendor.url_variable: f"{server.url}{rig.path}"}
    deltas(open_prepared(rig, record, **environ), request())
    (prepared,), (asked,) = seen, server.asked
    assert (prepared.url, prepared.body) == (f"{server.url}{asked.path}", asked.body)
    assert prepared.headers["authorization"] == f"Bearer {KEY}"
    assert prepared.headers.items() <= asked.headers.items()


def test_the_body_may_change(rig, server):
    """For an API that names the model in its URL."""

    def move_model(prepared):
        body = json.loads(prepared.body)
        url = f"{server.url}/models/{body.pop('model')}:stream"
        return HttpRequest(url, prepared.headers, json.dumps(body).encode())

    server.play(Answer(rig.whole))
    deltas(open_prepared(rig, move_model), request())
    assert server.asked[0].path == "/models/m:stream"
    assert "model" not in server.asked[0].json


def test_each_attempt_is_prepared(server):
    """RUN-12: a signature expires, so a retry has its own."""
    rig, times = RIGS["anthropic"], list[int]()

    def sign(prepared):
        times.append(len(times))
        return HttpRequest(server.url, {**prepared.headers, "x-time": str(times[-1])}, prepared.body)

    server.play(Answer([b"{}"], 529, {"retry-after-ms": "1"}), Answer(rig.whole))
    agent = Agent("anthropic:m", provider=partial(open_provider, environ={}, prepare=sign))
    report = agent.run_sync(MemoryStore(), "Hi.")
    assert (report.text, [asked.headers["x-time"] for asked in server.asked]) == ("Hi", ["0", "1"])


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError("a-secret"), "connection"),
        (httpx2.ConnectError("a-secret"), "connection"),
        (ValueError("a-secret"), "auth"),
        (UsageError("a-secret"), "auth"),
    ],
)
def test_a_function_that_raises(rig, error, kind):
    """RUN-8, LOG-13: a fault, retried only if the network failed; the text of the exception may hold credentials."""

    def fail(_):
        raise error

    (end,) = deltas(open_prepared(rig, fail), request())
    assert (end.kind, end.retryable) == (kind, kind == "connection")
    assert end.message == f"the request could not be prepared ({type(error).__name__})"


def test_a_function_that_raises_is_in_the_log():
    """RUN-8: the turn ends with a failed entry, and nothing is raised."""
    store = MemoryStore()

    def fail(_):
        raise ValueError

    session = Agent(model="anthropic:m").begin(store)
    opening = partial(open_provider, environ={}, prepare=fail)
    Agent("anthropic:m", provider=opening).run_sync(store, "Hi.", session=session)
    assert [e.value.error.kind for e in session.read().entries if isinstance(e.value, Failed)] == ["auth"]


@pytest.mark.parametrize("url", ["", "nowhere", "ftp://127.0.0.1/x"])
def test_a_url_that_is_not_one(rig, url):
    (end,) = deltas(open_prepared(rig, lambda prepared: HttpRequest(url, {}, prepared.body)), request())
    assert (end.kind, end.retryable, "is not a valid URL" in end.message) == ("bad_request", False, True)


def test_a_refused_signature(rig, server):
    """LOG-13: the fault names the server that was called, and no variable: no key was missing."""
    server.play(Answer([b"{}"], 401, {"content-type": "application/json"}))
    (end,) = deltas(open_prepared(rig, signing(server.url)), request())
    host = server.url.removeprefix("http://")
    assert end.message == f"{host} does not accept the prepared request, or not for this (401)"


def test_an_endpoint_that_only_a_log_names(rig):
    """Law 14: the function may add credentials to any URL, so an untrusted one never reaches it."""
    opened = open_prepared(rig, lambda _: pytest.fail("it was called"))
    with pytest.raises(UsageError, match="an endpoint that only a log names"):
        opened.stream(request(params={"endpoint": "https://evil.example.net/v1"}))


def test_no_key_is_required(rig):
    open_prepared(rig, lambda prepared: prepared).check("m", {})


@pytest.mark.parametrize("name", ["demo", "scripted"])
def test_offline_models_send_nothing(name):
    with pytest.raises(UsageError, match="sends no requests"):
        open_provider(name, name, prepare=lambda prepared: prepared)


# ── the documented program ───────────────────────────────────────────────────────────────────────


def test_the_program_of_the_page(server, tmp_path):
    """docs/providers.md: the program runs as it is written, against a server in place of the gateway."""
    (program,) = programs("providers.md")
    server.play(Answer(RIGS["anthropic"].whole))
    variables = {"GATEWAY_URL": server.url, "GATEWAY_SECRET": "s3cret", "PATH": os.environ["PATH"]}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("Hi\n", "")
    (asked,) = server.asked
    assert asked.path == "/anthropic/v1/messages"
    assert re.fullmatch(r"[0-9a-f]{64}", asked.headers["x-signature"])
    assert "s3cret" not in str(asked)
