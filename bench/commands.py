"""Commands as cold processes, from start to end, over a store that was indexed before."""

import os
import sqlite3
import time
from collections.abc import Iterator

import msgspec

from bench.made import Words, write_store
from bench.measure import COMMAND, Figure, compare, process, python, show, take_turns
from wakelog.stores.catalog.index import Index, index_path
from wakelog.stores.catalog.index_file import IndexTables
from wakelog.stores.jsonl import JsonlStore

GROUP = "Commands, cold processes"
HERE = os.path.dirname(os.path.abspath(__file__))
MESSAGES_A_SESSION = 1_000
ROUNDS, ROUNDS_OF_MANY, SEARCHES = 15, 7, 11
# The ranks of the words that are searched for.
COMMON, RARE = 60, 3_000


def listing(folder: str, words: Words, *, sessions: int) -> Iterator[Figure]:
    """`ls` over so many sessions, none of which has changed since it was indexed."""
    store, environment = _place(folder)
    write_store(store, words, sessions=sessions, messages=4, size=200)
    first = _index(store, environment)
    table = os.path.join(folder, "floor.sqlite")
    _bare_table(store, environment, table)
    taken = take_turns(
        {
            "floor": python(os.path.join(HERE, "bare_ls.py"), store, table),
            "ls": process([COMMAND, "ls", "--json"], environment),
        },
        rounds=ROUNDS if sessions <= 10_000 else ROUNDS_OF_MANY,
    )
    yield Figure(
        group=GROUP,
        what=f"`ls --json`, {sessions:,} sessions",
        workload=f"all rows printed; the first `ls` of this store indexed it in {show(first)}",
        floor="click + sqlite3: stat every file, compare, query, print",
        goal="≤ 1.5 ×",
        ratio=taken["ls"].median / taken["floor"].median,
        limit=1.5,
        measured=compare(taken["floor"], taken["ls"]),
    )


def searching(folder: str, words: Words, *, messages: int) -> Iterator[Figure]:
    """`search` over so many messages: a common word, a rare one."""
    store, environment = _place(folder)
    write_store(store, words, sessions=messages // MESSAGES_A_SESSION, messages=MESSAGES_A_SESSION, size=300)
    first = _index(store, environment)
    database = _index_file(store, environment)
    for kind, word in (("common", words.nth(COMMON)), ("rare", words.nth(RARE))):
        taken = take_turns(
            {
                "floor": python(os.path.join(HERE, "bare_search.py"), database, word),
                "search": process([COMMAND, "search", word, "--json"], environment),
            },
            rounds=SEARCHES,
        )
        hits = _count(database, word)
        yield Figure(
            group=GROUP,
            what=f"`search --json` for a {kind} word, {messages:,} messages",
            workload=f"{hits:,} matches, the best 50 printed; indexed at first in {show(first)}",
            floor="a bare sqlite3 script: the same FTS5 query on the same file",
            goal="≤ 2 ×",
            ratio=taken["search"].median / taken["floor"].median,
            limit=2.0,
            measured=compare(taken["floor"], taken["search"]),
        )


def _place(folder: str) -> tuple[str, dict[str, str]]:
    store = os.path.join(folder, "store")
    return store, {"WAKELOG_STORE": store, "XDG_CACHE_HOME": os.path.join(folder, "cache")}


def _index(store: str, environment: dict[str, str]) -> float:
    """Index the store as a first command would; return how long it took."""
    start = time.perf_counter()
    index = Index(JsonlStore(store), IndexTables(_index_file(store, environment)))
    index.refresh()
    index.close()
    return time.perf_counter() - start


def _index_file(store: str, environment: dict[str, str]) -> str:
    os.environ["XDG_CACHE_HOME"] = environment["XDG_CACHE_HOME"]
    return index_path(store)


def _bare_table(store: str, environment: dict[str, str], path: str) -> None:
    """Write the table that the floor of `ls` queries: every row as it will be printed."""
    index = Index(JsonlStore(store), IndexTables(_index_file(store, environment)))
    rows = {row.name: row for row in index.rows()}
    index.close()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE files (name TEXT PRIMARY KEY, size INT, changed INT, updated TEXT, row BLOB)")
        for stat in JsonlStore(store).sessions():
            row = rows[stat.name]
            values = (stat.name, stat.size, stat.changed, row.updated, msgspec.json.encode(row))
            db.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?)", values)
    db.close()


def _count(database: str, word: str) -> int:
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    (count,) = db.execute("SELECT count(*) FROM words WHERE words MATCH ?", (f'"{word}"',)).fetchone()
    db.close()
    return int(count)
