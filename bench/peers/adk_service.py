"""Google ADK: `DatabaseSessionService`, one event per `append_event`, with the asynchronous drivers it needs."""

import asyncio
import os
from collections.abc import Coroutine, Sequence
from typing import Any
from urllib.parse import quote

from google.adk.events import Event
from google.adk.sessions import DatabaseSessionService
from google.genai import types
from psycopg.conninfo import conninfo_to_dict

from bench.peers.floors import said_pragmas

_KEY = {"app_name": "bench", "user_id": "user", "session_id": "bench"}


class _Service:
    packages = ("google-adk",)
    call = "`append_event`"
    objects = "`Event` (`get_session`)"
    forks = ""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def _begin(self, url: str) -> None:
        self._service = DatabaseSessionService(url)
        found = self._wait(self._service.get_session(**_KEY))
        self._session = found or self._wait(self._service.create_session(**_KEY))

    def append(self, text: str) -> None:
        content = types.Content(role="user", parts=[types.Part(text=text)])
        self._wait(self._service.append_event(self._session, Event(author="user", content=content)))

    def load(self) -> list[Event]:
        events: list[Event] = self._wait(self._service.get_session(**_KEY)).events
        return events

    def texts(self, loaded: Sequence[object]) -> list[str]:
        return [event.content.parts[0].text for event in loaded if isinstance(event, Event)]

    def fork(self, text: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self._wait(self._service.close())
        self._loop.close()

    def _wait(self, act: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(act)

    async def _answers(self, *queries: str) -> list[Any]:
        """Return what the service's own engine answers."""
        async with self._service.db_engine.connect() as connection:
            return [(await connection.exec_driver_sql(query)).scalar() for query in queries]


class OnSqlite(_Service):
    def open(self, place: str) -> None:
        self._begin(f"sqlite+aiosqlite:///{os.path.join(place, 'sessions.sqlite')}")

    def settings(self) -> str:
        return said_pragmas(*self._wait(self._answers("PRAGMA journal_mode", "PRAGMA synchronous")))


class OnPostgres(_Service):
    def open(self, place: str) -> None:
        self._begin(_asyncpg_url(place))

    def settings(self) -> str:
        return f"synchronous_commit={self._wait(self._answers('SHOW synchronous_commit'))[0]}"


def _asyncpg_url(url: str) -> str:
    """Return the URL of the same server for SQLAlchemy with asyncpg; a socket's folder goes into the query."""
    part = {name: quote(str(value), safe="") for name, value in conninfo_to_dict(url).items()}
    who = part.get("user", "postgres") + (f":{part['password']}" if "password" in part else "")
    place = f"host={part.get('host', 'localhost')}&port={part.get('port', '5432')}"
    return f"postgresql+asyncpg://{who}@/{part.get('dbname', 'postgres')}?{place}"
