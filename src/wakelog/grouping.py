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
        self._waiting: asyncio.Queue[_Waiting] = asyncio.Queue(waiting_max)
        self._committing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._committing = asyncio.create_task(self._commit())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Lets everything that was handed in come to its end first."""
        await self._waiting.join()
        committing, self._committing = self._committing, None
        if committing is not None:
            committing.cancel()
            await asyncio.wait([committing])

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
        if self._committing is None:
            raise UsageError("this group takes no appends", hint="use it inside `async with`")
        answer: asyncio.Future[Sealed] = asyncio.get_running_loop().create_future()
        await self._waiting.put((Append(session, body, after, behind, fence, durable), answer))
        return await answer

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "wakelog-commit") as thread:
            while True:
                group = await self._gathered()
                wanted = [(append, answer) for append, answer in group if not answer.cancelled()]
                try:
                    got = await loop.run_in_executor(thread, self._store.append_all, [append for append, _ in wanted])
                    _tell(wanted, got)
                except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
                    _tell(wanted, [error] * len(wanted))
                finally:
                    for _ in group:
                        self._waiting.task_done()

    async def _gathered(self) -> list[_Waiting]:
        """The next group: the first that comes, and all who wait with it."""
        group = [await self._waiting.get()]
        while len(group) < self._group_max and not self._waiting.empty():
            group.append(self._waiting.get_nowait())
        return group


def _tell(group: Sequence[_Waiting], answers: Sequence[Sealed | WakelogError | Exception]) -> None:
    for (_, waiting), answer in zip(group, answers, strict=True):
        if waiting.cancelled():
            continue
        if isinstance(answer, Exception):
            waiting.set_exception(answer)
        else:
            waiting.set_result(answer)
