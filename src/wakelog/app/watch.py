"""Watch a session and its sub-agents: new entries of all of them, and the streamed text of the session itself.

Everything comes from the store, so that entries of other processes are reported too; `wakelog.watcher` waits for it. A
channel that displays replies catches up first: an entry is then reported before the text that follows it.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from wakelog.app.notices import OutputClosed
from wakelog.errors import NotFound, Unavailable
from wakelog.log.content import ToolResult
from wakelog.log.entry import Entry, Message, Spawned
from wakelog.ports.runtime import Channel
from wakelog.ports.stores import Store
from wakelog.runtime.waiting import LoopSignal
from wakelog.session_news import News, StreamedPiece
from wakelog.watcher import Subscription

# A sub-agent is named in the log before its session exists: the first and the longest pause between two looks.
_UNBORN_FIRST_S, _UNBORN_MAX_S = 0.05, 1.0
_AFTER_ALL = "~"
EntryListener = Callable[[str, Entry], None]
"""Takes the name of a session, and an entry of it."""


class SessionEntry(msgspec.Struct, frozen=True):
    """An entry and the name of its session."""

    session: str
    entry: Entry


class SessionWatcher:
    """Watches one session from a position in its log, and its sub-agents from their start until they have a result."""

    def __init__(self, store: Store, name: str, after: int, *, with_text: bool = False) -> None:
        self.name = name
        self._store = store
        self._sessions = {name: Subscription(store, name, after=after, pieces={} if with_text else None)}
        self._unborn: set[str] = set()
        self._spawned_by: dict[tuple[str, str, str], str] = {}
        self._signal: LoopSignal | None = None
        self._pause_s, self._look_at = _UNBORN_FIRST_S, 0.0

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def read_new(self) -> list[SessionEntry | StreamedPiece]:
        """Read the logs now; return everything new since the last call, entries of several sessions sorted by time.

        Entries come before pieces, so that a piece belongs to a reply that is not complete yet.
        """
        self._look_at = 0.0
        return self._collect(Subscription.catch_up)

    def fetch(self) -> list[SessionEntry | StreamedPiece]:
        """Return what has arrived. With sub-agents the logs are read, so that their entries come in order."""
        has_one_log = len(self._sessions) == 1 and not self._unborn
        return self._collect(Subscription.fetch if has_one_log else Subscription.catch_up)

    def _collect(self, read: Callable[[Subscription], list[News]]) -> list[SessionEntry | StreamedPiece]:
        items: list[tuple[str, SessionEntry | StreamedPiece]] = []
        read_sessions: set[str] = set()
        ended: set[str] = set()
        while left := [session for session in self._sessions if session not in read_sessions]:
            for session in left:
                found = _dated_items(session, read(self._sessions[session]))
                ended |= self._track_subagents(item for _, item in found)
                items += found
            read_sessions.update(left)
            self._find_unborn()
        for child in ended & self._sessions.keys():
            # Its log was read after the result in the log of its parent, so nothing more follows.
            self._sessions.pop(child).close()
        return [item for _, item in (sorted(items, key=lambda dated: dated[0]) if len(read_sessions) > 1 else items)]

    def _track_subagents(self, items: Iterable[SessionEntry | StreamedPiece]) -> set[str]:
        """Record started sub-agents; return those with a result, because nothing more happens in them."""
        ended: set[str] = set()
        for item in items:
            if not isinstance(item, SessionEntry):
                continue
            match item.entry.value:
                case Spawned(child_session=child, reply_id=reply_id, tool_call_id=call_id):
                    self._unborn.add(child)
                    self._pause_s, self._look_at = _UNBORN_FIRST_S, 0.0
                    self._spawned_by[item.session, reply_id, call_id] = child
                case Message(message=ToolResult(reply_id=reply_id, tool_call_id=call_id)):
                    ended.add(self._spawned_by.pop((item.session, reply_id or "", call_id), ""))
        return ended

    def _find_unborn(self) -> None:
        """Subscribe to the sub-agents whose sessions exist by now; look for the others after a growing pause."""
        if self._unborn and (now := time.monotonic()) >= self._look_at:
            self._look_at, self._pause_s = now + self._pause_s, min(2 * self._pause_s, _UNBORN_MAX_S)
            self._subscribe_to_unborn()

    def _subscribe_to_unborn(self) -> None:
        for child in list(self._unborn):
            with contextlib.suppress(NotFound):
                subscription = Subscription(self._store, self._store.name(child), after=-1)
                self._unborn.discard(child)
                self._sessions[child] = subscription
                if self._signal is not None:
                    subscription.start(self._signal.set)

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────

    @property
    def has_news(self) -> bool:
        """Whether something has arrived since the last reading, or it is time to look for a new sub-agent."""
        is_due = bool(self._unborn) and time.monotonic() >= self._look_at
        return is_due or any(subscription.has_news for subscription in self._sessions.values())

    @property
    def is_started(self) -> bool:
        """Whether the sessions are followed."""
        return self._signal is not None

    def start(self) -> None:
        """Follow the sessions; `wait` waits for news of them. For the running event loop."""
        self._signal = LoopSignal()
        for subscription in self._sessions.values():
            subscription.start(self._signal.set)

    def stop(self) -> None:
        """Stop following. The positions are kept."""
        self._signal = None
        for subscription in self._sessions.values():
            subscription.close()

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait until there may be news, or until the timeout."""
        assert self._signal is not None
        if self._unborn:
            look_in_s = max(0.0, self._look_at - time.monotonic())
            timeout_s = look_in_s if timeout_s is None else min(look_in_s, timeout_s)
        await self._signal.wait(timeout_s)

    async def watch(self, report: Callable[[list[SessionEntry | StreamedPiece]], None]) -> None:
        """Report news as they arrive, until cancelled. Outages of the store are waited out."""
        self.start()
        try:
            while True:
                with contextlib.suppress(Unavailable):
                    report(self.fetch())
                await self.wait()
        finally:
            self.stop()


def _dated_items(session: str, found: Sequence[News]) -> list[tuple[str, SessionEntry | StreamedPiece]]:
    """Return the news of a session in order, each with the time to sort it by among those of other sessions."""
    items: list[tuple[str, SessionEntry | StreamedPiece]] = []
    for number, news in enumerate(found, 1):
        items += [(entry.value.timestamp, SessionEntry(session, entry)) for entry in news.entries]
        # The last pieces come after the entries of all sessions.
        moment = _AFTER_ALL if number == len(found) else items[-1][0] if items else ""
        items += [(moment, piece) for piece in news.pieces]
    return items


class EntryReporter:
    """Reports the new entries of a session and its sub-agents to a listener."""

    def __init__(self, store: Store, name: str, after: int, on_entry: EntryListener) -> None:
        self._watcher = SessionWatcher(store, name, after)
        self._on_entry = on_entry

    def catch_up(self) -> None:
        """Report all entries since the last call; those of several sessions sorted by timestamp."""
        self._report(self._watcher.read_new())

    async def watch(self) -> None:
        """Report entries as they are appended, until cancelled."""
        await self._watcher.watch(self._report)

    def _report(self, items: Iterable[SessionEntry | StreamedPiece]) -> None:
        for item in items:
            if isinstance(item, SessionEntry):
                self._on_entry(item.session, item.entry)


class WatchedChannel:
    """A channel wrapper that calls `catch_up`, which reports new entries, before it shows the next reply.

    When the reader of the output has closed it, the current reply is finished; the next `begin` ends the command.
    """

    def __init__(self, channel: Channel, catch_up: Callable[[], None]) -> None:
        self.name = channel.name
        self._channel = channel
        self._catch_up = catch_up
        self._reader_is_gone = False

    async def begin(self, reply_id: str, attempt: int) -> None:
        """See `ports.Channel`."""
        if self._reader_is_gone:
            raise OutputClosed
        with self._detect_closed_output():
            self._catch_up()
            await self._channel.begin(reply_id, attempt)

    async def delta(self, reply_id: str, offset: int, text: str) -> None:
        """See `ports.Channel`."""
        with self._detect_closed_output():
            await self._channel.delta(reply_id, offset, text)

    async def reset(self, reply_id: str) -> None:
        """See `ports.Channel`. The open line is finished before entries are reported."""
        with self._detect_closed_output():
            await self._channel.reset(reply_id)
            self._catch_up()

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
