"""Group commit: batch concurrent appends of many tasks, so that they share the cost of syncing.

While a thread commits one group, new appends collect for the next one. There is no timer, and a single task does not
wait for others.
Rule 1: appends to one session keep the order in which they were submitted.
Rule 2: each task gets the result or error of its own append.
Rule 3: at most `waiting_max` appends are queued; further tasks wait in `append` until there is space.

    async with GroupCommit(store) as group:
        sealed = await group.append(session, body, after=seq)
"""

import asyncio
import threading
from queue import SimpleQueue
from types import TracebackType
from typing import Self, TypeAlias

from wakelog.errors import UsageError
from wakelog.ports.stores import AppendRequest, SealedLine, Store

WAITING_MAX = 1_024
GROUP_MAX = 256
_Waiting: TypeAlias = tuple[AppendRequest, asyncio.Future[SealedLine]]
_Answered: TypeAlias = tuple[_Waiting, SealedLine | BaseException]
# None ends the thread.
_Groups: TypeAlias = SimpleQueue[list[_Waiting] | None]


class GroupCommit:
    """Groups the appends to one store by the tasks of one event loop. Use it with `async with`."""

    def __init__(self, store: Store, *, waiting_max: int = WAITING_MAX, group_max: int = GROUP_MAX) -> None:
        self._store = store
        self._group_max = group_max
        self._waiting: list[_Waiting] = []
        self._slots = asyncio.Semaphore(waiting_max)
        self._groups: _Groups | None = None
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._groups = SimpleQueue()
        # A daemon thread: if the process ends inside the block, its exit does not wait for the thread.
        self._thread = threading.Thread(target=self._work, args=(self._groups,), name="wakelog-commit", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for all submitted appends, then end the thread. If this wait is cancelled, they are still committed."""
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
    ) -> SealedLine:
        """See `Store.append`. If the task is cancelled while it waits, the entry may or may not be appended."""
        await self._slots.acquire()
        if self._groups is None:
            self._slots.release()
            raise UsageError("this GroupCommit is not open", hint="use it inside `async with`")
        answer: asyncio.Future[SealedLine] = self._loop.create_future()
        self._waiting.append((AppendRequest(session, body, after, behind, fence, durable), answer))
        if self._is_idle.is_set():
            self._is_idle.clear()
            self._loop.call_soon(self._commit, self._groups)
        return await answer

    def _commit(self, groups: _Groups) -> None:
        """Hand the next group to the thread; without queued appends, become idle."""
        group = self._next_group()
        if group:
            groups.put(group)
            return
        self._is_idle.set()
        if self._groups is None:
            groups.put(None)

    def _next_group(self) -> list[_Waiting]:
        """The next group: up to `group_max` queued appends, without those whose task was cancelled."""
        group: list[_Waiting] = []
        while self._waiting and not group:
            taken, self._waiting = self._waiting[: self._group_max], self._waiting[self._group_max :]
            for _ in taken:
                self._slots.release()
            group = [one for one in taken if not one[1].cancelled()]
        return group

    def _work(self, groups: _Groups) -> None:
        """Commit one group after the other. Runs in the thread."""
        while (group := groups.get()) is not None:
            answered = self._commit_group(group)
            try:
                self._loop.call_soon_threadsafe(self._set_results, groups, answered)
            except RuntimeError:
                # The event loop is closed, so no task waits for an answer.
                return

    def _commit_group(self, group: list[_Waiting]) -> list[_Answered]:
        try:
            return list(zip(group, self._store.append_all([append for append, _ in group]), strict=True))
        except BaseException as error:  # noqa: BLE001 - every waiting task must get the error
            return [(one, error) for one in group]

    def _set_results(self, groups: _Groups, answered: list[_Answered]) -> None:
        for (_, waiting), answer in answered:
            if waiting.cancelled():
                continue
            if isinstance(answer, BaseException):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)
        # Deferred, so that tasks that resume now can add their next append to the same group.
        self._loop.call_soon(self._commit, groups)
