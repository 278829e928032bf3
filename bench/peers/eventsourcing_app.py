"""eventsourcing: an aggregate with one event per message, saved by an `Application` after each.

The aggregate is kept between appends, which is the cheapest way to use it: fetching it again replays all its events.
"""

import os
import uuid
from collections.abc import Sequence

from eventsourcing.application import AggregateNotFoundError, Application
from eventsourcing.domain import Aggregate, event
from psycopg.conninfo import conninfo_to_dict

from bench.peers.floors import said_pragmas


class Conversation(Aggregate):
    """The messages of a conversation, with their roles."""

    @event("Begun")
    def __init__(self, key: str) -> None:
        self.key = key
        self.messages: list[dict[str, str]] = []

    @staticmethod
    def create_id(key: str) -> uuid.UUID:
        return uuid.uuid5(uuid.NAMESPACE_URL, key)

    @event("Said")
    def say(self, role: str, content: str) -> None:
        self.messages.append({"role": role, "content": content})


class _App:
    packages = ("eventsourcing",)
    call = "`Application.save` after one event"
    objects = "dictionaries in an aggregate (`repository.get`)"
    forks = ""

    def _begin(self, environment: dict[str, str]) -> None:
        self._app = Application(environment)
        self._id = Conversation.create_id("bench")
        try:
            self._conversation = self._app.repository.get(self._id)
        except AggregateNotFoundError:
            self._conversation = Conversation(key="bench")
            self._app.save(self._conversation)

    def append(self, text: str) -> None:
        self._conversation.say(role="user", content=text)
        self._app.save(self._conversation)

    def load(self) -> list[dict[str, str]]:
        messages: list[dict[str, str]] = self._app.repository.get(self._id).messages
        return messages

    def texts(self, loaded: Sequence[object]) -> list[str]:
        return [said["content"] for said in loaded if isinstance(said, dict)]

    def fork(self, text: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self._app.close()

    def _answer(self, query: str) -> str | int:
        """Return what the application's own connection answers."""
        with self._app.factory.datastore.transaction(commit=False) as cursor:
            cursor.execute(query)
            found = cursor.fetchone()
        value: str | int = next(iter(found.values())) if isinstance(found, dict) else found[0]
        return value


class OnSqlite(_App):
    def open(self, place: str) -> None:
        path = os.path.join(place, "events.sqlite")
        self._begin({"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": path})

    def settings(self) -> str:
        return said_pragmas(str(self._answer("PRAGMA journal_mode")), int(self._answer("PRAGMA synchronous")))


class OnPostgres(_App):
    def open(self, place: str) -> None:
        part = conninfo_to_dict(place)
        self._begin(
            {
                "PERSISTENCE_MODULE": "eventsourcing.postgres",
                "POSTGRES_DBNAME": str(part["dbname"]),
                "POSTGRES_HOST": str(part.get("host", "localhost")),
                "POSTGRES_PORT": str(part.get("port", "5432")),
                "POSTGRES_USER": str(part.get("user", "postgres")),
                "POSTGRES_PASSWORD": str(part.get("password", "")),
            }
        )

    def settings(self) -> str:
        with self._app.factory.datastore.transaction(commit=False) as cursor:
            found = cursor.execute("SHOW synchronous_commit").fetchone()
        return f"synchronous_commit={found['synchronous_commit']}"
