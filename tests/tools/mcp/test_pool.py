"""RUN-7: servers as processes: listed, called, cancelled, killed; whatever they do, the agent continues."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys

import msgspec
import pytest

from tests.faults.processes import INTERPRETER, PATIENCE_S, environment
from tests.kernel.watching import until
from tests.tools.mcp.serving import SDK, asking, children, outcome, plain, running_servers
from tests.tools.test_commands_shell import Watched
from wakelog.errors import UsageError
from wakelog.ports.runtime import ToolInvocation, ToolOutcome
from wakelog.tools.mcp import McpServer, ServerPool, guard, mcp_tools
from wakelog.tools.mcp.pool import McpTool

UNKNOWN = "gave no result, and whether it did what was asked is not known"


# ── listed and called ────────────────────────────────────────────────────────────────────────────


def test_every_page_is_listed():
    async def main():
        async with ServerPool() as servers:
            return await servers.list_tools(plain(trusted=True))

    told = asyncio.run(main())
    names = ["add", "die", "environment", "flood", "folder", "garbage", "hang", "huge", "pids"]
    names += ["progress", "refuse", "stall"]
    assert [tool["name"] for tool in told] == [f"mcp__plain__{name}" for name in names]
    assert [tool["name"] for tool in told if tool["replay"] == "safe"] == ["mcp__plain__add", "mcp__plain__stall"]


def test_tools_run_from_their_declarations_alone():
    """RUN-19: in another process without configuration, the declaration in the log starts the server."""

    async def declared():
        async with ServerPool() as servers:
            return await servers.list_tools(plain())

    async def main(told):
        async with ServerPool() as servers:
            tools = mcp_tools([{"name": "read"}, *told], servers)
            assert not servers._started
            ran = await tools["mcp__plain__add"].run(ToolInvocation("r", "c", {"a": 2, "b": 3}))
            return (
                ran,
                list(tools),
                [tool.declared() for tool in tools.values() if isinstance(tool, McpTool)],
                len(servers._started),
            )

    told = json.loads(json.dumps(asyncio.run(declared())))
    ran, names, again, begun = asyncio.run(main(told))
    assert ran == ToolOutcome("5")
    assert (names, again, begun) == ([tool["name"] for tool in told], told, 1)


def test_a_server_of_the_sdk(tmp_path):
    """Concurrent calls share one process; a failing tool is an error result; progress is live output."""
    server = McpServer(name="sdk", command=(sys.executable, "-m", SDK, str(tmp_path), "stdio"), env=("PYTHONPATH",))

    async def main():
        async with asking(server) as asked:
            sums = await asyncio.gather(*(asked.run("add", a=number, b=1) for number in range(20)))
            refused = await asked.run("refuse")
            wrong = await asked.run("add", a="x")
            shown: list[str] = []
            assert await asked.run("climb", shown.append, steps=3) == ToolOutcome("there")
            flood: list[str] = []
            assert await asked.run("climb", flood.append, steps=1000) == ToolOutcome("there")
            with pytest.raises(ZeroDivisionError):
                await asked.run("climb", lambda _: 1 / 0, steps=1)
            return sums, refused, wrong, shown, len(flood), len(asked.servers._started)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
        sums, refused, wrong, shown, flood, begun = asyncio.run(main())
    assert sums == [ToolOutcome(str(number + 1)) for number in range(20)]
    assert refused.is_error
    assert wrong.is_error
    assert sorted(shown) == ["[1/3] step 1\n", "[2/3] step 2\n", "[3/3] step 3\n"]
    assert (flood <= 200, begun) == (True, 1)


def test_an_error_of_a_server_is_one_line():
    """Law 13: its message is escaped."""
    assert outcome(plain(), "refuse") == ToolOutcome(
        "The MCP server plain gave no result: not today [2J", is_error=True
    )


def test_arguments_that_cannot_be_sent():
    """A lone surrogate cannot be encoded: an error, and the next call is served."""

    async def main():
        async with asking(plain()) as asked:
            return await asked.run("add", a="\ud800"), await asked.run("add", a=1, b=1)

    half, after = asyncio.run(main())
    assert (half.is_error, after) == (True, ToolOutcome("2"))


def test_server_tools_have_no_receipts():
    async def main():
        async with ServerPool() as servers:
            declared = {"name": "mcp__plain__t", "from": {"mcp": {**plain().value, "tool": "t"}}}
            (tool,) = mcp_tools([declared], servers).values()
            call = ToolInvocation("r", "c", {})
            return await tool.prepare(call), await tool.receipt(call), tool.replay

    assert asyncio.run(main()) == ({}, "cannot say", "never")


def test_a_log_cannot_make_an_untrusted_tool_safe():
    """Law 6: the tool of an untrusted server is `never`, whatever is declared."""
    servers = ServerPool()
    for trusted, word in ((True, "safe"), (False, "never")):
        origin = {"mcp": {**plain(trusted=trusted).value, "tool": "t"}}
        declared = {"name": "mcp__plain__t", "replay": "safe", "from": origin}
        (tool,) = mcp_tools([declared], servers).values()
        assert tool.replay == word


def test_an_invalid_declaration_is_reported():
    heard: list[str] = []
    found = mcp_tools([{"name": "t", "from": {"mcp": {"tool": "t", "name": "a"}}}], ServerPool(notice=heard.append))
    assert (found, heard) == ({}, ["the MCP server a needs either a command or a url"])


# ── what a server is given ───────────────────────────────────────────────────────────────────────


def test_the_environment_of_a_server(monkeypatch):
    """Law 14: a server gets the few variables that every program needs, and those of its configuration."""
    monkeypatch.setenv("MY_API_KEY", "secret")
    monkeypatch.setenv("PROMISED", "here")
    seen = json.loads(outcome(plain(env=("PROMISED",)), "environment").text)
    assert seen["PROMISED"] == "here"
    assert set(seen) <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "PROMISED", "LC_CTYPE"}


def test_a_configured_variable_that_is_not_set():
    with pytest.raises(UsageError, match="plain did not start: the variable NOT_THERE is not set"):
        outcome(plain(env=("NOT_THERE",)), "add")


def test_the_folder_of_a_server(tmp_path):
    (tmp_path / "sub").mkdir()

    async def main(server):
        async with asking(server, str(tmp_path)) as asked:
            return (await asked.run("folder")).text

    assert asyncio.run(main(plain())) == os.path.realpath(tmp_path)
    assert asyncio.run(main(plain(cwd="sub"))) == os.path.realpath(tmp_path / "sub")
    with pytest.raises(UsageError, match="there is no folder"):
        asyncio.run(main(plain(cwd="none")))


def test_its_errors_stay_off_the_terminal():
    """Standard error of a server and log lines of the SDK are shown only if the server dies."""
    program = (
        "from tests.tools.mcp.serving import outcome, plain\n"
        "print(outcome(plain('babble'), 'add', a=1, b=1).text, outcome(plain(), 'die').is_error)\n"
        "print(outcome(plain(), 'progress').text)"
    )
    done = subprocess.run([INTERPRETER, "-c", program], env=environment(), capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("2 True\nthere\n", "")


# ── servers that will not start ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (McpServer(name="none", command=("no-such-program",)), "cannot start no-such-program: No such file"),
        (plain("dead"), "Its last words: no licence found [exit status 3]"),
        (plain("mute", timeout_s=0.5), "did not start within 0.5 s"),
        (McpServer(name="cat", command=("cat",), timeout_s=0.5), "cat did not start"),
        (McpServer(name="true", command=("true",)), "[exit status 0]"),
        (plain("endless"), "did not list its tools: its list of tools has more than 100 pages"),
    ],
    ids=["missing", "dead", "mute", "echo", "nothing", "endless"],
)
def test_a_server_that_will_not_start(server, says):
    """One clear line when a run begins, and an error result when a tool is called."""

    async def main():
        async with ServerPool() as servers:
            ran = await servers.call(server, "add", {})
            with pytest.raises(UsageError) as caught:
                await servers.list_tools(server)
            return ran, caught.value

    ran, error = asyncio.run(main())
    assert ran.is_error
    assert says in " ".join(ran.text.split())
    assert says in error.message
    assert "\n" not in error.message
    assert error.hint


def test_a_server_of_an_old_protocol_version():
    """It exits at the newest handshake, and is started again with the old one."""
    assert outcome(plain("old"), "add", a=1, b=1) == ToolOutcome("2")


def test_a_server_that_ignores_unknown_requests():
    """RUN-7: the first request asks for a newer protocol; without an answer `initialize` follows in time."""
    assert outcome(plain("ignoring", timeout_s=9), "add", a=1, b=1) == ToolOutcome("2")


def test_without_the_sdk_there_is_a_hint(monkeypatch):
    monkeypatch.setitem(sys.modules, "wakelog.tools.mcp.connection", None)

    async def main():
        async with ServerPool() as servers:
            return await servers.call(plain(), "add", {})

    assert "pip install 'wakelog[mcp]'" in asyncio.run(main()).text


def test_the_sdk_is_loaded_when_a_server_is_needed():
    """Its import takes longer than all others together."""
    program = "import sys, wakelog.tools.mcp; print(sorted({'mcp', 'httpx2', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([INTERPRETER, "-c", program], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_outside_of_its_context_nothing_is_started():
    """Servers started there would not be ended."""
    told = asyncio.run(ServerPool().call(plain(), "add", {}))
    assert (told.is_error, "ServerPool is used outside of its `async with`" in told.text) == (True, True)


# ── servers that go wrong ────────────────────────────────────────────────────────────────────────


def test_a_crash_is_an_error_and_the_next_call_restarts_the_server():
    """RUN-7: a dead server is an error result; its last output is quoted without control characters."""

    async def main():
        async with asking(plain()) as asked:
            first = (await asked.run("pids")).text
            died = await asked.run("die")
            second = (await asked.run("pids")).text
            os.kill(int(second.split()[0]), signal.SIGKILL)
            done, _ = await asyncio.wait([asked.servers._started[-1]._task], timeout=PATIENCE_S)
            assert done, "the end of the server was not noticed"
            return first, died, second, (await asked.run("pids")).text

    first, died, second, third = asyncio.run(main())
    assert len({first, second, third}) == 3
    words = "I see [31m the light\n[killed by signal 9]"
    assert died == ToolOutcome(f"The MCP server plain {UNKNOWN}: it is gone\nIts last words:\n{words}", is_error=True)


def test_all_open_calls_of_a_dead_server_fail(tmp_path):
    async def main():
        async with asking(plain()) as asked:
            hanging = [asyncio.create_task(asked.run("hang", file=str(tmp_path / "f"))) for _ in range(3)]
            await asyncio.to_thread(until, lambda: _lines(tmp_path / "f") == 3)
            os.kill(int((await asked.run("pids")).text.split()[0]), signal.SIGKILL)
            return await asyncio.gather(*hanging)

    assert all(each.is_error and UNKNOWN in each.text for each in asyncio.run(main()))


def test_a_call_without_an_answer_times_out(tmp_path):
    """The server is notified, and continues to serve."""

    async def main():
        async with asking(plain()) as asked:
            late = await _impatiently(asked, "hang", file=str(tmp_path / "f"))
            after = await asked.run("add", a=1, b=1)
            return late, after, await asked.run("die"), len(asked.servers._started)

    late, after, died, begun = asyncio.run(main())
    assert late == ToolOutcome(f"The MCP server plain {UNKNOWN}: it took longer than 0.1 s", is_error=True)
    assert (after, begun) == (ToolOutcome("2"), 1)
    assert "asked to stop" in died.text


def test_an_answer_that_is_not_a_message_is_skipped():
    """It is kept for the error report, and the server continues to serve."""
    note = "[it sent something that is no message of the protocol]"

    async def main():
        async with asking(plain()) as asked:
            waiting = asyncio.create_task(asked.run("garbage"))
            await asyncio.to_thread(until, lambda: note in asked.servers._started[0]._stderr.text())
            waiting.cancel()
            await asyncio.wait({waiting})
            return await asked.run("add", a=1, b=1), await asked.run("die"), len(asked.servers._started)

    after, died, begun = asyncio.run(main())
    assert (after, begun) == (ToolOutcome("2"), 1)
    assert note in died.text


async def _impatiently(asked, name, **arguments):
    """Run a tool with a shorter time limit than the server was started with."""
    connection = asked.servers._started[0]
    server = connection._server
    connection._server = msgspec.structs.replace(server, timeout_s=0.1)
    try:
        return await asked.run(name, **arguments)
    finally:
        connection._server = server


def test_a_cancelled_call_ends_at_once_and_the_server_is_notified(tmp_path):
    """RUN-12: other calls are not affected."""

    async def main():
        async with asking(plain()) as asked:
            hanging = asyncio.create_task(asked.run("hang", file=str(tmp_path / "f")))
            await asyncio.to_thread(until, lambda: _lines(tmp_path / "f") == 1)
            hanging.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await hanging
            assert hanging.cancelled()
            assert await asked.run("add", a=1, b=1) == ToolOutcome("2")
            died = await asked.run("die")
            return died.text, len(asked.servers._started)

    words, begun = asyncio.run(main())
    assert "asked to stop" in words
    assert begun == 1


def test_a_large_result_is_complete_and_an_endless_one_ends_the_server():
    """A message over the limit ends the server before it fills the memory."""
    size = guard.LINE_BYTES // 2
    assert outcome(plain(), "huge", size=size) == ToolOutcome("x" * size)
    flooded = outcome(plain(), "flood")
    assert f"[ended: it sent a message of more than {guard.LINE_BYTES:,} bytes]" in flooded.text
    assert flooded.is_error


# ── nothing stays behind ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("manner", ["", "deaf"])
def test_servers_end_with_their_context(manner):
    """Neither the server nor its guard outlives the wake, not even as a zombie."""

    async def main():
        before = children(os.getpid())
        async with asking(plain(manner)) as asked:
            watched = Watched([int(word) for word in (await asked.run("pids")).text.split()])
        return children(os.getpid()) - before, watched.all_end()

    assert asyncio.run(main()) == (set(), True)


def test_servers_end_when_the_wake_is_cancelled(tmp_path):
    async def main():
        began = asyncio.Event()
        found = []

        async def woken():
            async with asking(plain()) as asked:
                found.append((await asked.run("pids")).text)
                began.set()
                await asked.run("hang", file=str(tmp_path / "f"))

        task = asyncio.create_task(woken())
        await began.wait()
        await asyncio.to_thread(until, lambda: _lines(tmp_path / "f") == 1)
        watched = Watched([int(word) for word in found[0].split()])
        task.cancel()
        await asyncio.wait({task})
        return watched.all_end(), task.cancelled()

    assert asyncio.run(main()) == (True, True)


def test_a_server_that_is_cancelled_while_it_starts():
    async def main():
        before = children(os.getpid())
        async with ServerPool() as servers:
            starting = asyncio.create_task(servers.call(plain("mute"), "add", {}))
            (server,) = await asyncio.to_thread(until, lambda: running_servers(os.getpid(), before))
            watched = Watched([server])
            starting.cancel()
            await asyncio.wait({starting})
        return starting.cancelled(), watched.all_end(), children(os.getpid()) - before

    assert asyncio.run(main()) == (True, True, set())


def test_servers_that_are_cancelled_while_their_processes_are_being_spawned():
    """RUN-12: the event loop is held until all servers run although no spawn has been reported yet; none is left."""
    count = 8

    async def main():
        before = children(os.getpid())
        async with ServerPool() as servers:
            calls = [servers.call(_stubborn(number), "add", {}) for number in range(count)]
            starting = [asyncio.create_task(call) for call in calls]
            await _begun(count, before)
            until(lambda: len(running_servers(os.getpid(), before)) == count)
            watched = Watched(running_servers(os.getpid(), before))
            assert not any(each._ready.done() for each in servers._started)
            for each in starting:
                each.cancel()
            await asyncio.wait(starting)
        return watched.ended(), children(os.getpid()) - before

    assert asyncio.run(main()) == ([True] * count, set())


def test_a_server_whose_task_is_cancelled_while_its_process_is_being_spawned():
    """RUN-7: `asyncio.run` cancels all tasks at a second Ctrl-C, and that kills the guard: the server ends."""

    async def main():
        before = children(os.getpid())
        async with ServerPool() as servers:
            starting = asyncio.create_task(servers.call(_stubborn(0), "add", {}))
            await _begun(1, before)
            watched = Watched(until(lambda: running_servers(os.getpid(), before)))
            servers._started[0]._task.cancel()
            await asyncio.wait({starting})
        return watched.all_end()

    assert asyncio.run(main())


@pytest.mark.parametrize("manner", ["deaf", "foreign"])
def test_servers_end_though_leaving_is_cancelled_repeatedly(manner):
    """Repeated cancels while servers end delay neither side, also for a server that never started."""
    words = [INTERPRETER, "-m", "tests.tools.mcp.hasty", manner]
    with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, text=True) as hasty:
        try:
            watched = Watched([int(hasty.stdout.readline())])
            assert hasty.wait(PATIENCE_S) == 0
            assert watched.all_end()
        finally:
            hasty.kill()


async def _begun(count, before):
    """Let the loop run until this number of child processes exists, and no further."""
    while len(children(os.getpid()) - before) < count:  # noqa: ASYNC110 - no event tells of a spawn under way
        await asyncio.sleep(0)


def _stubborn(number):
    """A server that ends neither with its input nor with SIGTERM."""
    return McpServer(name=f"stubborn-{number}", command=("sh", "-c", "trap '' TERM; while :; do sleep 1000; done"))


def _lines(path):
    try:
        return len(path.read_text().splitlines())
    except FileNotFoundError:
        return 0
