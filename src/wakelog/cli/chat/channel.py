"""Channel of a chat: it shows nothing itself, but makes the view read the log and its journals.

Text given to a channel is in a journal or in the log already (law 5: nothing is displayed that a process crash could
lose). The chat reads it there, and so shows the same whichever process runs the session. `end` returns after the reply
was printed; only then it is `sent`.
"""

import asyncio
from collections.abc import Callable

from wakelog.cli.renderers import CHANNEL


class LogChannel:
    """See `ports.Channel`."""

    def __init__(self, catch_up: Callable[[], None], ensure: Callable[[str], None]) -> None:
        self.name = CHANNEL
        self._catch_up = catch_up
        self._ensure = ensure

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
        self._ensure(reply_id)
