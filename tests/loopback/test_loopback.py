"""The loopback server sends what it was given, so that the tests that use it mean something."""

import contextlib
import http.client
import json
import threading

import pytest

from tests.loopback import CUT, Answer, Hold, Loopback, events
from tests.patience import PATIENCE_S


@pytest.fixture
def ask():
    """Send a request to a server, and close the connection after the test."""
    with contextlib.ExitStack() as opened:

        def asking(server, body=None):
            place = server.url.removeprefix("http://")
            connection = opened.enter_context(contextlib.closing(http.client.HTTPConnection(place, timeout=PATIENCE_S)))
            connection.request("POST", "/v1/x", json.dumps(body or {}), {"X-Key": "k"})
            return connection.getresponse()

        yield asking


def test_answers_come_in_order_and_requests_are_kept(ask):
    with Loopback() as server:
        server.play(Answer(events({"type": "a", "n": 1})), Answer([b"{}"], 429, {"retry-after": "3"}))
        first, second, third = ask(server, {"q": 1}), ask(server), ask(server)
        assert first.read() == b'event: a\ndata: {"type": "a", "n": 1}\n\n'
        assert (second.status, second.headers["retry-after"], third.status) == (429, "3", 500)
    assert [(one.path, one.json, one.headers["x-key"]) for one in server.asked[:1]] == [("/v1/x", {"q": 1}, "k")]


def test_a_stream_is_held_and_cut(ask):
    gate, reached = threading.Event(), threading.Event()
    with Loopback() as server:
        server.play(Answer([b"one", Hold(gate, reached), b"two", CUT]))
        answer = ask(server)
        assert answer.read(3) == b"one"
        assert reached.wait(PATIENCE_S)
        gate.set()
        assert answer.read(3) == b"two"
        with pytest.raises(http.client.IncompleteRead):
            answer.read()
