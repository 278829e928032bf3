"""Watch a running session: report every new entry of it and of its sub-agents to a renderer.

Entries are read from the log only, so that those of other processes are reported too. A channel that displays replies
calls `catch_up` first: an entry is then reported before the text that follows it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Protocol

from wakelog.app.notices import OutputClosed
from wakelog.errors import NotFound
from wakelog.log.entry import Entry, Spawned
from wakelog.log.lines import EntryReader
from wakelog.ports.runtime import Channel
from wakelog.ports.stores import Store

_POLL_S = 0.05
EntryListener = Callable[[str, Entry], None]
"""Takes the name of a session, and an entry of it."""


class SessionWatcher:
    """Reports the new entries of one run, each log in its order."""

    def __init__(self, store: Store, name: str, after: int, on_entry: EntryListener) -> None:
        self._store = store
        self._on_entry = on_entry
        self._seen: dict[str, int] = {name: after}

    def catch_up(self) -> None:
        """Report all entries since the last call; those of several sessions sorted by timestamp."""
        fresh: list[tuple[str, Entry]] = []
        read: set[str] = set()
        while left := [session for session in self._seen if session not in read]:
            read.update(left)
            fresh += [(session, entry) for session in left for entry in self._new(session)]
        for session, entry in sorted(fresh, key=lambda pair: pair[1].value.timestamp):
            self._on_entry(session, entry)

    async def watch(self) -> None:
        """Report entries as they are appended, until cancelled. Reads the logs every `_POLL_S` seconds."""
        while True:
            self.catch_up()
            await asyncio.sleep(_POLL_S)

    def _new(self, session: str) -> list[Entry]:
        after = self._seen[session]
        try:
            lines = list(self._store.load(session, after=after))
        except NotFound:
            # A sub-agent's name is logged before its session exists.
            return []
        entries = EntryReader(next_seq=after + 1).feed_all(lines)
        for entry in entries:
            self._seen[session] = max(self._seen[session], entry.seq)
            if isinstance(entry.value, Spawned):
                self._seen.setdefault(entry.value.child_session, -1)
        return entries


class WatchedChannel:
    """A channel wrapper that reports new entries before it shows the next reply.

    When the reader of the output has closed it, the current reply is finished; the next `begin` ends the command.
    """

    def __init__(self, channel: Channel, watcher: SessionWatcher) -> None:
        self.name = channel.name
        self._channel = channel
        self._watcher = watcher
        self._reader_is_gone = False

    async def begin(self, reply_id: str, attempt: int) -> None:
        """See `ports.Channel`."""
        if self._reader_is_gone:
            raise OutputClosed
        with self._detect_closed_output():
            self._watcher.catch_up()
            await self._channel.begin(reply_id, attempt)

    async def delta(self, reply_id: str, offset: int, text: str) -> None:
        """See `ports.Channel`."""
        with self._detect_closed_output():
            await self._channel.delta(reply_id, offset, text)

    async def reset(self, reply_id: str) -> None:
        """See `ports.Channel`. The open line is finished before entries are reported."""
        with self._detect_closed_output():
            await self._channel.reset(reply_id)
            self._watcher.catch_up()

    async def end(self, reply_id: str) -> None:
        """See `ports.Channel`."""
        with self._detect_closed_output():
            await self._channel.end(reply_id)

    @contextlib.contextmanager
    def _detect_closed_output(self) -> Iterator[None]:
        """Record that the reader is gone; raises `BrokenPipeError`, so that the delivery counts as failed."""
        try:
            yield
        except (BrokenPipeError, OutputClosed):
            self._reader_is_gone = True
            raise BrokenPipeError("the reader of the output has left") from None


# Name of the channel for the stdout of the waking process, in every output format.
TERMINAL_CHANNEL = "terminal"


class Renderer(Protocol):
    """Displays a run."""

    channel: Channel

    def on_entry(self, session: str, entry: Entry) -> None:
        """Handle a new entry."""
        ...

    async def close(self) -> None:
        """Finish open lines; nothing more follows for now."""
        ...
