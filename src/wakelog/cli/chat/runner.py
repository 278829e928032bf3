"""Runner and channel of a chat: wake its session, cancel turns, and hand replies to the view.

The runner wakes the session whenever there may be work. Only the MCP servers are kept between two wakes; they live as
long as the chat. A session that another process runs is left to it: messages sent here are in its log, and that process
finds them there.
The channel displays nothing itself: text given to it is in a journal or in the log already (law 5: nothing is displayed
that a process crash could lose), and the view reads it there. `end` returns after the reply was printed; only then the
reply is recorded as `sent`.
"""

import asyncio
import time
from collections.abc import Callable

from wakelog.app.event_loop import run_in_daemon_thread, servers_with_notices
from wakelog.app.models import check_session_model, prepare_model
from wakelog.app.runner import runtime_for
from wakelog.app.stores import StoreLocation
from wakelog.app.watch import TERMINAL_CHANNEL
from wakelog.errors import Conflict, WakelogError
from wakelog.ports.runtime import Channel
from wakelog.runtime.checks import check_files
from wakelog.runtime.user_actions import compact_now, request_cancel, retry_turn
from wakelog.runtime.wake import wake
from wakelog.session import Session

_LEASE_FIRST_S, _LEASE_MAX_S = 0.05, 2.0
ReportError = Callable[[WakelogError], None]


class SessionRunner:
    """Wakes one session at a time, as often as requested."""

    def __init__(
        self, place: StoreLocation, channel: Channel, report_error: ReportError, on_idle: Callable[[], None]
    ) -> None:
        self.servers = servers_with_notices()
        """The MCP servers of the chat; also used to list tools."""
        self._runtime = runtime_for(place.store, url=place.url, channels=[channel], servers=self.servers)
        self._report_error = report_error
        self._on_idle = on_idle
        self._requested = asyncio.Event()
        self._name = ""
        self._compaction_instructions: str | None = None
        self._on_head_move: Callable[[str], None] | None = None
        self.busy = False
        """Whether the session is being run by this process."""

    def request_wake(self, name: str) -> None:
        """Request a wake of a session."""
        self._name = name
        self._requested.set()

    def request_compaction(self, name: str, instructions: str) -> None:
        """Request a compaction of a session; `instructions` may be empty."""
        self._compaction_instructions = instructions
        self.request_wake(name)

    def request_retry(self, name: str, on_head_move: Callable[[str], None]) -> None:
        """Request another try of a session's failed turn; `on_head_move` gets the id of the `head` entry."""
        self._on_head_move = on_head_move
        self.request_wake(name)

    async def run(self) -> None:
        """Wake sessions on request until cancelled. A cancelled run is left in the state of a killed process."""
        async with self.servers:
            while True:
                await self._requested.wait()
                self._requested.clear()
                await self._wake_and_report()
                self._on_idle()

    async def _wake_and_report(self) -> None:
        self.busy = True
        try:
            await self._wake_once()
        except Conflict as error:
            if not self.is_held_elsewhere(self._name):
                self._report_error(error)
        except WakelogError as error:
            self._report_error(error)
        finally:
            self.busy = False

    async def _wake_once(self) -> None:
        instructions, self._compaction_instructions = self._compaction_instructions, None
        if instructions is not None:
            done = await compact_now(self._runtime, self._name, instructions=instructions)
            if done.entry is None:
                raise WakelogError(f"not compacted: {done.reason}")
        session = Session(self._runtime.store, self._name)
        on_head_move, self._on_head_move = self._on_head_move, None
        if on_head_move is not None:
            # Nothing is written if the model cannot be used.
            check_files(session)
            await run_in_daemon_thread(lambda: check_session_model(session))
            on_head_move(retry_turn(session).id)
        await prepare_model(self._runtime, session)
        await wake(self._runtime, self._name)

    def is_held_elsewhere(self, name: str) -> bool:
        """Return whether another process runs a session."""
        return not self.busy and self._runtime.store.held(name) is not None

    def cancel(self, session: Session) -> bool:
        """Append a cancel of the turn, whichever process runs it; False if there is no turn."""
        entry = request_cancel(session)
        if entry is not None and not self.busy:
            self.request_wake(session.name)
        return entry is not None


class LeaseCheck:
    """When to ask whether another process runs the session: on request, after news, and repeatedly while one does.

    A process that is killed appends nothing when it leaves, and one that leaves appends that before it releases the
    lease. So the lease is asked for again: soon after news, then at growing intervals.
    """

    def __init__(self) -> None:
        self._due_at = 0.0
        self._pause_s = _LEASE_FIRST_S

    @property
    def is_due(self) -> bool:
        """Whether it is time to ask."""
        return time.monotonic() >= self._due_at

    def request(self) -> None:
        """Ask as soon as possible."""
        self._due_at = 0.0

    def done(self, *, is_held: bool, has_news: bool) -> None:
        """Record the answer."""
        self._pause_s = _LEASE_FIRST_S if has_news else min(2 * self._pause_s, _LEASE_MAX_S)
        self._due_at = time.monotonic() + self._pause_s if is_held else float("inf")


class LogChannel:
    """See `ports.Channel`."""

    def __init__(self, catch_up: Callable[[], None], ensure_printed: Callable[[str], None]) -> None:
        self.name = TERMINAL_CHANNEL
        self._catch_up = catch_up
        self._ensure_printed = ensure_printed

    async def begin(self, reply_id: str, attempt: int) -> None:  # noqa: ARG002 - the port's signature
        """Show earlier entries first."""
        self._catch_up()

    async def delta(self, reply_id: str, offset: int, text: str) -> None:  # noqa: ARG002 - the port's signature
        """Yield to the event loop, so that typing stays responsive. The text is shown from the journal."""
        await asyncio.sleep(0)

    async def reset(self, reply_id: str) -> None:  # noqa: ARG002 - the port's signature
        """Show the entry that records the reset."""
        self._catch_up()

    async def end(self, reply_id: str) -> None:
        """Show the reply from the log; one from before this chat was opened is printed now."""
        self._catch_up()
        self._ensure_printed(reply_id)
