"""OpenAI Agents: `SQLiteSession` on a file, one item per `add_items`."""

import asyncio
import os
from collections.abc import Sequence

from agents import SQLiteSession

from bench.peers.floors import pragmas


class OpenaiSession:
    packages = ("openai-agents",)
    call = "`add_items` of one item"
    objects = "dictionaries (`get_items`)"
    forks = ""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def open(self, place: str) -> None:
        self._session = SQLiteSession("bench", os.path.join(place, "conversations.sqlite"))

    def append(self, text: str) -> None:
        self._loop.run_until_complete(self._session.add_items([{"role": "user", "content": text}]))

    def load(self) -> list[object]:
        return self._loop.run_until_complete(self._session.get_items())

    def texts(self, loaded: Sequence[object]) -> list[str]:
        return [item["content"] for item in loaded if isinstance(item, dict)]

    def settings(self) -> str:
        # Every thread has its own connection, all set up by this one function.
        return pragmas(self._session._get_connection())  # noqa: SLF001

    def fork(self, text: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self._session.close()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
