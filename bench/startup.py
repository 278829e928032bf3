"""The time that a process takes before it does anything."""

import os
from collections.abc import Iterator

from bench.made import Words, talk, write_log
from bench.measure import COMMAND, Figure, compare, process, python, take_turns

GROUP = "Start-up"
ROUNDS = 25


def startup(folder: str, words: Words) -> Iterator[Figure]:
    """Measure imports and commands beside the least they could cost."""
    write_log(folder, "start_user_1", talk("start", words, messages=8, size=200))
    environment = {"WAKELOG_STORE": folder, "XDG_CACHE_HOME": os.path.join(folder, "cache")}
    names = "Agent, Session, open_store"
    taken = take_turns(
        {
            "pass": python("-c", "pass"),
            "msgspec": python("-c", "import msgspec"),
            "libraries": python("-c", "import click, msgspec, sqlite3"),
            "import": python("-c", "import wakelog"),
            "names": python("-c", f"from wakelog import {names}"),
            "version": process([COMMAND, "--version"], environment),
            "show": process([COMMAND, "show", "start_user_1", "--json"], environment),
            "ls": process([COMMAND, "ls", "--json"], environment),
        },
        rounds=ROUNDS,
    )
    for what, subject, floor, text, limit in (
        ("`import wakelog`", "import", "msgspec", "`import msgspec`", 1.3),
        (f"`from wakelog import {names}`", "names", "msgspec", "`import msgspec`", None),
        ("`wakelog --version`", "version", "pass", "`python -c pass`", 2.0),
        ("`wakelog show NAME --json`", "show", "libraries", "`import click, msgspec, sqlite3`", 1.3),
        ("`wakelog ls --json`, one session", "ls", "libraries", "`import click, msgspec, sqlite3`", 1.3),
    ):
        yield Figure(
            group=GROUP,
            what=what,
            workload="a new process, from its start to its end",
            floor=text,
            goal=f"≤ {limit:g} ×" if limit else "none of its own",
            ratio=taken[subject].median / taken[floor].median,
            limit=limit,
            measured=compare(taken[floor], taken[subject]),
        )
