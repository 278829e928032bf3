"""Group commit: appends of many tasks share the cost of being made durable.

While one group is being committed in a thread, whoever comes meanwhile gathers for the next: no timer, no tuning, and
a task that is alone waits for nobody. Rule 1: what is handed in for one session is appended in that order. Rule 2: an
answer, or an error, goes to the one who asked. Rule 3: only so many wait; more are made to wait before they are let in.

    async with GroupCommit(store) as group:
        sealed = await group.append(session, body, after=seq)
"""

import asyncio
import threading
from queue import SimpleQueue
from types import TracebackType
from typing import Self, TypeAlias

from wakelog.errors import UsageError
from wakelog.ports import Append, Sealed, Store

WAITING_MAX = 1_024
GROUP_MAX = 256
_Waiting: TypeAlias = tuple[Append, asyncio.Future[Sealed]]
_Answered: TypeAlias = tuple[_Waiting, Sealed | BaseException]
# None: there are no more.
_Groups: TypeAlias = SimpleQueue[list[_Waiting] | None]


class GroupCommit:
    """One store's appends, for the tasks of one event loop. Use it with `async with`."""

    def __init__(self, store: Store, *, waiting_max: int = WAITING_MAX, group_max: int = GROUP_MAX) -> None:
        self._store = store
        self._group_max = group_max
        self._waiting: list[_Waiting] = []
        self._room = asyncio.Semaphore(waiting_max)
        self._groups: _Groups | None = None
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._groups = SimpleQueue()
        # Where the block is never left, because the process ends, nobody waits for the thread either.
        self._thread = threading.Thread(target=self._work, args=(self._groups,), name="wakelog-commit", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Lets everything that was handed in come to its end first, also where whoever leaves cannot wait for it."""
        try:
            await self._is_idle.wait()
        finally:
            groups, self._groups = self._groups, None
            if groups is not None and self._is_idle.is_set():
                groups.put(None)
        self._thread.join()

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
        if self._groups is None:
            self._room.release()
            raise UsageError("this group takes no appends", hint="use it inside `async with`")
        answer: asyncio.Future[Sealed] = self._loop.create_future()
        self._waiting.append((Append(session, body, after, behind, fence, durable), answer))
        if self._is_idle.is_set():
            self._is_idle.clear()
            self._loop.call_soon(self._commit, self._groups)
        return await answer

    def _commit(self, groups: _Groups) -> None:
        """Hands the next group to the thread, if anybody waits."""
        group = self._gathered()
        if group:
            groups.put(group)
            return
        self._is_idle.set()
        if self._groups is None:
            groups.put(None)

    def _gathered(self) -> list[_Waiting]:
        """The next group: all who wait, unless they are too many."""
        group: list[_Waiting] = []
        while self._waiting and not group:
            taken, self._waiting = self._waiting[: self._group_max], self._waiting[self._group_max :]
            for _ in taken:
                self._room.release()
            group = [one for one in taken if not one[1].cancelled()]
        return group

    def _work(self, groups: _Groups) -> None:
        """The thread: one group after the other."""
        while (group := groups.get()) is not None:
            answered = self._answered(group)
            try:
                self._loop.call_soon_threadsafe(self._tell, groups, answered)
            except RuntimeError:
                # The loop is closed: nobody is left who waits.
                return

    def _answered(self, group: list[_Waiting]) -> list[_Answered]:
        try:
            return list(zip(group, self._store.append_all([append for append, _ in group]), strict=True))
        except BaseException as error:  # noqa: BLE001 - whatever went wrong, all who wait must hear of it
            return [(one, error) for one in group]

    def _tell(self, groups: _Groups, answered: list[_Answered]) -> None:
        for (_, waiting), answer in answered:
            if waiting.cancelled():
                continue
            if isinstance(answer, BaseException):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)
        # Who has just been told may have more to say: it goes into the same group as those who came meanwhile.
        self._loop.call_soon(self._commit, groups)
