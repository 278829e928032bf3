"""`chat --pick` on a terminal: the time until the list is drawn, and until a session is in it.

The process runs on a terminal of its own and is killed when the awaited text was drawn.
"""

import os
import pty
import select
import shutil
import signal
import struct
import termios
from collections.abc import Callable, Iterator, Mapping
from fcntl import ioctl

from bench.made import Words, write_store
from bench.measure import COMMAND, Figure, compare, take_turns

GROUP = "Commands, cold processes"
FEW, ROUNDS, PATIENCE_S = 10, 7, 60
# Drawn texts: the question, and below the rows the last message of the chosen session.
LIST, ROW = b"Open which session?", b"agent: "
_OUTPUT = 1
_SIZE = struct.pack("HHHH", 30, 120, 0, 0)


def picks(folder: str, words: Words, *, sessions: int) -> Iterator[Figure]:
    """Open the list of so many sessions beside that of a few, none of them indexed; and once they are."""
    many, few = os.path.join(folder, "many"), os.path.join(folder, "few")
    write_store(many, words, sessions=sessions, messages=4, size=200)
    write_store(few, words, sessions=FEW, messages=4, size=200)
    cache = os.path.join(folder, "cache")
    taken = take_turns(
        {
            "few": drawn(few, cache, LIST),
            "list": drawn(many, cache, LIST),
            "few row": drawn(few, cache, ROW),
            "row": drawn(many, cache, ROW),
        },
        rounds=ROUNDS,
    )
    for what, subject, floor, limit in (
        ("the list is drawn", "list", "few", 1.5),
        ("the newest sessions stand in it", "row", "few row", None),
    ):
        yield Figure(
            group=GROUP,
            what=f"`chat --pick`, {sessions:,} sessions that no index knows",
            workload=f"a new process on a terminal, until {what}",
            floor=f"the same for {FEW} sessions",
            goal=f"≤ {limit:g} ×" if limit else "none of its own",
            ratio=taken[subject].median / taken[floor].median,
            limit=limit,
            measured=compare(taken[floor], taken[subject]),
        )


def drawn(store: str, cache: str, awaited: bytes) -> Callable[[], None]:
    """Return an act that opens the list of a store without an index until a text was drawn."""
    environment = {**os.environ, "TERM": "xterm-256color", "XDG_CACHE_HOME": cache, "LC_ALL": "C.UTF-8"}
    command = [COMMAND, "chat", "--pick", "--store", store]

    def run() -> None:
        shutil.rmtree(cache, ignore_errors=True)
        child, terminal = _begin(command, environment)
        try:
            _read_until(terminal, awaited)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(terminal)

    return run


def _begin(command: list[str], environment: Mapping[str, str]) -> tuple[int, int]:
    child, terminal = pty.fork()
    if child == 0:
        try:
            ioctl(_OUTPUT, termios.TIOCSWINSZ, _SIZE)
            os.execve(command[0], command, environment)
        finally:
            # The forked copy must not continue with the work of this process.
            os._exit(127)
    return child, terminal


def _read_until(terminal: int, awaited: bytes) -> None:
    seen = b""
    while awaited not in seen:
        if not select.select([terminal], [], [], PATIENCE_S)[0]:
            raise TimeoutError(f"nothing like {awaited!r} in {seen[-500:]!r}")
        seen += os.read(terminal, 1 << 16)
