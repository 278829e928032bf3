"""Servers for the tests: the plain one and the one of the SDK, as values and as running processes."""

import asyncio
import contextlib
import glob
import os
import subprocess
import sys

from tests.faults.processes import INTERPRETER, environment
from tests.kernel.watching import until
from wakelog.ports.runtime import ToolInvocation
from wakelog.processes import supervisor
from wakelog.tools.mcp import McpServer, ServerPool, guard, mcp_tools

PLAIN = os.path.join(os.path.dirname(__file__), "plain_server.py")
SDK = "tests.tools.mcp.sdk_server"


def children(number):
    """The child processes of a process, zombies included."""
    found = set()
    for path in glob.glob(f"/proc/{number}/task/*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(path, encoding="utf-8") as file:
            found |= {int(word) for word in file.read().split()}
    return found


def running_servers(number, without=()):
    """The servers below a process: its descendants that are not guards, except those below `without`."""
    guards = children(number) - set(without)
    found = set()
    while guards:
        below = {each for guarding in guards for each in children(guarding)}
        guards = {each for each in below if {guard.__file__, supervisor.__file__} & set(_command(each))}
        found |= below - guards
    return found


def _command(number):
    """The command line of a process; empty if it has ended."""
    try:
        with open(f"/proc/{number}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def plain(*manner, **more):
    """The plain server on its standard input and output."""
    return McpServer(name="plain", command=(INTERPRETER, "-I", "-S", PLAIN, *manner), **more)


class Asked:
    """The tools of one server, inside its context."""

    def __init__(self, servers, tools):
        self.servers = servers
        self.tools = tools

    async def run(self, name, /, show=lambda text: None, **arguments):
        found = {tool.declared()["from"]["mcp"]["tool"]: tool for tool in self.tools.values()}
        return await found[name].run(ToolInvocation("reply-1", "call-1", arguments, show=show))


@contextlib.asynccontextmanager
async def asking(server, cwd="", notices=None):
    """The tools of a server, listed and ready to call."""
    heard = [] if notices is None else notices
    async with ServerPool(notice=heard.append) as servers:
        declared = await servers.list_tools(server, cwd)
        yield Asked(servers, mcp_tools(declared, servers, cwd))


def outcome(server, name, /, **arguments):
    """The outcome of one call of one tool."""

    async def main():
        async with asking(server) as asked:
            return await asked.run(name, **arguments)

    return asyncio.run(main())


@contextlib.contextmanager
def listening(folder, *manner):
    """The server of the SDK on the loopback; yields the process and the URL."""
    port = os.path.join(folder, "port")
    with contextlib.suppress(FileNotFoundError):
        os.remove(port)
    process = subprocess.Popen([sys.executable, "-m", SDK, str(folder), *manner], env=environment())
    try:
        until(lambda: os.path.exists(port))
        with open(port, encoding="utf-8") as file:
            yield process, f"http://127.0.0.1:{file.read()}/mcp"
    finally:
        process.kill()
        process.wait()
