"""The socket that all doors share: whatever happens on it, the same word for it at each, and nothing is raised."""

import asyncio
import contextlib
import json
import socket
import ssl
import threading
from typing import ClassVar

import anyio
import httpx2
import pytest

from tests.loopback import CERTIFICATE, CUT, Answer, Hold, Loopback, events
from tests.loopback.server import Act
from tests.providers.asking import deltas, request, text_of
from tests.providers.wire_formats import KEY, RIGS
from wakelog.errors import UsageError
from wakelog.log.content import Finished
from wakelog.providers import HttpRequest
from wakelog.providers.endpoints import Server
from wakelog.providers.http_client import open_client, post, tls_context
from wakelog.providers.http_provider import HttpProvider, stream_reply

PAGE = Answer([b"<html>Please log in</html>"], 200, {"content-type": "text/html; charset=utf-8"})
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(params=RIGS)
def rig(request):
    return RIGS[request.param]


@pytest.fixture
def server():
    with Loopback() as running:
        yield running


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


# ── what a network does ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way_in", [(), (Answer([b""], 302, {"location": "/login"}),)], ids=["a page", "a way to it"])
def test_a_page_where_a_reply_should_be(rig, server, way_in):
    """RUN-8: a captive portal, or an address that is not that of the interface, is said to be one."""
    server.play(*way_in, PAGE)
    (end,) = rig.ask(server.url)
    assert (end.kind, end.retryable) == ("malformed", True)
    assert "text/html came where a stream was expected" in end.message
    assert "log in" not in end.message


def test_a_page_behind_an_error_is_not_told(rig, server):
    """LOG-13: no payload is shown."""
    server.play(Answer([b"<html>nginx</html>"], 404, {"content-type": "text/html"}))
    (end,) = rig.ask(server.url)
    assert end.kind == "not_found"
    assert "html" not in end.message


@pytest.mark.parametrize("acts", [[], [CUT]], ids=["nothing", "not even an end"])
def test_a_stream_in_which_nothing_came(rig, server, acts):
    server.play(Answer(acts))
    assert [end.kind for end in rig.ask(server.url)] == ["cut"]


def test_a_body_that_cannot_be_unpacked(rig, server):
    server.play(Answer([b"no gzip"], 200, {"content-type": "text/event-stream", "content-encoding": "gzip"}))
    assert [end.kind for end in rig.ask(server.url)] == ["malformed"]


def test_a_key_in_an_error_of_a_stream(rig, server):
    """LOG-13: whether a server quotes it at once or in the middle."""
    server.play(Answer([*rig.half, *events(rig.error, named=False)]))
    end = rig.ask(server.url)[-1]
    assert (end.kind, KEY in end.message, "you sent …" in end.message) == ("bad_request", False, True)


@pytest.mark.parametrize("said", ["Incorrect API key provided.", f"Incorrect API key provided: {KEY}"])
def test_a_key_that_is_refused(rig, server, said):
    """LOG-13: who refuses it and where it came from, so that somebody can set another; never the key."""
    refusal = Answer([json.dumps({"error": {"message": said}}).encode()], 401, {"content-type": "application/json"})
    variable, host = rig.way.vendor.key_variables[0], server.url.removeprefix("http://")
    server.play(refusal, refusal)
    (end,) = rig.ask(server.url)
    words = "(401): Incorrect API key provided"
    assert end.message == f"{host} does not accept the key in {variable}, or not for this {words}"
    (end,) = rig.ask(server.url, environ={variable: ""})
    assert end.message == f"{host} does not answer without a key, and {variable} is not set {words}"


def test_the_key_that_is_named_is_the_one_that_was_sent(server):
    """LOG-13: the second variable, where only that is set; or what whoever looked the key up says of it."""
    refusal = Answer([b"{}"], 401, {"content-type": "application/json"})
    server.play(refusal, refusal)
    rig, asked = RIGS["anthropic"], request(params={"endpoint": server.url})
    for key_source, words in [
        ("", "the key in ANTHROPIC_AUTH_TOKEN"),
        ("the key of the house", "the key of the house"),
    ]:
        door = HttpProvider(rig.way, environ={"ANTHROPIC_AUTH_TOKEN": KEY}, key_source=key_source)
        (end,) = deltas(door, asked)
        assert f"does not accept {words}, or not for this (401)" in end.message


def test_who_cannot_be_reached(rig):
    """LOG-13: host and port, and nothing else of an address that may hold a password."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    asked = request(params={"endpoint": f"http://me:pass@127.0.0.1:{port}/path?token=x"})
    (end,) = deltas(rig.open(), asked)
    assert end.message.startswith(f"127.0.0.1:{port} cannot be reached: ")
    assert not any(word in end.message for word in ("me:", "pass", "path", "token"))


def test_who_took_too_long(rig, server):
    gate = threading.Event()
    server.play(Answer([Hold(gate)]))
    (end,) = rig.ask(server.url, idle_timeout_s=0.2)
    gate.set()
    assert end.message.startswith(f"{server.url.removeprefix('http://')} took too long")


class _Broken:
    """An answer whose connection fails in its own way, behind half a reply."""

    status_code = 200
    next_request = None
    headers: ClassVar = {"content-type": "text/event-stream"}

    def __init__(self, acts, error):
        self._acts, self._error = acts, error

    async def aiter_bytes(self):
        for act in self._acts:
            yield act
        raise self._error


@pytest.mark.parametrize(
    "error", [ssl.SSLError("no record"), anyio.EndOfStream(), httpx2.ReadError("gone"), httpx2.RemoteProtocolError("?")]
)
def test_no_failure_of_a_connection_is_raised(rig, error):
    """RUN-8: TLS that breaks in the middle of a reply comes through unwrapped, and is a cut like any other."""

    server = Server("http://127.0.0.1:1", KEY)

    async def listen():
        asking = contextlib.nullcontext(_Broken(rig.half, error))
        parser = rig.way.create_parser(request())
        return [delta async for delta in stream_reply(asking, parser, rig.way.fault_of_response, server)]

    told = asyncio.run(listen())
    assert (text_of(told)[:3], told[-1].kind, told[-1].retryable) == ("So ", "cut", True)


# ── all had been said ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "ending", [[CUT], [], [b"data: {oops\n\n"], "silence"], ids=["cut", "end", "garbage", "silence"]
)
@pytest.mark.parametrize("name", ["anthropic", "openai-chat"])
def test_only_the_last_event_is_missing(name, server, ending):
    """RUN-8: the reason for its end had come, so nobody is asked, and paid, twice; however the connection ends."""
    rig, gate = RIGS[name], threading.Event()
    server.play(Answer([*rig.whole[:-1], *([Hold(gate)] if ending == "silence" else ending)]))
    told = rig.ask(server.url, idle_timeout_s=0.2 if ending == "silence" else 30)
    gate.set()
    assert (text_of(told), told[-1].stop_reason) == ("Hi", "stop")


def test_a_connection_that_cannot_be_closed(rig, server, monkeypatch):
    """RUN-8: what was said to the end stays said."""
    closing = httpx2.AsyncClient.__aexit__

    async def close(self, *details):
        await closing(self, *details)
        raise ssl.SSLError("it would not close")

    monkeypatch.setattr(httpx2.AsyncClient, "__aexit__", close)
    server.play(Answer(rig.whole))
    assert isinstance(rig.ask(server.url)[-1], Finished)


# ── redirects, certificates, silence ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_server_is_not_followed(rig, server, status):
    """Law 14: neither the key nor the conversation goes to a server that only a redirect names."""
    with Loopback() as other:
        server.play(Answer([b""], status, {"location": f"{other.url}/v1/other"}))
        (end,) = rig.ask(server.url)
        assert other.asked == []
        assert (end.kind, end.retryable) == ("malformed", True)
        assert f"redirects to {other.url.removeprefix('http://')}" in end.message


@pytest.mark.parametrize(
    "place", ["https://127.0.0.1:{port}/v1", "http://localhost:{port}/v1", "http://me@evil.example/"]
)
def test_what_is_another_server(rig, server, place):
    """Law 14: another scheme or name is another server, also on the same machine."""
    server.play(Answer([b""], 307, {"location": place.format(port=server.url.rpartition(":")[2])}))
    (end,) = rig.ask(server.url)
    assert (end.kind, len(server.asked)) == ("malformed", 1)


def test_a_redirect_on_the_same_server_is_followed(rig, server):
    """The same request is sent again, with its body and its key."""
    server.play(Answer([b""], 308, {"location": "/moved/v2"}), Answer(rig.whole))
    assert isinstance(rig.ask(server.url)[-1], Finished)
    first, second = server.asked
    assert (second.path, second.body, second.headers) == ("/moved/v2", first.body, first.headers)


def test_redirects_end(rig):
    with Loopback(lambda asked: Answer([b""], 307, {"location": asked.path})) as server:
        (end,) = rig.ask(server.url)
        assert (end.kind, end.retryable, len(server.asked)) == ("connection", True, 6)


@pytest.fixture
def _new_tls_context():
    """Clear the TLS context of this process, before and after the test."""
    tls_context.cache_clear()
    yield
    tls_context.cache_clear()


@pytest.mark.usefixtures("_new_tls_context")
def test_a_certificate_must_be_trusted(rig, monkeypatch):
    """Law 14: nothing is sent to a server with an untrusted certificate; SSL_CERT_FILE names trusted ones."""
    with Loopback(tls=True) as server:
        (end,) = rig.ask(server.url)
        assert (end.kind, "CERTIFICATE_VERIFY_FAILED" in end.message, server.asked) == ("connection", True, [])
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        tls_context.cache_clear()
        server.play(Answer(rig.whole))
        assert isinstance(rig.ask(server.url)[-1], Finished)


@pytest.mark.usefixtures("_new_tls_context")
@pytest.mark.parametrize("content", [None, "no certificate"], ids=["no file", "another file"])
def test_certificates_that_cannot_be_read(rig, monkeypatch, tmp_path, content):
    """One line, before anything is written or sent."""
    path = tmp_path / "certificates.pem"
    if content:
        path.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    with pytest.raises(UsageError, match="the certificates cannot be read") as error:
        rig.open().stream(request())
    assert error.value.hint == "check SSL_CERT_FILE and SSL_CERT_DIR"


def test_a_silent_connection_is_kept_alive(server):
    """A model that reasons for minutes sends nothing; routers drop a connection without keep-alive probes."""

    async def options():
        asked = HttpRequest(f"{server.url}/v1/x", {}, b"{}")
        async with post(open_client(asked.url, 30), asked) as response:
            connection = response.extensions["network_stream"].get_extra_info("socket")
            return (
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
            )

    server.play(Answer([]))
    assert asyncio.run(options()) == (1, 60)


def test_an_error_that_does_not_end_is_classified(rig, server):
    """RUN-8: for an error body that is cut, or longer than the limit, the status and the headers decide."""
    bodies: list[list[Act]] = [[b'{"error"', CUT], [b" " * 4096] * 40]
    for acts in bodies:
        server.play(Answer(acts, 429, {"retry-after": "3", "content-type": "application/json"}))
        (end,) = rig.ask(server.url)
        assert (end.kind, end.retryable, end.delay_ms) == ("rate_limited", True, 3000)


# ── addresses and proxies ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("more", ["", "/"])
@pytest.mark.parametrize("prefix", ["", "/behind/a/proxy"])
def test_addresses(rig, server, prefix, more):
    """A path in front, a slash behind, and for Anthropic with or without /v1."""
    for path in ("/v1", rig.path):
        server.play(Answer(rig.whole))
        told = deltas(rig.open(), request(params={"endpoint": f"{server.url}{prefix}{path}{more}"}))
        assert isinstance(told[-1], Finished)
    assert len({asked.path for asked in server.asked}) == 1
    assert server.asked[0].path.startswith(f"{prefix}/v1/")
    assert "//" not in server.asked[0].path


def test_this_machine_is_asked_without_a_proxy(rig, server, monkeypatch):
    """Law 14: a key for this machine does not leave it; and a proxy would ask a machine of its own."""
    with Loopback() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        server.play(Answer(rig.whole))
        assert isinstance(rig.ask(server.url)[-1], Finished)
        assert proxy.asked == []


def test_others_are_asked_through_the_proxy(rig, server, monkeypatch):
    """The proxy that the environment names, which no name server has to know anything for."""
    monkeypatch.setenv("HTTP_PROXY", server.url)
    server.play(Answer(rig.whole))
    environ = {rig.way.vendor.url_variable: "http://far.example"}
    assert isinstance(rig.ask("http://far.example", environ=environ)[-1], Finished)
    assert server.asked[0].path.startswith("http://far.example/v1/")


@pytest.mark.parametrize(
    ("variable", "value", "hint"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:1", "socksio"),
        ("HTTPS_PROXY", "gopher://x", "HTTPS_PROXY"),
        ("HTTPS_PROXY", "http://[::1", "HTTPS_PROXY"),
    ],
)
def test_a_proxy_that_cannot_be_used(rig, monkeypatch, variable, value, hint):
    """One line, before anything is written or sent."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError) as error:
        rig.open().stream(request())
    assert hint in error.value.hint
    assert "\n" not in error.value.message
    assert value not in error.value.message


# ── the body is ours ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("extra", [{"model": None}, {"max_tokens": None, "messages": None, "input": None}])
def test_extra_takes_anything_out(rig, server, extra):
    """Params: whatever is taken out of a body, nothing breaks here; what comes of it the server says."""
    server.play(Answer(rig.whole))
    assert isinstance(rig.ask(server.url, extra=extra)[-1], Finished)


def test_a_reply_is_always_streamed(rig, server):
    """RUN-8: what is no stream could not be read."""
    server.play(Answer(rig.whole))
    rig.ask(server.url, extra={"stream": False})
    assert server.asked[0].json["stream"] is True


def test_the_bodys_own_names_hold(rig, server):
    server.play(Answer(rig.whole))
    rig.ask(server.url)
    assert server.asked[0].json["model"] == "m"
    said = server.asked[0].json.get("messages") or server.asked[0].json["input"]
    assert len(said) == 1
