"""The cost of reading a log into typed entries, beside decoding the same bytes with msgspec alone."""

import os
from collections.abc import Iterator

import msgspec

from bench.made import Words, talk, write_log
from bench.measure import Figure, compare, take_turns
from wakelog.log.entry import KnownBody
from wakelog.log.lines import EntryReader, split_lines
from wakelog.reading import read_log
from wakelog.stores.jsonl import JsonlStore

GROUP = "Reading"
MESSAGES = 10_000
ROUNDS = 15


def load(folder: str, words: Words) -> Iterator[Figure]:
    """10,000 messages to typed objects."""
    path = write_log(folder, "load_user_1", talk("load", words, messages=MESSAGES, size=600))
    store = JsonlStore(folder)
    decoder = msgspec.json.Decoder(KnownBody)
    with open(path, "rb") as file:
        raw = file.read()

    def bare() -> list[object]:
        return [decoder.decode(line) for line in raw.split(b"\n") if line]

    def bare_file() -> list[object]:
        with open(path, "rb") as file:
            return [decoder.decode(line) for line in file.read().split(b"\n") if line]

    taken = take_turns(
        {
            "bare": bare,
            "bare file": bare_file,
            "reader": lambda: EntryReader().feed_all(split_lines([raw])),
            "read_log": lambda: read_log(store, "load_user_1"),
            "verified": lambda: read_log(store, "load_user_1", verify=True),
        },
        rounds=ROUNDS,
    )
    for name, floor, what in (
        ("reader", "bare", "bytes to entries, `Reader.feed_all`"),
        ("read_log", "bare file", "file to log with its tree, `read_log`"),
    ):
        yield Figure(
            group=GROUP,
            what=what,
            workload=f"{MESSAGES:,} messages, {os.path.getsize(path) / 1e6:.1f} MB",
            floor="msgspec decoding the same lines into the same union, in one loop",
            goal="≤ 2 ×",
            ratio=taken[name].median / taken[floor].median,
            limit=2.0,
            measured=compare(taken[floor], taken[name]),
        )
    yield Figure(
        group=GROUP,
        what="verifying seals, as waking does for what it reads, `read_log(verify=True)`",
        workload=f"{MESSAGES:,} messages, {os.path.getsize(path) / 1e6:.1f} MB",
        floor="`read_log` of the same log without verifying",
        goal="≤ 2 ×",
        ratio=taken["verified"].median / taken["read_log"].median,
        limit=2.0,
        measured=compare(taken["read_log"], taken["verified"]),
    )
