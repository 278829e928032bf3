"""Event loop of a front end: the MCP servers that live in it, and blocking work in daemon threads.

Rule 1: a program has one set of servers in one event loop. A server started to list its tools also runs them, in every
later wake; it ends with the program.
Rule 2: an unreachable server causes a notice, and the session continues without it. Its log records the server, and the
next `run` or `chat` of the session tries it again.
Rule 3: process exit never waits for a daemon thread.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from wakelog.app.notices import notify
from wakelog.errors import UsageError
from wakelog.ports.runtime import Tool
from wakelog.tools.mcp import ServerPool, mcp_tools, parse_server

T = TypeVar("T")


class ListedTools(msgspec.Struct, frozen=True):
    """The tools of the servers, and the configuration values of servers that could not be reached."""

    tools: tuple[Tool, ...] = ()
    absent: tuple[Mapping[str, Any], ...] = ()


def contact_no_servers(values: Sequence[Mapping[str, Any]], _: str) -> ListedTools:
    """Contact no server; all of them count as absent."""
    return ListedTools(absent=tuple(values))


def servers_with_notices() -> ServerPool:
    """Return servers that report problems as notices."""
    return ServerPool(notice=notify)


async def list_server_tools(servers: ServerPool, values: Sequence[Mapping[str, Any]], cwd: str) -> ListedTools:
    """Return the tools of servers, given by their configuration values. All are asked concurrently."""
    async with servers:
        listed = await asyncio.gather(*(_list_tools_of(servers, value, cwd) for value in values))
    declared = [tool for tools in listed for tool in tools or ()]
    absent = [value for value, tools in zip(values, listed, strict=True) if tools is None]
    return ListedTools(tuple(mcp_tools(declared, servers, cwd).values()), tuple(absent))


async def _list_tools_of(servers: ServerPool, value: Mapping[str, Any], cwd: str) -> list[dict[str, Any]] | None:
    try:
        return await servers.list_tools(parse_server(value), cwd)
    except UsageError as error:
        notify(f"{error.message}; the session continues without its tools for now ({error.hint})")
        return None


class EventLoopRunner:
    """The event loop of a synchronous command, and the MCP servers that live in it across runs."""

    def __init__(self) -> None:
        self.servers = servers_with_notices()
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self._runner.run(self.servers.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._runner.run(self.servers.__aexit__(kind, error, trace))
        finally:
            self._runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result. Ctrl-C cancels it; the loop stays usable."""
        return self._runner.run(work)

    def list_tools(self, values: Sequence[Mapping[str, Any]], cwd: str) -> ListedTools:
        """Return the tools of servers; asks them now."""
        return self.run(list_server_tools(self.servers, values, cwd)) if values else ListedTools()


Result = TypeVar("Result")


async def run_in_daemon_thread(work: Callable[[], Result]) -> Result:
    """Await `work()` in a daemon thread; return its result or raise its exception."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def run() -> None:
        try:
            settle = _set_result(done, work())
        except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
            settle = _set_exception(done, error)
        # The event loop may be closed by now; then nothing awaits the result.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if done.done() else settle())

    threading.Thread(target=run, name="wakelog-work", daemon=True).start()
    return await done


def _set_result(done: "asyncio.Future[Result]", result: Result) -> Callable[[], None]:
    return lambda: done.set_result(result)


def _set_exception(done: "asyncio.Future[Result]", error: Exception) -> Callable[[], None]:
    return lambda: done.set_exception(error)
