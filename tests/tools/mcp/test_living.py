"""RUN-7: lifetime of servers: shared by all tasks inside the pool, restarted after a crash, ended with the last one."""

import asyncio
import json
import os
import signal
import sys

from tests.faults.processes import PATIENCE_S
from tests.kernel.watching import until
from tests.tools.mcp.serving import asking, children, plain
from tests.tools.mcp.waker import Place
from tests.tools.test_commands_shell import Watched
from wakelog.log.content import Prompt, ToolResult
from wakelog.log.entry import Message
from wakelog.ports.runtime import ToolOutcome
from wakelog.reading import read_log
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.tools.mcp import McpServer, ServerPool, mcp_tools


async def _pids(servers, server=None):
    return [int(word) for word in (await servers.call(server or plain(), "pids", {})).text.split()]


# ── entering and leaving ────────────────────────────────────────────────────────────────────────────────


def test_tasks_inside_share_a_server_and_it_ends_with_the_last():
    async def main():
        servers = ServerPool()
        async with servers:
            first = await _pids(servers)
            watched = Watched(first)
            async with servers:
                second = await _pids(servers)
            third = await _pids(servers)
        return first == second == third, watched.all_end(), await servers.call(plain(), "pids", {})

    shared, ended, outside = asyncio.run(main())
    assert (shared, ended, outside.is_error) == (True, True, True)


def test_entering_while_servers_end_starts_new_ones():
    """A server that is being ended is not used any more, and the new one is not ended with it."""

    async def main():
        servers = ServerPool()
        await servers.__aenter__()
        before = await _pids(servers, plain("deaf"))
        leaving = asyncio.create_task(servers.__aexit__(None, None, None))
        await asyncio.sleep(0)
        async with servers:
            after = await _pids(servers, plain("deaf"))
            await leaving
            return before, after, await _pids(servers, plain("deaf"))

    before, after, still = asyncio.run(main())
    assert before != after
    assert after == still


def test_one_pool_in_several_event_loops():
    servers = ServerPool()

    async def main():
        async with servers:
            return await _pids(servers)

    assert asyncio.run(main()) != asyncio.run(main())


def test_wakes_inside_share_a_server(tmp_path):
    """A pool that the caller has entered keeps servers from wake to wake; a killed one is restarted."""
    place = Place(tmp_path)
    place.begin(plain(), "pids")
    _script(tmp_path, 3)

    async def main():
        servers = ServerPool()
        runtime = LiveRuntime(place.store, servers=servers)
        async with servers:
            await wake(runtime, "s")
            await _again(runtime, place)
            os.kill(_seen(place)[-1], signal.SIGKILL)
            (connection,) = servers._alive.values()
            await asyncio.wait([connection._task], timeout=PATIENCE_S)
            await _again(runtime, place)
            left = Watched([_seen(place)[-1]])
        return left.all_end(), children(os.getpid())

    before = children(os.getpid())
    ended, after = asyncio.run(main())
    first, second, third = _seen(place)
    assert first == second != third
    assert (ended, after - before) == (True, set())


async def _again(runtime, place):
    Session(place.store, "s").append(Message(message=Prompt(content="Look again.")))
    await wake(runtime, "s")


def _script(folder, turns):
    """The model asks for the pid of the server in every turn."""
    call = {"toolCalls": [{"name": "mcp__plain__pids", "input": {}}]}
    lines = [json.dumps(line) + "\n" for line in [call, {"text": "Seen."}] * turns]
    (folder / "script.jsonl").write_text("".join(lines))


def _seen(place):
    values = [entry.value for entry in read_log(place.store, "s").entries]
    said = [value.message for value in values if isinstance(value, Message)]
    return [int(message.text.split()[0]) for message in said if isinstance(message, ToolResult)]


# ── one that does not start ──────────────────────────────────────────────────────────────────────


def test_a_starting_server_without_waiters_is_ended_while_others_run():
    """It never completed its handshake; the next call starts it again."""

    async def main():
        async with ServerPool() as servers:
            kept = await _pids(servers)
            before = children(os.getpid())
            mute = plain("mute")
            waiting = [asyncio.create_task(servers.list_tools(mute)) for _ in range(2)]
            await asyncio.to_thread(until, lambda: any(each._waiting == 2 for each in servers._started))
            (guarding,) = await asyncio.to_thread(until, lambda: children(os.getpid()) - before)
            first, second = waiting
            first.cancel()
            await asyncio.wait({first})
            waited_for = guarding in children(os.getpid())
            second.cancel()
            await asyncio.wait({second})
            return waited_for, guarding in children(os.getpid()), await _pids(servers) == kept

    assert asyncio.run(main()) == (True, False, True)


def test_a_call_is_cancelled_at_once_though_its_server_ends_slowly(tmp_path):
    """RUN-12: a cancelled call waits for nothing; a cancelled listing waits for the end of its server."""
    begun = tmp_path / "begun"
    words = f"trap '' TERM INT; touch '{begun}'; while :; do sleep 1; done"
    stubborn = McpServer(name="stubborn", command=("/bin/sh", "-c", words))

    async def cancelled(servers, asking):
        begun.unlink(missing_ok=True)
        task = asyncio.create_task(asking)
        await asyncio.to_thread(until, begun.exists)
        (connection,) = servers._alive.values()
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled(), connection.is_over, connection.is_gone

    async def main():
        async with ServerPool() as servers:
            called = await cancelled(servers, servers.call(stubborn, "t", {}))
        async with servers:
            return called, await cancelled(servers, servers.list_tools(stubborn))

    assert asyncio.run(main()) == ((True, True, False), (True, True, True))


# ── what is listed ───────────────────────────────────────────────────────────────────────────────


def test_a_malformed_tool_affects_no_other_tool():
    """RUN-7: it is left out with a notice; the others are listed and run, also one of the same name."""
    heard: list[str] = []

    async def main():
        async with asking(plain("malformed"), notices=heard) as asked:
            return list(asked.tools), await asked.run("add", a=1, b=1)

    names, ran = asyncio.run(main())
    assert (len(names), ran) == (12, ToolOutcome("2"))
    assert "mcp__plain__die" in names
    left = "of the MCP server plain is left out: it is not described as the protocol asks"
    assert heard == [
        f"the tool 'die' {left} (inputSchema.properties)",
        f"the tool 'list' {left} (inputSchema.type)",
        f"the tool 'none' {left} (inputSchema)",
        f"the tool 'without a name' {left}",
    ]


HEADERS = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("odd", log_level="CRITICAL")
server.add_tool(lambda a: a, name="good", description="")
server.add_tool(lambda a: a, name="bad", description="")
server._tool_manager._tools["bad"].parameters["properties"]["a"]["x-mcp-header"] = "not a header"
server.run("stdio")
"""


def test_a_tool_that_the_sdk_drops_is_reported():
    """The SDK drops tools whose headers cannot be sent, and only logs it."""
    heard: list[str] = []

    async def main():
        async with ServerPool(notice=heard.append) as servers:
            return await servers.list_tools(McpServer(name="odd", command=(sys.executable, "-c", HEADERS)))

    assert [tool["name"] for tool in asyncio.run(main())] == ["mcp__odd__good"]
    assert heard == [
        "the tool 'bad' of the MCP server odd is left out: the headers that its schema asks for cannot be sent"
    ]


def test_each_new_session_requests_a_new_listing():
    """Servers outlive sessions: changed tools apply from the next session on."""

    async def main():
        async with ServerPool() as servers:
            counts = [len(await servers.list_tools(plain("growing"))) for _ in range(3)]
            return counts, len(servers._started)

    (first, *others), begun = asyncio.run(main())
    assert (others, begun) == ([first + 1, first + 2], 1)


def test_the_same_notice_is_given_once():
    """The tools of a log are resolved in every step."""
    heard: list[str] = []
    servers = ServerPool(notice=heard.append)
    for _ in range(3):
        mcp_tools([{"name": "t", "from": {"mcp": {"tool": "t", "name": "a"}}}], servers)
    assert len(heard) == 1


def test_crashed_servers_leave_no_state():
    """A server that crashes repeatedly in a long chat leaves nothing behind."""

    async def main():
        async with ServerPool() as servers:
            for _ in range(5):
                await servers.call(plain(), "die", {})
            return len(servers._started)

    assert asyncio.run(main()) <= 2
