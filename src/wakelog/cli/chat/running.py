"""The session of a chat, run here: woken whenever there may be something to do, cancelled, left.

Nothing is kept between two wakes but the MCP servers, which live as long as the chat. A session that somebody else
runs is left to them: what a person says here is in its log, and whoever runs it finds it there.
"""

import asyncio
from collections.abc import Callable

from wakelog.cli.configured import be_ready, world_for
from wakelog.cli.places import Place
from wakelog.cli.serving import heard_servers
from wakelog.errors import Conflict, WakelogError
from wakelog.ports import Channel
from wakelog.runtime.manual_compaction import compact_now
from wakelog.runtime.user_actions import cancel
from wakelog.runtime.wake import wake
from wakelog.session import Session

Tell = Callable[[WakelogError], None]


class Runner:
    """Wakes one session at a time, as often as it takes."""

    def __init__(self, place: Place, channel: Channel, tell: Tell, rested: Callable[[], None]) -> None:
        self.servers = heard_servers()
        """Those of the chat: whoever lists their tools asks these."""
        self._world = world_for(place.store, url=place.url, channels=[channel], servers=self.servers)
        self._tell = tell
        self._rested = rested
        self._wanted = asyncio.Event()
        self._name = ""
        self._fold: str | None = None
        self.busy = False
        """Whether the session is being run from here."""

    def want(self, name: str) -> None:
        """There may be something to do in a session."""
        self._name = name
        self._wanted.set()

    def fold(self, name: str, instructions: str) -> None:
        """A session is to be folded; instructions may be empty."""
        self._fold = instructions
        self.want(name)

    async def run(self) -> None:
        """Wakes whatever is wanted, until it is stopped. One that was stopped is like one whose process was killed."""
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
        await be_ready(self._world, Session(self._world.store, self._name))
        await wake(self._world, self._name)

    def elsewhere(self, name: str) -> bool:
        """Whether somebody else runs a session."""
        return not self.busy and self._world.store.held(name) is not None

    def cancel(self, session: Session) -> bool:
        """Ends the turn as an entry, whoever runs it; False if there is none."""
        asked = cancel(session)
        if asked is not None and not self.busy:
            self.want(session.name)
        return asked is not None
