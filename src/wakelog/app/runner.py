"""Run sessions: wake one and display it, or wake many concurrently, and say how each run ended.

Rule 1: in a batch each session is woken as it would be alone: under its own lease, with its own channel and its own
outcome. One that fails, or is run by another process, does not stop the others.
Rule 2: a sub-agent is run by its parent. It is woken on its own only after the parent is done.
Rule 3: a session that was forked, or has a moved head, waits for a person (`is_dormant`), and one that a program
records waits for that program (`is_recorded`), one that was imported for a person: none of them is woken.
Rule 4: the first interrupt cancels the running turns and starts no others; the second leaves all sessions at once, in
the state in which a killed process leaves them.
"""

import asyncio
import contextlib
import functools
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from wakelog.app.event_loop import run_in_daemon_thread
from wakelog.app.models import check_session_model, open_provider_lazily, prepare_model
from wakelog.app.notices import OutputClosed
from wakelog.app.settings import configure_if_never_run
from wakelog.app.stores import StoreLocation, lock_wait, open_trusted_store
from wakelog.app.watch import TERMINAL_CHANNEL, EntryReporter, Renderer, WatchedChannel
from wakelog.decide.decisions import Await, Idle
from wakelog.errors import WakelogError
from wakelog.log.entry import SessionHeader as SessionEntry
from wakelog.log.entry import UndeliveredReply
from wakelog.ports.catalogs import Catalog, SessionRow
from wakelog.ports.runtime import Channel
from wakelog.ports.stores import Store
from wakelog.projections.deliveries import deliveries
from wakelog.projections.session_state import is_dormant, is_imported, is_recorded
from wakelog.questions import Question, collect_questions
from wakelog.reading import read_session_header
from wakelog.runtime.checks import check_files
from wakelog.runtime.interface import Runtime
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.user_actions import has_failed_turn, request_cancel, retry_turn
from wakelog.runtime.wake import WakeReport, next_decision, wake
from wakelog.session import Session
from wakelog.stores import open_catalog
from wakelog.tools.mcp import ServerPool

_CANCEL_NOTE_DELAY_S = 1.0


class RunOutcome(msgspec.Struct, frozen=True):
    """How a run ended: a state as in `ls`, or `cancelled` or `queued`; and the questions that are still open."""

    state: str
    rows: tuple[str, ...] = ()
    open_questions: tuple[Question, ...] = ()
    interrupted: bool = False

    @property
    def had_nothing_to_do(self) -> bool:
        """Return whether there was nothing to do: one decision, no step, and so no entry."""
        return len(self.rows) == 1 and self.state not in ("waiting", "running")


def outcome_of(session: Session, report: WakeReport, rows: tuple[str, ...], *, interrupted: bool) -> RunOutcome:
    """Return how a run ended, with a state as in `ls`."""
    left = tuple(collect_questions(session)) if isinstance(report.decision, Await) else ()
    state: str
    if report.decision == Idle():
        state = "undelivered" if undelivered_replies(session) else "idle"
    elif isinstance(report.decision, Idle):
        state = report.decision.outcome
    else:
        state = "waiting" if left else "running"
    return RunOutcome(state, rows, left, interrupted)


def undelivered_replies(session: Session) -> list[UndeliveredReply]:
    """Return the replies that could not be displayed here."""
    undelivered = deliveries(session.tree).pending(None).undelivered
    return [reply for reply in undelivered if reply.channel == TERMINAL_CHANNEL]


class SessionRun:
    """One session and its renderer; the session may be woken several times."""

    def __init__(
        self, session: Session, renderer: Renderer, after: int, url: str, servers: ServerPool | None = None
    ) -> None:
        self.name = session.name
        self.interrupted = False
        """Whether Ctrl-C was pressed during the last run."""
        self._session = session
        self._renderer = renderer
        self._reporter = EntryReporter(session.store, session.name, after, renderer.on_entry)
        channel = WatchedChannel(renderer.channel, self._reporter.catch_up)
        self._runtime = runtime_for(session.store, url=url, channels=[channel], servers=servers)

    async def wake(self) -> WakeReport:
        """Wake the session once and display what happens meanwhile. `OutputClosed` if stdout was closed."""
        self.interrupted = False
        await prepare_model(self._runtime, self._session)
        try:
            return await self._watched()
        except BrokenPipeError:
            raise OutputClosed from None

    async def _watched(self) -> WakeReport:
        watching = asyncio.ensure_future(self._reporter.watch())
        try:
            return await wake(self._runtime, self.name)
        finally:
            watching.cancel()
            await asyncio.wait({watching})
            self._reporter.catch_up()
            await self._renderer.close()

    def interrupt(self) -> bool:
        """Append a cancel of the turn; False if there is no turn."""
        self.interrupted = True
        return request_cancel(Session(self._session.store, self.name)) is not None


@contextlib.contextmanager
def handle_sigint(interrupt: Callable[[], bool], on_slow: Callable[[], None]) -> Iterator[None]:
    """Handle Ctrl-C in this task: the first calls `interrupt`, the second cancels the task.

    `on_slow` is called if the turn has not ended a second after the first.
    """
    loop, here, presses = asyncio.get_running_loop(), asyncio.current_task(), 0
    assert here is not None
    timer: asyncio.TimerHandle | None = None

    def pressed() -> None:
        nonlocal presses, timer
        presses += 1
        try:
            leaves = presses > 1
            if not leaves and interrupt():
                # Cancelling is usually immediate; a message is needed only if it is not.
                timer = loop.call_later(_CANCEL_NOTE_DELAY_S, on_slow)
        except (WakelogError, OSError):
            leaves = True
        if leaves:
            here.cancel()

    loop.add_signal_handler(signal.SIGINT, pressed)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        if timer is not None:
            # The event loop may continue, but there is nothing left to cancel.
            timer.cancel()


class WakeResult(msgspec.Struct, frozen=True):
    """The result for one session: how it ended, the error, or why it was skipped."""

    row: SessionRow
    session: Session | None = None
    ending: RunOutcome | None = None
    error: WakelogError | OSError | None = None
    skipped: Literal["dormant", "imported", "recorded"] | None = None


class BatchWake:
    """Wakes sessions concurrently, at most `jobs` at a time.

    `renderer_for` makes the renderer of a session; `on_result` is called with each result when it is known; `on_slow`
    as in `handle_sigint`.
    """

    def __init__(
        self,
        place: StoreLocation,
        *,
        jobs: int,
        renderer_for: Callable[[Session], Renderer],
        on_result: Callable[[WakeResult], None],
        on_slow: Callable[[], None],
    ) -> None:
        self._place = place
        self._renderer_for = renderer_for
        self._on_result = on_result
        self._on_slow = on_slow
        self._free = asyncio.Semaphore(jobs)
        self._running: set[SessionRun] = set()
        self._interrupted = False

    async def wake(self, rows: Sequence[SessionRow]) -> bool:
        """Wake the sessions in order; False if Ctrl-C stopped it."""
        tasks: dict[str, asyncio.Task[None]] = {}
        for row in rows:
            parent = tasks.get(parent_of_subagent(self._place.store, row)) if row.origin in tasks else None
            tasks[row.id] = asyncio.ensure_future(self._one(row, parent))
        with handle_sigint(self._interrupt, self._on_slow):
            await _wait_for_all(tasks.values())
        return not self._interrupted

    async def _one(self, row: SessionRow, parent: "asyncio.Task[None] | None") -> None:
        if parent is not None:
            await asyncio.wait({parent})
        async with self._free:
            if not self._interrupted:
                self._on_result(await self._woken(row))

    async def _woken(self, row: SessionRow) -> WakeResult:
        try:
            session = Session(self._place.store, row.name)
            if is_imported(session.tree):
                return WakeResult(row, skipped="imported")
            if is_dormant(session.tree):
                return WakeResult(row, skipped="dormant")
            if is_recorded(session.tree):
                return WakeResult(row, skipped="recorded")
            check_files(session)
            if row.state == "failed" and has_failed_turn(session):
                await run_in_daemon_thread(lambda: check_session_model(session))
                retry_turn(session)
            decision = next_decision(runtime_for(session.store), session)
            await run_in_daemon_thread(lambda: configure_if_never_run(session, decision))
            run = SessionRun(session, self._renderer_for(session), session.last_seq, self._place.url)
            self._running.add(run)
            try:
                report = await run.wake()
            finally:
                self._running.discard(run)
        except (WakelogError, OSError) as error:
            return WakeResult(row, error=error)
        return WakeResult(row, session, outcome_of(session, report, report.rules, interrupted=run.interrupted))

    def _interrupt(self) -> bool:
        self._interrupted = True
        cancelled = [run for run in self._running if run.interrupt()]
        return bool(cancelled)


async def _wait_for_all(tasks: Iterable["asyncio.Task[None]"]) -> None:
    """Wait for all tasks; if one raises, cancel the others."""
    left = list(tasks)
    try:
        await asyncio.gather(*left)
    finally:
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)


def parent_of_subagent(store: Store, row: SessionRow) -> str:
    """Return the session that started a sub-agent; empty for other sessions."""
    first = read_session_header(store, row.name)
    origin = first.value.parent if first is not None and isinstance(first.value, SessionEntry) else None
    return origin.session if origin is not None and origin.kind == "subagent" else ""


def runtime_for(
    store: Store, *, url: str | None = None, channels: Sequence[Channel] = (), servers: ServerPool | None = None
) -> Runtime:
    """Return the runtime of a command: models with configured keys, and the store's catalog for the memory hook."""
    catalog = functools.partial(_open_own_catalog, url) if url is not None else None
    return LiveRuntime(store, channels=channels, provider=open_provider_lazily, catalog=catalog, servers=servers)


@contextlib.contextmanager
def _open_own_catalog(url: str) -> Iterator[Catalog]:
    """Open a store's catalog for one use, on its own connection, apart from the worker that runs a session."""
    store = open_trusted_store(url)
    catalog = open_catalog(url, store, lock_wait=lock_wait())
    try:
        yield catalog
    finally:
        catalog.close()
        store.close()
