"""wakelog as one of the rows: `Session.append` on each of its stores."""

import os
from collections.abc import Sequence

from bench.peers.floors import pragmas
from wakelog.forking import fork
from wakelog.log.content import Prompt, Text
from wakelog.log.entry import Entry, Message
from wakelog.session import Session
from wakelog.stores import open_store
from wakelog.stores.postgres import PostgresStore
from wakelog.stores.sqlite import SqliteStore


class _Session:
    packages = ("wakelog",)
    call = "`Session.append`"
    objects = "typed entries in a tree (`Session.read`)"
    forks = "`fork`: a new session that names its parent"

    def __init__(self) -> None:
        self._ids: list[str] = []

    def _url(self, place: str) -> str:
        """Return the URL of the store at a place."""
        raise NotImplementedError

    def open(self, place: str) -> None:
        self._store = open_store(self._url(place))
        self._session = Session.create(self._store, session_id="bench", agent="bench")

    def append(self, text: str) -> None:
        self._ids.append(self._session.append(_said(text)).value.id)

    def load(self) -> list[Entry]:
        return [node for node in self._session.read().tree.branch().nodes if isinstance(node.value, Message)]

    def texts(self, loaded: Sequence[object]) -> list[str]:
        nodes = (node.value for node in loaded if isinstance(node, Entry))
        return [node.message.text for node in nodes if isinstance(node, Message)]

    def fork(self, text: str) -> None:
        fork(self._session, self._ids[len(self._ids) // 2]).append(_said(text))

    def close(self) -> None:
        self._store.close()


def _said(text: str) -> Message:
    return Message(message=Prompt(content=(Text(text=text),)))


class OnFiles(_Session):
    def _url(self, place: str) -> str:
        return f"jsonl:{place}"

    def settings(self) -> str:
        return ""


class OnSqlite(_Session):
    def _url(self, place: str) -> str:
        return f"sqlite:{os.path.join(place, 'wakelog.sqlite')}"

    def settings(self) -> str:
        assert isinstance(self._store, SqliteStore)
        with self._store.file.writing() as connection:
            return pragmas(connection)


class OnPostgres(_Session):
    def _url(self, place: str) -> str:
        return place

    def settings(self) -> str:
        assert isinstance(self._store, PostgresStore)
        return f"synchronous_commit={self._store.database.read('SHOW synchronous_commit')[0][0]}"
