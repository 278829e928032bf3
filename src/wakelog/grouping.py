"""Group commit: appends of many tasks share the cost of being made durable.

While one group is being committed in a thread, whoever comes meanwhile gathers for the next: no timer, no tuning, and
a task that is alone waits for nobody. Rule 1: what is handed in for one session is appended in that order. Rule 2: an
answer, or an error, goes to the one who asked. Rule 3: only so many wait; more are made to wait before they are let in.

    async with GroupCommit(store) as group:
        sealed = await group.append(session, body, after=seq)
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeAlias

from wakelog.errors import UsageError, WakelogError
from wakelog.ports import Append, Sealed, Store

WAITING_MAX = 1_024
GROUP_MAX = 256
_Waiting: TypeAlias = tuple[Append, asyncio.Future[Sealed]]


class GroupCommit:
    """One store's appends, for the tasks of one event loop. Use it with `async with`."""

    def __init__(self, store: Store, *, waiting_max: int = WAITING_MAX, group_max: int = GROUP_MAX) -> None:
        self._store = store
        self._group_max = group_max
        self._waiting: list[_Waiting] = []
        self._room = asyncio.Semaphore(waiting_max)
        self._thread: ThreadPoolExecutor | None = None
        self._committing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._thread = ThreadPoolExecutor(1, "wakelog-commit")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Lets everything that was handed in come to its end first."""
        while self._committing is not None:
            await asyncio.wait([self._committing])
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
        answer: asyncio.Future[Sealed] = asyncio.get_running_loop().create_future()
        self._waiting.append((Append(session, body, after, behind, fence, durable), answer))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit(self._thread))
        return await answer

    async def _commit(self, thread: ThreadPoolExecutor) -> None:
        """One group after the other, as long as anybody waits."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            group = self._gathered()
            try:
                got = await loop.run_in_executor(thread, self._store.append_all, [append for append, _ in group])
                _tell(group, got)
            except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
                _tell(group, [error] * len(group))
            # Who has just been told may have more to say: it goes into the same group as those who came meanwhile.
            await asyncio.sleep(0)
        self._committing = None

    def _gathered(self) -> list[_Waiting]:
        """The next group: all who wait, unless they are too many."""
        group, self._waiting = self._waiting[: self._group_max], self._waiting[self._group_max :]
        for _ in group:
            self._room.release()
        return [one for one in group if not one[1].cancelled()]


def _tell(group: Sequence[_Waiting], answers: Sequence[Sealed | WakelogError | Exception]) -> None:
    for (_, waiting), answer in zip(group, answers, strict=True):
        if waiting.cancelled():
            continue
        if isinstance(answer, Exception):
            waiting.set_exception(answer)
        else:
            waiting.set_result(answer)
