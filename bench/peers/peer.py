"""The interface of a peer, and the list of all peers.

A peer is made and opened on a place: a folder for files and SQLite, the URL of an empty database for PostgreSQL. Opened
a second time on the same place it finds the conversation again.
"""

import importlib
from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

Kind = Literal["files", "sqlite", "postgresql"]
KINDS: dict[Kind, str] = {"files": "Files", "sqlite": "SQLite", "postgresql": "PostgreSQL"}


class Peer(Protocol):
    """One conversation in some storage."""

    # The distributions whose versions are printed, what an append calls, what loading returns, and what branching
    # calls (empty: it has no branches).
    packages: tuple[str, ...]
    call: str
    objects: str
    forks: str

    def open(self, place: str) -> None: ...

    def append(self, text: str) -> None:
        """Add a message. Return when the peer acknowledges it."""
        ...

    def load(self) -> Sequence[object]:
        """Return every message from the storage, as the peer's own objects."""
        ...

    def texts(self, loaded: Sequence[object]) -> list[str]:
        """Return the texts of those objects."""
        ...

    def settings(self) -> str:
        """Return what the peer's own connection says of its durability."""
        ...

    def fork(self, text: str) -> None:
        """Go back to the middle of the messages that this object has appended, and add a message there."""
        ...

    def close(self) -> None: ...


class Row(msgspec.Struct, frozen=True):
    """One measured library: a name for the command line and one for the table, and where its code is."""

    name: str
    title: str
    kind: Kind
    module: str
    maker: str

    @property
    def is_ours(self) -> bool:
        """Whether this is wakelog or a floor, which must work wherever the bench runs."""
        return self.module in ("floors", "wakelog_session")


ROWS = (
    Row("wakelog-files", "wakelog, files", "files", "wakelog_session", "OnFiles"),
    Row("wakelog-sqlite", "wakelog, SQLite", "sqlite", "wakelog_session", "OnSqlite"),
    Row("wakelog-postgresql", "wakelog, PostgreSQL", "postgresql", "wakelog_session", "OnPostgres"),
    Row("langgraph-sqlite", "LangGraph `SqliteSaver`", "sqlite", "langgraph_saver", "OnSqlite"),
    Row("langgraph-postgresql", "LangGraph `PostgresSaver`", "postgresql", "langgraph_saver", "OnPostgres"),
    Row("openai-sqlite", "OpenAI Agents `SQLiteSession`", "sqlite", "openai_session", "OpenaiSession"),
    Row("adk-sqlite", "Google ADK `DatabaseSessionService`, SQLite", "sqlite", "adk_service", "OnSqlite"),
    Row("adk-postgresql", "Google ADK `DatabaseSessionService`, PostgreSQL", "postgresql", "adk_service", "OnPostgres"),
    Row("eventsourcing-sqlite", "eventsourcing, SQLite", "sqlite", "eventsourcing_app", "OnSqlite"),
    Row("eventsourcing-postgresql", "eventsourcing, PostgreSQL", "postgresql", "eventsourcing_app", "OnPostgres"),
)
FLOORS: dict[Kind, Row] = {
    "files": Row("floor-files", "bare file", "files", "floors", "File"),
    "sqlite": Row("floor-sqlite", "bare sqlite3", "sqlite", "floors", "Sqlite"),
    "postgresql": Row("floor-postgresql", "bare psycopg", "postgresql", "floors", "Postgres"),
}


def row(name: str) -> Row:
    """Return the row of that name."""
    return next(each for each in (*FLOORS.values(), *ROWS) if each.name == name)


def make(of: Row) -> Peer:
    """Return a peer that is not opened yet; its library is loaded here."""
    peer: Peer = getattr(importlib.import_module(f"bench.peers.{of.module}"), of.maker)()
    return peer
