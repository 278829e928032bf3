"""MCP servers of a command: list their tools when a session begins, and keep them running until the command ends.

Rule 1: a command has one set of servers in one event loop. A server started to list its tools also runs them, in every
later wake; it ends with the command.
Rule 2: an unreachable server is a note on stderr, and the session continues without it. Its log records the server, and
the next `run` or `chat` of the session tries it again.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from wakelog.cli.failures import note
from wakelog.errors import UsageError
from wakelog.ports import Tool
from wakelog.tools.mcp import Servers, mcp_tools, server_of

T = TypeVar("T")


class Found(msgspec.Struct, frozen=True):
    """The tools of the servers, and the configuration values of servers that could not be reached."""

    tools: tuple[Tool, ...] = ()
    absent: tuple[Mapping[str, Any], ...] = ()


def no_servers(values: Sequence[Mapping[str, Any]], _: str) -> Found:
    """Contact no server; all of them count as absent."""
    return Found(absent=tuple(values))


def servers_with_notices() -> Servers:
    """Return servers that report problems on stderr."""
    return Servers(notice=note)


async def tools_listed(servers: Servers, values: Sequence[Mapping[str, Any]], cwd: str) -> Found:
    """Return the tools of servers, given by their configuration values. All are asked concurrently."""
    async with servers:
        told = await asyncio.gather(*(_tools_of_one(servers, value, cwd) for value in values))
    declared = [tool for tools in told for tool in tools or ()]
    absent = [value for value, tools in zip(values, told, strict=True) if tools is None]
    return Found(tuple(mcp_tools(declared, servers, cwd).values()), tuple(absent))


async def _tools_of_one(servers: Servers, value: Mapping[str, Any], cwd: str) -> list[dict[str, Any]] | None:
    try:
        return await servers.list_tools(server_of(value), cwd)
    except UsageError as error:
        note(f"{error.message}; the session does without its tools for now ({error.hint})")
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

    def tools_of(self, values: Sequence[Mapping[str, Any]], cwd: str) -> Found:
        """Return the tools of servers; asks them now."""
        return self.run(tools_listed(self.servers, values, cwd)) if values else Found()
