"""The size of an idle session in each store beside that of its content.

Files: logs and blobs, without what is derived. Databases: logs, blobs, and the catalog after it was brought up to date,
with all indexes and free pages, less the size of a store with an empty session. SQLite is measured after a checkpoint,
so that its write-ahead log is empty; PostgreSQL without the server's write-ahead log, which all databases share. Its
tables are vacuumed every few turns: 200 turns with a real model take hours, in which the server does that itself.
"""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import psycopg

from bench.made import Words
from bench.measure import Figure
from tests.servers.place import Place
from tests.servers.postgres import own_server
from wakelog.app.agent import Agent
from wakelog.ports.stores import Store
from wakelog.providers.scripted import ScriptedProvider
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.stores import open_catalog, open_store
from wakelog.tools.function_tool import tool

GROUP = "Size"
TURNS = 200
VACUUM_TURNS = 5
_TABLES = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname = 'wakelog'
"""


class Kind(msgspec.Struct, frozen=True):
    """A store to measure: `size` returns its bytes, `tidy` does what happens by itself in hours of use."""

    url: str
    counted: str
    limit: float
    size: Callable[[], int]
    tidy: Callable[[], None] = lambda: None
    has_catalog: bool = True


def stored(folder: str, words: Words) -> Iterator[Figure]:
    """200 turns, run by `wake`: a prompt, a tool call with an 8 KB result, and a 4 KB reply."""
    for opening in (_files, _sqlite, _postgres):
        with opening(folder) as kind:
            yield _measure(kind, words)


def _measure(kind: Kind, words: Words) -> Figure:
    store = open_store(kind.url)
    empty, content = _talk(kind, store, words)
    _rest(kind, store)
    store.close()
    size = kind.size() - empty
    return Figure(
        group=GROUP,
        what=f"bytes stored / bytes of content, {kind.url.partition(':')[0]}",
        workload=f"{TURNS} turns of a 4 KB reply and an 8 KB tool result through `wake`; {kind.counted}, after rest",
        floor="the texts alone",
        goal=f"≤ {kind.limit}",
        ratio=size / content,
        limit=kind.limit,
        measured=f"{size / 1e6:.2f} MB : {content / 1e6:.2f} MB",
    )


def _talk(kind: Kind, store: Store, words: Words) -> tuple[int, int]:
    """Run the turns of one session; return the size of the store before the first one, and the size of the texts."""
    content = 0

    @tool(replay="safe")
    async def look(command: str) -> str:
        """Look."""
        nonlocal content
        said = _exactly(words, 8_192)
        content += len(said.encode()) + len(command.encode())
        return said

    replies: list[dict[str, Any]] = []
    for _ in range(TURNS):
        reply, command = _exactly(words, 4_096), _exactly(words, 80)
        content += len(reply.encode())
        replies += [{"toolCalls": [{"name": "look", "input": {"command": command}}]}, {"text": reply}]
    session = Agent(model="scripted:size", tools=(look,)).begin(store)
    _rest(kind, store)
    empty = kind.size() if kind.has_catalog else 0
    runtime = LiveRuntime(store, tools=(look,), provider=lambda _, __: ScriptedProvider(replies))
    for turn in range(TURNS):
        prompt = _exactly(words, 100)
        content += len(prompt.encode())
        session.say(prompt)
        asyncio.run(wake(runtime, session.name))
        if turn % VACUUM_TURNS == 0:
            kind.tidy()
    return empty, content


def _rest(kind: Kind, store: Store) -> None:
    if kind.has_catalog:
        catalog = open_catalog(kind.url, store)
        catalog.refresh()
        catalog.close()
    kind.tidy()


def _exactly(words: Words, size: int) -> str:
    text = ""
    while len(text) < size:
        text += words.text(size) + " "
    return text[:size]


# ── stores ───────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def _files(folder: str) -> Iterator[Kind]:
    place = os.path.join(folder, "files")
    yield Kind(
        f"jsonl:{place}",
        "log and blobs",
        1.3,
        lambda: sum(os.path.getsize(path) for path in _kept(place)),
        has_catalog=False,
    )


def _kept(folder: str) -> Iterator[str]:
    """Yield the paths of logs and blobs, without what is derived."""
    for place, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(place, name)
            if not os.path.islink(path) and (name.endswith(".jsonl") or "/.blobs/" in path):
                yield path


@contextlib.contextmanager
def _sqlite(folder: str) -> Iterator[Kind]:
    path = os.path.join(folder, "store.db")

    def size() -> int:
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return os.path.getsize(path)

    yield Kind(f"sqlite:{path}", "log, blobs, list and full-text search with all indexes", 1.5, size)


@contextlib.contextmanager
def _postgres(folder: str) -> Iterator[Kind]:  # noqa: ARG001 - the server has a folder of its own
    with own_server(Place(os.getpid())) as server:
        url = server.new_database()

        def size() -> int:
            with psycopg.connect(url) as db:
                found = db.execute(_TABLES).fetchone()
                assert found is not None
                return int(found[0])

        def vacuum() -> None:
            with psycopg.connect(url, autocommit=True) as db:
                db.execute("VACUUM")

        yield Kind(url, "log, blobs, list and full-text search with all indexes, vacuumed", 1.5, size, vacuum)
