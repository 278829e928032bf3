"""RUN-7: servers behind a URL: real ones on the loopback, restarted and killed, and addresses without a server."""

import asyncio
import json

import pytest

from tests.kernel.watching import until
from tests.loopback import CUT, Answer, Loopback
from tests.patience import PATIENCE_S
from tests.tools.mcp.serving import asking, listening, outcome
from wakelog.errors import UsageError
from wakelog.ports.runtime import ToolOutcome
from wakelog.tools.mcp import McpServer, ServerPool, guard

JSON = {"content-type": "application/json"}


def _at(url, **more):
    return McpServer(name="web", url=url, **more)


def test_listed_called_cancelled_and_killed(tmp_path):
    """One server: its answers, a cancel that it gets, and its death as an error."""

    async def main(process, url):
        async with asking(_at(url)) as asked:
            assert await asked.run("add", a=2, b=3) == ToolOutcome("5")
            assert (await asked.run("refuse")).is_error
            waiting = asyncio.create_task(asked.run("wait", name="w"))
            await asyncio.to_thread(until, (tmp_path / "w-began").exists)
            waiting.cancel()
            await asyncio.wait({waiting})
            assert waiting.cancelled()
            await asyncio.to_thread(until, (tmp_path / "w-stopped").exists)
            assert await asked.run("add", a=1, b=1) == ToolOutcome("2")
            waiting = asyncio.create_task(asked.run("wait", name="v"))
            await asyncio.to_thread(until, (tmp_path / "v-began").exists)
            process.kill()
            return await waiting, await asked.run("add", a=1, b=1)

    with listening(tmp_path) as (process, url):
        died, after = asyncio.run(main(process, url))
    assert died.is_error
    assert "whether it did what was asked is not known" in died.text
    assert after.text.startswith("The MCP server web did not start: ConnectError")


def test_secrets_come_from_variables(tmp_path, monkeypatch):
    """Law 14: the value names the variables, the request carries their content."""
    monkeypatch.setenv("TOKEN", "t0ken\n")
    monkeypatch.setenv("KEY", "k3y")
    monkeypatch.setenv("TORN", "s3cret\nline")

    async def main(server):
        async with asking(server) as asked:
            return [(await asked.run("header", name=name)).text for name in ("authorization", "x-key")]

    with listening(tmp_path, "json") as (_, url):
        assert asyncio.run(main(_at(url, bearer_env="TOKEN", headers_from={"X-Key": "KEY"}))) == ["Bearer t0ken", "k3y"]
        with pytest.raises(UsageError, match="web did not start: the variable ABSENT is not set"):
            asyncio.run(main(_at(url, bearer_env="ABSENT")))
        with pytest.raises(UsageError, match=r"web did not start: the variable TORN holds what no header can;"):
            asyncio.run(main(_at(url, bearer_env="TORN")))
        large = outcome(_at(url), "huge", size=guard.LINE_BYTES + 1)
        assert f"the answer has more than {guard.LINE_BYTES:,} bytes" in large.text
        assert large.is_error


# ── servers that are told what to say ────────────────────────────────────────────────────────────

ABSENT = Answer([b""], status=405, headers={})
UNKNOWN = Answer([b""], status=404, headers={})
NOTED = Answer([b""], status=202, headers={})
GREETING = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "w", "version": "1"}}
TOOLS = {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}
TWO = {"content": [{"type": "text", "text": "2"}]}


class Told:
    """A server of an old protocol version with one session at a time, whose answers are set by the test."""

    def __init__(self, call=None, tools=None):
        self.sessions = 0
        self.restarted = False
        self._call = call
        self._tools = tools

    def __call__(self, asked):
        if not asked.body:
            return ABSENT
        message = asked.json
        match message["method"]:
            case "initialize":
                self.sessions += 1
                self.restarted = False
                return self._said(message, GREETING)
            case "notifications/initialized":
                return NOTED
            case "tools/list" if asked.headers.get("mcp-session-id") == f"s{self.sessions}":
                return self._tools or self._said(message, TOOLS)
            case "tools/call" if not self.restarted:
                return self._call or self._said(message, TWO)
        return UNKNOWN

    def _said(self, message, result):
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        return Answer([body], headers={**JSON, "mcp-session-id": f"s{self.sessions}"})


def test_a_server_that_was_restarted_between_two_calls():
    """It does not know the session and has done nothing: the call is repeated once in a new session."""
    told = Told()

    async def main(url):
        async with ServerPool() as servers:
            first = await servers.call(_at(url), "add", {})
            told.restarted = True
            return first, await servers.call(_at(url), "add", {})

    with Loopback(told) as server:
        assert asyncio.run(main(server.url)) == (ToolOutcome("2"), ToolOutcome("2"))
    assert told.sessions == 2


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            Answer([b"<html>"], headers={"content-type": "text/html"}),
            "is not known: Unexpected content type: text/html",
        ),
        (Answer([b"{bad"], headers=JSON), "is not known: Failed to parse JSON"),
        (Answer([b"no"], status=401), "[HTTP 401]"),
        (Answer([b"no"], status=504), "is not known: Server returned an error response\nIts last words:\n[HTTP 504]"),
        (NOTED, "is not known: server answered a request with 202"),
        (Answer([b"x"], headers={**JSON, "content-encoding": "gzip"}), "the answer is compressed"),
        (Answer([b'{"jsonrpc":"2.0","id":4,"result":{"content":3}}'], headers=JSON), "gave no result"),
        (Answer([b": nothing\n\n"]), "SSE stream ended without a response"),
        (Answer([b"data: ", b"x" * (guard.LINE_BYTES + 1)]), "is not known: SSE stream failed"),
        (Answer([b"event: message\n", CUT]), "is not known: SSE stream ended without a response"),
        (UNKNOWN, "forgets every connection at once"),
    ],
    ids=["page", "no JSON", "401", "504", "202", "packed", "no content", "no event", "huge", "cut", "forgetful"],
)
def test_an_invalid_answer_is_an_error(answer, says):
    """Bad JSON, an HTML page, an error status: an error message, and the agent continues."""

    async def main(url):
        async with ServerPool() as servers:
            return await servers.call(_at(url, timeout_s=PATIENCE_S), "add", {})

    with Loopback(Told(answer)) as server:
        told = asyncio.run(main(server.url))
    assert told.is_error
    assert says in told.text


def test_a_server_that_loses_the_session_before_listing_its_tools():
    """RUN-7: one line, when a run begins and when a tool is called."""

    async def main(url):
        async with ServerPool() as servers:
            with pytest.raises(UsageError, match="The MCP server web forgets every connection at once"):
                await servers.list_tools(_at(url))
            return await servers.call(_at(url), "add", {})

    with Loopback(Told(tools=UNKNOWN)) as server:
        assert asyncio.run(main(server.url)) == ToolOutcome("The MCP server web forgets every connection at once", True)


def test_redirects_are_not_followed(monkeypatch):
    """Law 14: a token is sent to its own server only."""
    monkeypatch.setenv("TOKEN", "t0ken")
    with Loopback(lambda _: UNKNOWN) as other:
        away = Answer([b""], status=307, headers={"location": other.url})
        with Loopback(lambda _: away) as server, pytest.raises(UsageError, match=r"Redirect to .* not followed"):
            outcome(_at(server.url, bearer_env="TOKEN"), "add")
        with Loopback(Told(away)) as server:
            assert outcome(_at(server.url, bearer_env="TOKEN"), "add").is_error
        assert other.asked == []


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_an_address_without_a_server(status):
    """The error contains the HTTP status."""
    nothing = Answer([b"no"], status=status)
    with Loopback(lambda _: nothing) as server, pytest.raises(UsageError) as caught:
        outcome(_at(server.url), "add")
    assert f"[HTTP {status}]" in caught.value.message
    assert "\n" not in caught.value.message
