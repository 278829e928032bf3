"""Wake many sessions concurrently, with a limit: one that waits for its provider does not delay the others.

Rule 1: each session is woken as it would be alone: under its own lease, with its own channel and its own ending. One
that fails, or is run by another process, does not stop the others.
Rule 2: a sub-agent is run by its parent. It is woken on its own only after the parent is done.
Rule 3: a session that was forked, or has a moved head, waits for a person and is not woken (`is_dormant`).
Rule 4: the first Ctrl-C cancels the running turns and starts no others; the second leaves all sessions at once, in the
state in which a killed process leaves them.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

import msgspec

from wakelog.cli.behind import behind
from wakelog.cli.configured import check_session
from wakelog.cli.driving import Ending, Run, ending_of, handle_sigint
from wakelog.cli.options import Asked
from wakelog.cli.places import Place
from wakelog.cli.renderers import renderer_for
from wakelog.errors import WakelogError
from wakelog.log.entry import Session as SessionEntry
from wakelog.ports import Store
from wakelog.projections.session_row import SessionRow
from wakelog.projections.state import is_dormant
from wakelog.reading import read_first
from wakelog.runtime.checks import check_custody
from wakelog.runtime.user_actions import has_failed, retry
from wakelog.session import Session


class Woken(msgspec.Struct, frozen=True):
    """The result for one session: how it ended, or the error; with neither, it is dormant and was not woken."""

    row: SessionRow
    session: Session | None = None
    ending: Ending | None = None
    error: WakelogError | OSError | None = None


class BatchWake:
    """Wakes sessions concurrently, at most `jobs` at a time. `told` is called with each result when it is known."""

    def __init__(self, asked: Asked, place: Place, *, jobs: int, quiet: bool, told: Callable[[Woken], None]) -> None:
        self._asked = asked
        self._place = place
        self._quiet = quiet
        self._told = told
        self._free = asyncio.Semaphore(jobs)
        self._running: set[Run] = set()
        self._over = False

    async def wake(self, rows: Sequence[SessionRow]) -> bool:
        """Wake the sessions in order; False if Ctrl-C stopped it."""
        tasks: dict[str, asyncio.Task[None]] = {}
        for row in rows:
            sender = tasks.get(sent_by(self._place.store, row)) if row.origin in tasks else None
            tasks[row.id] = asyncio.ensure_future(self._one(row, sender))
        with handle_sigint(self._interrupt):
            await _all_of(tasks.values())
        return not self._over

    async def _one(self, row: SessionRow, sender: "asyncio.Task[None] | None") -> None:
        if sender is not None:
            await asyncio.wait({sender})
        async with self._free:
            if not self._over:
                self._told(await self._woken(row))

    async def _woken(self, row: SessionRow) -> Woken:
        try:
            session = Session(self._place.store, row.name)
            if is_dormant(session.tree):
                return Woken(row)
            check_custody(session)
            if row.state == "failed" and has_failed(session):
                await behind(lambda: check_session(session))
                retry(session)
            renderer = renderer_for(self._asked, session, quiet=self._quiet, apart=True)
            run = Run(session, renderer, session.last_seq, self._place.url)
            self._running.add(run)
            try:
                report = await run.wake()
            finally:
                self._running.discard(run)
        except (WakelogError, OSError) as error:
            return Woken(row, error=error)
        return Woken(row, session, ending_of(session, report, report.rows, interrupted=run.interrupted))

    def _interrupt(self) -> bool:
        self._over = True
        cancelled = [run for run in self._running if run.interrupt()]
        return bool(cancelled)


async def _all_of(tasks: Iterable["asyncio.Task[None]"]) -> None:
    """Wait for all tasks; if one raises, cancel the others."""
    left = list(tasks)
    try:
        await asyncio.gather(*left)
    finally:
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)


def sent_by(store: Store, row: SessionRow) -> str:
    """Return the session that started a sub-agent; empty for other sessions."""
    first = read_first(store, row.name)
    origin = first.value.parent if first is not None and isinstance(first.value, SessionEntry) else None
    return origin.session if origin is not None and origin.kind == "subagent" else ""
