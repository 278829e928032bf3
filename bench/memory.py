"""The peak memory of commands that read a long log, and a fork of it: it must not grow with the log."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping

from bench.made import Words, talk, write_log
from bench.measure import Figure
from wakelog.forking import fork
from wakelog.log.codec import encode
from wakelog.log.entry import Head
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore

GROUP = "Memory"
LIMIT_BYTES = 150_000_000
NAME = "bench_user_1"


def memory(folder: str, words: Words, *, messages: int) -> Iterator[Figure]:
    """Run each command in its own process, on a log of so many messages of 1,000 characters and on a fork of it."""
    store = os.path.join(folder, "store")
    os.mkdir(store)
    write_log(store, NAME, talk("bench-1", words, messages=messages, size=1_000))
    forked = fork(Session(JsonlStore(store), NAME)).name
    megabytes = os.path.getsize(os.path.join(store, f"{NAME}.jsonl")) / 1e6
    workload = f"{messages:,} messages of 1,000 characters, {megabytes:,.0f} MB"
    for what, arguments in _commands(folder, forked).items():
        yield _figure(what, workload, peak_of_command(store, arguments, os.path.join(folder, "cache")))
    _move_head_back(store, last_seq=(messages + 3) // 4 * 4)
    what = "`ls`, the head of the log moved back to an old entry, and a fork of it, not indexed yet"
    yield _figure(what, workload, peak_of_command(store, ("ls",), os.path.join(folder, "cache-moved")))
    _damage(store)
    what = "`ls`, the same log damaged, not indexed yet"
    yield _figure(what, workload, peak_of_command(store, ("ls",), os.path.join(folder, "cache-damaged")))


def _figure(what: str, workload: str, peak: int) -> Figure:
    return Figure(
        group=GROUP,
        what=what,
        workload=workload,
        floor="150 MB",
        goal="≤ 150 MB",
        ratio=peak / LIMIT_BYTES,
        limit=1.0,
        measured=f"{peak / 1e6:,.0f} MB",
    )


def _move_head_back(store: str, *, last_seq: int) -> None:
    """Append an entry whose target is found only at the beginning of the log."""
    old = "bench-1-00000001"
    JsonlStore(store).append(NAME, encode(Head(id="moved-back", parent_id=old, target_id=old)), after=last_seq)


def _damage(store: str) -> None:
    with open(os.path.join(store, f"{NAME}.jsonl"), "ab") as file:
        file.write(b"\x00garbage\n")


def _commands(folder: str, forked: str) -> Mapping[str, tuple[str, ...]]:
    out = os.path.join(folder, "out")
    return {
        "`ls`, the log and a fork of it not indexed yet": ("ls",),
        "`verify`": ("verify", NAME),
        "`verify` of a fork": ("verify", forked),
        "`export -f jsonl`": ("export", NAME, "-o", f"{out}.jsonl"),
        "`export -f jsonl` of a fork": ("export", forked, "-o", f"{out}-fork.jsonl"),
        "`export -f md`": ("export", NAME, "-f", "md", "-o", f"{out}.md"),
        "`export -f md` of a fork": ("export", forked, "-f", "md", "-o", f"{out}-fork.md"),
        "`export -f json`": ("export", NAME, "-f", "json", "-o", f"{out}.json"),
        "`doctor --salvage`": ("doctor", NAME, "--salvage", f"{out}-salvaged.jsonl"),
        "`audit`": ("audit", NAME, "--context"),
        "`copy`": ("copy", NAME, "--to", os.path.join(folder, "copy")),
    }


# A child of a large process begins with that one's size: a small process in between starts the command.
_START = """
import os, sys
child = os.posix_spawn(sys.executable, [sys.executable, *sys.argv[1:]], os.environ)
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak_of_command(store: str, arguments: tuple[str, ...], cache: str) -> int:
    """Return the largest resident size of a command, in bytes."""
    command = ["-m", "wakelog", "--store", store, *arguments]
    starter = [sys.executable, "-c", _START, *command]
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    done = subprocess.run(starter, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return int(done.stdout.split()[-1]) * 1024
