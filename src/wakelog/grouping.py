"""Group commit: appends of many tasks share the cost of being made durable.

While one group is being committed in a thread, whoever comes meanwhile gathers for the next: no timer, no tuning, and
a task that is alone waits for nobody. Rule 1: what is handed in for one session is appended in that order. Rule 2: an
answer, or an error, goes to the one who asked. Rule 3: only so many wait; more are made to wait before they are let in.

    async with GroupCommit(store) as group:
        sealed = await group.append(session, body, after=seq)
"""

import asyncio
import contextlib
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Self, TypeAlias

from wakelog.errors import UsageError
from wakelog.ports import Append, Sealed, Store

WAITING_MAX = 1_024
GROUP_MAX = 256
_Waiting: TypeAlias = tuple[Append, asyncio.Future[Sealed]]
_Answered: TypeAlias = tuple[_Waiting, Sealed | BaseException]


class GroupCommit:
    """One store's appends, for the tasks of one event loop. Use it with `async with`."""

    def __init__(self, store: Store, *, waiting_max: int = WAITING_MAX, group_max: int = GROUP_MAX) -> None:
        self._store = store
        self._group_max = group_max
        self._waiting: list[_Waiting] = []
        self._room = asyncio.Semaphore(waiting_max)
        self._thread: ThreadPoolExecutor | None = None
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "wakelog-commit")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Lets everything that was handed in come to its end first."""
        await self._is_idle.wait()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown()

    async def append(
        self,
        session: str,
        body: bytes,
        *,
        after: int,
        behind: int = 0,
        fence: int | None = None,
        durable: bool = True,
    ) -> Sealed:
        """What `Store.append` does. A task that is cancelled while it waits may or may not have appended."""
        await self._room.acquire()
        if self._thread is None:
            self._room.release()
            raise UsageError("this group takes no appends", hint="use it inside `async with`")
        answer: asyncio.Future[Sealed] = self._loop.create_future()
        self._waiting.append((Append(session, body, after, behind, fence, durable), answer))
        if self._is_idle.is_set():
            self._is_idle.clear()
            self._loop.call_soon(self._commit, self._thread)
        return await answer

    def _commit(self, thread: ThreadPoolExecutor) -> None:
        """Has the next group committed in the thread, if anybody waits."""
        group = self._gathered()
        if not group:
            self._is_idle.set()
            return
        thread.submit(self._answered, group).add_done_callback(partial(self._committed, thread, group))

    def _answered(self, group: list[_Waiting]) -> list[_Answered]:
        """Commits a group, in the thread."""
        return list(zip(group, self._store.append_all([append for append, _ in group]), strict=True))

    def _committed(self, thread: ThreadPoolExecutor, group: list[_Waiting], work: Future[list[_Answered]]) -> None:
        # In the thread. A loop that is closed has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell, thread, group, work)

    def _tell(self, thread: ThreadPoolExecutor, group: list[_Waiting], work: Future[list[_Answered]]) -> None:
        # Whatever went wrong, all who wait must hear of it.
        error = work.exception()
        for (_, waiting), answer in work.result() if error is None else [(one, error) for one in group]:
            if waiting.cancelled():
                continue
            if isinstance(answer, BaseException):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)
        # Who has just been told may have more to say: it goes into the same group as those who came meanwhile.
        self._loop.call_soon(self._commit, thread)

    def _gathered(self) -> list[_Waiting]:
        """The next group: all who wait, unless they are too many."""
        group: list[_Waiting] = []
        while self._waiting and not group:
            taken, self._waiting = self._waiting[: self._group_max], self._waiting[self._group_max :]
            for _ in taken:
                self._room.release()
            group = [one for one in taken if not one[1].cancelled()]
        return group
