"""MCP servers as commands use them: asked for their tools when a session begins, and kept until the command ends.

Rule 1: a command has one set of servers, in one event loop. What was started to list its tools goes on to run them,
in every wake that follows; it is ended with the command, and with nothing else.
Rule 2: a server that cannot be asked is a line, and the session does without it; its log remembers it, and the next
command that brings something to the session asks it again.
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
    """What came of asking servers: their tools, and the values of those that could not be asked."""

    tools: tuple[Tool, ...] = ()
    absent: tuple[Mapping[str, Any], ...] = ()


def none_asked(values: Sequence[Mapping[str, Any]], _: str) -> Found:
    """For those who ask nobody: whoever was not there is not there."""
    return Found(absent=tuple(values))


def heard_servers() -> Servers:
    """Servers whose troubles are said on stderr."""
    return Servers(notice=note)


async def tools_listed(servers: Servers, values: Sequence[Mapping[str, Any]], cwd: str) -> Found:
    """The tools of servers, by their values. All are asked side by side: one that is slow holds up nobody."""
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


class OneLoop:
    """The event loop of a command that is not inside one, and the servers that live in it from one run to the next."""

    def __init__(self) -> None:
        self.servers = heard_servers()
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
        """What comes of it. Ctrl-C ends it, and leaves the loop to what comes next."""
        return self._runner.run(work)

    def tools_of(self, values: Sequence[Mapping[str, Any]], cwd: str) -> Found:
        """The tools of servers, asked now."""
        return self.run(tools_listed(self.servers, values, cwd)) if values else Found()
