"""The terminal of a chat as a channel: it shows nothing itself, but has the log and its journals shown.

What a channel is given stands in a journal or in the log already (law 5), so the chat reads it there, and sees the
same whoever runs the session. `end` returns when the reply has been printed: only then is it `sent`.
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
        """What happened before is shown before."""
        self._catch_up()

    async def delta(self, reply_id: str, offset: int, text: str) -> None:  # noqa: ARG002 - the port's signature
        """It is in the journal, which is looked at a few times a second. Whoever types gets a turn in between."""
        await asyncio.sleep(0)

    async def reset(self, reply_id: str) -> None:  # noqa: ARG002 - the port's signature
        """An entry says so."""
        self._catch_up()

    async def end(self, reply_id: str) -> None:
        """It is in the log; one from before this chat was opened is printed now."""
        self._catch_up()
        self._ensure(reply_id)
