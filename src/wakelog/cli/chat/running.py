"""Runner of a chat: wakes its session whenever there may be work, and cancels turns.

Only the MCP servers are kept between two wakes; they live as long as the chat. A session that another process runs is
left to it: messages sent here are in its log, and that process finds them there.
"""

import asyncio
from collections.abc import Callable

from wakelog.cli.configured import prepare_model, world_for
from wakelog.cli.places import Place
from wakelog.cli.serving import servers_with_notices
from wakelog.errors import Conflict, WakelogError
from wakelog.ports import Channel
from wakelog.runtime.manual_compaction import compact_now
from wakelog.runtime.user_actions import cancel
from wakelog.runtime.wake import wake
from wakelog.session import Session

Tell = Callable[[WakelogError], None]


class Runner:
    """Wakes one session at a time, as often as requested."""

    def __init__(self, place: Place, channel: Channel, tell: Tell, rested: Callable[[], None]) -> None:
        self.servers = servers_with_notices()
        """The MCP servers of the chat; also used to list tools."""
        self._world = world_for(place.store, url=place.url, channels=[channel], servers=self.servers)
        self._tell = tell
        self._rested = rested
        self._wanted = asyncio.Event()
        self._name = ""
        self._fold: str | None = None
        self.busy = False
        """Whether the session is being run by this process."""

    def want(self, name: str) -> None:
        """Request a wake of a session."""
        self._name = name
        self._wanted.set()

    def fold(self, name: str, instructions: str) -> None:
        """Request a compaction of a session; `instructions` may be empty."""
        self._fold = instructions
        self.want(name)

    async def run(self) -> None:
        """Wake sessions on request until cancelled. A cancelled run is left in the state of a killed process."""
        async with self.servers:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                await self._woken()
                self._rested()

    async def _woken(self) -> None:
        self.busy = True
        try:
            await self._once()
        except Conflict as error:
            if not self.elsewhere(self._name):
                self._tell(error)
        except WakelogError as error:
            self._tell(error)
        finally:
            self.busy = False

    async def _once(self) -> None:
        instructions, self._fold = self._fold, None
        if instructions is not None:
            done = await compact_now(self._world, self._name, instructions=instructions)
            if done.entry is None:
                raise WakelogError(f"not folded: {done.why_not}")
        await prepare_model(self._world, Session(self._world.store, self._name))
        await wake(self._world, self._name)

    def elsewhere(self, name: str) -> bool:
        """Return whether another process runs a session."""
        return not self.busy and self._world.store.held(name) is not None

    def cancel(self, session: Session) -> bool:
        """Append a cancel of the turn, whichever process runs it; False if there is no turn."""
        asked = cancel(session)
        if asked is not None and not self.busy:
            self.want(session.name)
        return asked is not None
