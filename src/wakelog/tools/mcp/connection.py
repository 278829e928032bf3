"""Connection to one MCP server, which is started, queried and ended in a task of its own.

Rule 1: the SDK's contexts are entered and left in the same task, which does nothing else. Requests run in the tasks
of their callers; cancelling one tells the server to stop, and ends only that request.
Rule 2: when the server's stream ends, the connection is over at once and for good: its process is reaped and
waiting callers get an error. The next caller that needs the server starts a new one.
Rule 3: whether a call without an answer was executed is unknown, and the error says so.
Rule 4: the SDK accepts or refuses a page of tools as a whole. Here each tool is validated by itself, with the SDK's
own rules for the protocol version in use; invalid ones are removed before the SDK sees the page, and recorded by
name with the reason.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT, Implementation, JSONRPCResponse
from mcp_types.methods import parse_server_result
from pydantic import ValidationError

from wakelog.errors import UsageError
from wakelog.ports.runtime import ToolOutcome
from wakelog.tools.mcp.conversion import ListedTool, one_line, outcome_of, progress_line
from wakelog.tools.mcp.server import McpServer, ServerFailure, StaleConnection
from wakelog.tools.mcp.transport import SpawnScope, StderrTail, open_streams
from wakelog.version import VERSION

_LIST_METHOD = "tools/list"
_NAMELESS = "without a name"
_INVALID_TOOL = "it is not described as the protocol asks"


def is_tool_page(result: Mapping[str, Any]) -> bool:
    """Return whether a result may be a page of a listing; no other result of the protocol has tools."""
    return isinstance(result.get("tools"), list)


def split_invalid_tools(page: Mapping[str, Any], version: str) -> tuple[list[Any], list[tuple[str, str]]]:
    """Return the valid tools of a page, and name and reason of the others. All tools, if the page itself is invalid."""
    if _page_fault(page, version) is None or _page_fault({**page, "tools": []}, version) is not None:
        return page["tools"], []
    faults = [(tool, _page_fault({**page, "tools": [tool]}, version)) for tool in page["tools"]]
    return (
        [tool for tool, fault in faults if fault is None],
        [(_tool_name(tool), fault) for tool, fault in faults if fault is not None],
    )


def _page_fault(page: Mapping[str, Any], version: str) -> str | None:
    try:
        parse_server_result(_LIST_METHOD, version, page)
    except ValidationError as error:
        return _validation_text(error)
    except (KeyError, ValueError, RecursionError):
        return _INVALID_TOOL
    return None


def _validation_text(error: ValidationError) -> str:
    """Return where a tool is invalid, without the value found there, which may be very long."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(part for part in first["loc"][2:] if isinstance(part, str))
    return f"{_INVALID_TOOL} ({where})" if where else _INVALID_TOOL


def _tool_name(tool: Any) -> str:
    name = tool.get("name") if isinstance(tool, Mapping) else None
    return name if isinstance(name, str) else _NAMELESS


_PAGES_MAX = 100
_PROGRESS_LINES_MAX = 200
_CLOSE_S = 10.0
_PROBE_S = 5.0
_PROBE_SHARE = 1 / 3
# Servers use the SDK's codes for these for their own errors too, so its messages are needed to tell them apart.
_CONNECTION_CLOSED = "Connection closed"
_SESSION_TERMINATED = "Session terminated"
# Messages of the SDK for a response that is not an answer; a server's own error is an answer.
_LOST_ANSWER_PREFIXES = (
    "Failed to parse",
    "SSE stream",
    "Server returned an error response",
    "Unexpected content type",
    "server answered a request with 202",
)
# Reason for tools that the SDK drops without reporting them.
_DROPPED_BY_SDK = "the headers that its schema asks for cannot be sent"
# Log messages of the SDK go to the application's log handlers, and not to the terminal by default.
for _logger in ("mcp", "client"):
    logging.getLogger(_logger).addHandler(logging.NullHandler())


class Connection:
    """Connection to a server, from its start to its end; it is not reused afterwards."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._stderr = StderrTail()
        self._end = asyncio.Event()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._waiting = 0
        self._is_listed = False
        self._offered: dict[str, str] = {}
        """Tools of the received pages, by name, with the reason why they cannot be read (empty: they can)."""
        self._scope = SpawnScope()
        self._task = asyncio.create_task(self._run(), name=f"mcp:{server.name}")

    @property
    def is_over(self) -> bool:
        """Whether it accepts no more requests."""
        return self._end.is_set() or self._task.done()

    @property
    def is_gone(self) -> bool:
        """Whether the server has ended and its task is done."""
        return self._task.done()

    async def close(self) -> None:
        """End the server and wait until it is gone."""
        self._end.set()
        # A connection in its handshake does not watch `_end`, and has no requests to lose.
        await asyncio.wait({self._task}, timeout=_CLOSE_S if self._ready.done() else 0)
        # Not the task: the SDK ends a process behind a shield, which holds against cancelled scopes, not tasks.
        self._scope.cancel()
        await asyncio.wait({self._task})

    # ── lifecycle ────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        try:
            with self._scope.scope:
                await self._start()
        finally:
            self._end.set()
            self._stderr.close()
            self._fail_start("was ended before it had started")

    async def _start(self) -> None:
        """Start the server. One that dies of the newest handshake is started again with the old one."""
        fault = await self._attempt("auto")
        if not self._ready.done() and not self._end.is_set() and isinstance(fault, MCPError):
            self._stderr.clear()
            fault = await self._attempt("legacy")
        self._stderr.close()
        if self._ready.done() and fault is not None:
            self._stderr.note(f"[{_exception_text(fault)}]")
        self._fail_start(f"did not start: {_exception_text(fault)}")

    def _fail_start(self, why: str) -> None:
        if not self._ready.done():
            self._ready.set_exception(ServerFailure(self._with_stderr(why)))
            # Marks the exception as retrieved: the callers that waited may be gone.
            self._ready.exception()

    async def _attempt(self, mode: str) -> BaseException | None:
        """Start the server and stay until the end; return the error that kept it from starting, or ended it."""
        over = asyncio.Event()
        client = _Client(
            open_streams(self._server, self._stderr, self._scope, self._filter_tools, over.set),  # type: ignore[arg-type]
            mode=mode,
            cache=None,
            client_info=Implementation(name="wakelog", version=VERSION),
            message_handler=self._on_message,
        )
        client.probe_s = min(_PROBE_S, self._server.timeout_s * _PROBE_SHARE)
        try:
            async with client:
                self._stderr.clear()
                self._ready.set_result(client)
                await _wait_for_any(over, self._end)
                # No more requests from here on, although leaving the context takes time.
                self._end.set()
        except Exception as error:  # noqa: BLE001 - the SDK passes on whatever a server causes
            return _first_exception(error)
        return None

    async def _on_message(self, message: object) -> None:
        """Ignore requests and notifications; note data that is not a message, for failure messages."""
        if isinstance(message, Exception):
            self._stderr.note("[it sent something that is no message of the protocol]")

    def _filter_tools(self, message: object) -> None:
        """Remove from a page of tools those for which the SDK would refuse the whole page."""
        content = message.message if isinstance(message, SessionMessage) else None
        if not self._ready.done() or not isinstance(content, JSONRPCResponse) or not is_tool_page(content.result):
            return
        kept, faults = split_invalid_tools(content.result, self._ready.result().protocol_version)
        content.result["tools"] = kept
        self._offered |= {tool["name"]: "" for tool in kept if _has_name(tool)} | dict(faults)

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    async def tools(self) -> list[ListedTool]:
        """Return the server's current tools, and those that cannot be read with the reason."""
        client = await self._client()
        self._offered = {}
        async with self._request("did not list its tools"):
            tools = await _all_pages(client)
        self._is_listed = True
        names = {tool.name for tool in tools}
        lost = {name: why for name, why in self._offered.items() if why or name not in names}
        return [*tools, *(ListedTool(name, "", {}, fault=why or _DROPPED_BY_SDK) for name, why in lost.items())]

    async def call(self, tool: str, arguments: Mapping[str, Any], show: Callable[[str], None]) -> ToolOutcome:
        """Run a tool. The tools are listed first, because the SDK needs them for headers and schemas."""
        if not self._is_listed:
            await self.tools()
        client = await self._client()
        progress = _Progress(show)
        try:
            async with self._request("gave no result", ", and whether it did what was asked is not known"):
                result = await client.call_tool(tool, dict(arguments), progress_callback=progress)
        finally:
            progress.close()
        if progress.fault is not None:
            raise progress.fault
        return outcome_of(result.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def _client(self) -> Client:
        self._waiting += 1
        try:
            async with asyncio.timeout(self._server.timeout_s):
                return await asyncio.shield(self._ready)
        except TimeoutError:
            await self.close()
            raise ServerFailure(self._with_stderr(f"did not start within {self._server.timeout_s:g} s")) from None
        except asyncio.CancelledError:
            if self._waiting == 1 and not self._ready.done():
                # The last waiting caller is gone, and the handshake may never end; the next caller starts a new server.
                self._end.set()
                self._scope.cancel()
            raise
        finally:
            self._waiting -= 1

    @contextlib.asynccontextmanager
    async def _request(self, what: str, doubt: str = "") -> AsyncIterator[None]:
        """Apply the time limit to one request, and turn every way to fail into a message."""
        try:
            async with asyncio.timeout(self._server.timeout_s):
                yield
        except TimeoutError:
            why = f"it took longer than {self._server.timeout_s:g} s"
            raise ServerFailure(self._with_stderr(f"{what}{doubt}: {why}")) from None
        except MCPError as error:
            raise await self._failed(what, doubt, error) from None
        except Exception as error:  # noqa: BLE001 - an answer can make the SDK raise anything
            raise ServerFailure(self._with_stderr(f"{what}{doubt}: {_exception_text(error)}")) from None

    async def _failed(self, what: str, doubt: str, error: MCPError) -> Exception:
        if error.code == INVALID_REQUEST and error.message == _SESSION_TERMINATED:
            await self.close()
            return StaleConnection()
        if self._end.is_set() or (error.code == CONNECTION_CLOSED and error.message == _CONNECTION_CLOSED):
            # Its standard error is complete only after its end.
            await self.close()
            return ServerFailure(self._with_stderr(f"{what}{doubt}: it is gone"))
        is_lost = error.message.startswith(_LOST_ANSWER_PREFIXES)
        return ServerFailure(self._with_stderr(f"{what}{doubt if is_lost else ''}: {one_line(error.message)}"))

    def _with_stderr(self, what: str) -> str:
        stderr = self._stderr.text()
        return f"The MCP server {self._server.name} {what}" + (f"\nIts last words:\n{stderr}" if stderr else "")


class _Client(Client):
    """The SDK's client, with a time limit of our own on the request that asks for a newer protocol.

    A server may ignore a request that it does not know. `initialize` then follows on the same connection. The SDK's own
    limit of 10 s would make the start of a server with a shorter `timeout_s` fail.
    """

    probe_s = _PROBE_S

    async def _build_session(self, exit_stack: contextlib.AsyncExitStack) -> ClientSession:
        session = await super()._build_session(exit_stack)
        send_discover = session.send_discover

        async def send_within_limit(version: str) -> dict[str, Any]:
            with anyio.move_on_after(self.probe_s):
                return await send_discover(version)
            raise MCPError(REQUEST_TIMEOUT, f"no answer to server/discover within {self.probe_s:g} s")

        session.send_discover = send_within_limit  # type: ignore[method-assign]
        return session


class _Progress:
    """Progress messages of a server, shown as they arrive: at most `_PROGRESS_LINES_MAX`, and none after the end."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._left = _PROGRESS_LINES_MAX
        self.fault: Exception | None = None

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        if self._left == 0:
            return
        self._left -= 1
        try:
            self._show(progress_line(progress, total, message))
        except Exception as error:
            # An error of `show`, not of the tool: the SDK would swallow it, so it is kept for the caller.
            self.fault = error
            self.close()
            raise

    def close(self) -> None:
        """Show nothing from here on."""
        self._left = 0


async def _all_pages(client: Client) -> list[ListedTool]:
    found: list[ListedTool] = []
    cursor: str | None = None
    for _ in range(_PAGES_MAX):
        page = await client.list_tools(cursor=cursor)
        found += [_listed_tool(tool.model_dump(mode="json", by_alias=True)) for tool in page.tools]
        cursor = page.next_cursor
        if not cursor:
            return found
    raise ServerFailure(f"its list of tools has more than {_PAGES_MAX} pages")


def _has_name(tool: object) -> bool:
    return isinstance(tool, Mapping) and isinstance(tool.get("name"), str)


def _listed_tool(tool: Mapping[str, Any]) -> ListedTool:
    return ListedTool(tool["name"], tool.get("description") or "", tool["inputSchema"], tool.get("annotations") or {})


async def _wait_for_any(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def _first_exception(error: BaseException) -> BaseException:
    """Return the first exception of nested groups: the SDK's task groups wrap the cause."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _exception_text(error: BaseException | None) -> str:
    if error is None:
        return "it ended at once"
    cause = _first_exception(error)
    if isinstance(cause, UsageError | MCPError | ServerFailure):
        return one_line(str(cause))
    return one_line(f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__)
