"""Child processes of these tests. Run as `python -m tests.stores.faults.children WHAT URL …`.

A child prints each acknowledged entry at once, one line each: what was printed must be in the log. An
unexpected `WakelogError` is a traceback, and the test fails.
"""

import contextlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.faults.children import refused, wait_for
from tests.stores.faults.logs import append_under, body, last_seq, make, numbered, stands, take
from tests.stores.groups import append_in_one_group
from wakelog.errors import Conflict, LeaseLost, StoreError
from wakelog.log.integrity import verify_seals
from wakelog.ports.stores import SealedLine
from wakelog.reading import read_log
from wakelog.session import Session
from wakelog.stores import open_store
from wakelog.stores.database.tables import AppendRequest
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.jsonl.file_sync import ThreadSync

MODULE = "tests.stores.faults.children"
# One append in so many is synced: ten thousand syncs of a busy disk would be most of the run.
SYNCED_EVERY = 8
LITTLE_BYTES = 512 * 1024
EARLY = 500


def tell(*words: object) -> None:
    """Send a line to the parent in one system call: a killed child has sent all of it, or nothing."""
    os.write(1, " ".join(map(str, words)).encode() + b"\n")


# ── many writers ─────────────────────────────────────────────────────────────────────────────────


def write(url: str, session: str, label: str, count: str) -> None:
    """Create the session if it does not exist, and append at the end; report the result."""
    tell("ready")
    wait_for("go")
    store, after, conflicts = open_store(url), 0, 0
    make(store, session)
    for number in range(int(count)):
        entry = f"{label}-{number}"
        while True:
            try:
                after = store.append(session, body(entry), after=after, durable=number % SYNCED_EVERY == 0).seq
            except Conflict:
                conflicts += 1
                after = last_seq(store, session)
            else:
                break
        tell("kept", session, entry, after)
    tell("conflicts", conflicts)


def append_together(folder: str, sync: str, *sessions: str) -> None:
    """One append each to sessions of a folder, made durable together in one way or the other."""
    store = JsonlStore(folder, sync="filesystem" if sync == "filesystem" else "file")
    if sync == "threads":
        store._syncs = ThreadSync()
    appends = [AppendRequest(session, body(f"m-{session}"), 0) for session in sessions]
    for session, answer in zip(sessions, append_in_one_group(store, appends), strict=True):
        tell("kept" if isinstance(answer, SealedLine) else "failed", session)


def write_batches(url: str, label: str, count: str, *sessions: str) -> None:
    """Append to all sessions at once, each in a thread, in the given order, and again where others were faster."""
    tell("ready")
    wait_for("go")
    store, after, conflicts = open_store(url), dict.fromkeys(sessions, 0), 0
    threads = ThreadPoolExecutor(len(sessions))
    for number in range(int(count)):
        entry, left = f"{label}-{number}", list(sessions)
        while left:
            answers = [threads.submit(store.append, session, body(entry), after=after[session]) for session in left]
            for session, answer in zip(tuple(left), answers, strict=True):
                try:
                    after[session] = answer.result().seq
                except Conflict:
                    conflicts += 1
                    after[session] = last_seq(store, session)
                else:
                    left.remove(session)
                    tell("kept", session, entry, after[session])
    tell("conflicts", conflicts)


# ── leases ───────────────────────────────────────────────────────────────────────────────────────


def hold(url: str, session: str, ttl_s: str, *, fenced: bool = True) -> None:
    """Take the lease at each command, and append under it without a pause until it is lost."""
    store = open_store(url)
    for _ in iter(sys.stdin.readline, ""):
        lease = take(store, session, "first", float(ttl_s))
        tell("holds", lease.fence)
        while True:
            try:
                tell("kept", append_under(store, lease, lease.fence if fenced else None).seq)
            except LeaseLost:
                tell("lost")
                break
            except Conflict:
                continue


def hold_unfenced(url: str, session: str, ttl_s: str) -> None:
    """Control: the same without the fence check."""
    hold(url, session, ttl_s, fenced=False)


# ── one writer that goes on ──────────────────────────────────────────────────────────────────────


def write_on(url: str, session: str, first: str, after: str, *, early: bool = False) -> None:
    """Append numbered entries until killed. The first of them may exist already, without an acknowledgement."""
    store, number, seq = open_store(url), int(first), int(after)
    for ahead in range(EARLY if early else 0):
        tell("kept", numbered(number + ahead), seq + ahead + 1)
    while True:
        seq = store.append(session, body(numbered(number)), after=seq).seq
        if not early:
            tell("kept", numbered(number), seq)
        number += 1


def beget_early(url: str, session: str) -> None:
    """Control: the same for writers that report many entries as acknowledged before they are appended.

    They are so many that the kill comes before the last of them is appended.
    """
    beget(url, session, early=True)


def beget(url: str, session: str, *, early: bool = False) -> None:
    """Start a writer for each line of input, one after the other, and report its end.

    A fork of a process that has loaded everything and opened nothing: a hundred writers start in no time.
    """
    open_store(url)
    for told in iter(sys.stdin.readline, ""):
        pid = os.fork()
        if pid == 0:
            tell("born", os.getpid())
            write_on(url, session, *told.split(), early=early)
        os.waitpid(pid, 0)
        tell("ended")


def write_stubbornly(url: str, session: str, count: str) -> None:
    """Append numbered entries, each retried with the same id, bytes and position until it is acknowledged.

    After an error it says whether the entry stands, which its writer cannot know, and what the error was.
    """
    store, seq = open_store(url), 0
    for number in range(int(count)):
        entry = numbered(number)
        while True:
            try:
                seq = store.append(session, body(entry), after=seq).seq
            except StoreError as error:
                there = insisted(partial(stands, store, session, entry))
                tell("failed", entry, "stands" if there else "absent", refused(error))
            else:
                tell("kept", entry, seq)
                break


def write_carelessly(url: str, session: str, count: str) -> None:
    """Control: the same without retries: a failed append is reported as acknowledged."""
    store, seq = open_store(url), 0
    for number in range(int(count)):
        with contextlib.suppress(StoreError):
            try:
                seq = store.append(session, body(numbered(number)), after=seq).seq
            except Conflict:
                # An append that failed has its place in the log after all.
                seq = last_seq(store, session)
        tell("kept", numbered(number), number + 1)


def write_once(url: str, session: str, entry: str, sync: str = "synced") -> None:
    """Try once to append an entry after the first one, and exit with success."""
    store = open_store(url)
    try:
        tell("kept", entry, store.append(session, body(entry), after=0, durable=sync == "synced").seq)
    except StoreError as error:
        tell("failed", entry, refused(error))
    store.close()


def write_much(url: str, session: str, count: str) -> None:
    """Append numbered entries without a sync."""
    store = open_store(url)
    for number in range(int(count)):
        store.append(session, body(numbered(number)), after=number, durable=False)
    store.close()


def write_again(url: str, session: str) -> None:
    """Append an entry without a sync, and then the same entry with one."""
    store = open_store(url)
    for durable in (False, True):
        tell("kept", numbered(0), store.append(session, body(numbered(0)), after=0, durable=durable).seq)
    # Without the goodbye of a process that ends well, which syncs once more.
    os._exit(0)


def insisted(question: Callable[[], bool]) -> bool:
    """The answer to a question, asked until there is no error."""
    while True:
        try:
            return question()
        except StoreError:
            continue


# ── a disk that is full ──────────────────────────────────────────────────────────────────────────


def fill(url: str, kind: str) -> None:
    """Append until the disk is full, run the command line in that state, free space, and continue.

    What stands in the end is said as well: the disk may go away with this process.
    """
    session = Session.create(open_store(url), session_id="s")
    make_space = nearly_full(os.path.dirname(url.partition(":")[2]), kind)
    kept: list[str] = []
    while True:
        try:
            kept.append(session.say("x" * 700).id)
        except StoreError as error:
            tell("failed", refused(error))
            break
    done = subprocess.run(cli(url, "append", "s", "y" * 700), capture_output=True, text=True, check=False)
    tell("cli", json.dumps([done.returncode, done.stdout, done.stderr]))
    make_space()
    kept += [session.say("there is space again").id for _ in range(5)]
    log = read_log(open_store(url), "s")
    found = [entry.id for entry in log.entries]
    tell("found", json.dumps([kept, found, len(log.damage), verify_seals(open_store(url).load("s")).broken]))


def attempt(url: str) -> None:
    """Read, and try to write: report the number of sessions, and the error."""
    store = open_store(url)
    tell(len(list(store.sessions())))
    for act in (lambda: store.append("s", body("new"), after=0), lambda: make(store, "new")):
        try:
            act()
        except StoreError as error:
            tell(refused(error))


def nearly_full(folder: str, kind: str) -> Callable[[], None]:
    """Leave little space: by a file, or by a limit on the size of every file. Return a function that frees it."""
    if kind == "limit":
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LITTLE_BYTES, most))
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    ballast = os.path.join(folder, "ballast")
    with open(ballast, "wb") as file:
        file.write(b"x" * LITTLE_BYTES)
    return lambda: os.unlink(ballast)


def cli(url: str, *words: str) -> list[str]:
    """The command line of wakelog."""
    return [sys.executable, "-m", "wakelog", "--store", url, *words]


CHILDREN: dict[str, Callable[..., None]] = {
    each.__name__: each
    for each in (
        write,
        write_batches,
        hold,
        hold_unfenced,
        beget,
        beget_early,
        write_stubbornly,
        write_carelessly,
        write_once,
        write_much,
        write_again,
        fill,
        attempt,
        append_together,
    )
}


def main() -> None:
    """Run the function that the first argument names."""
    what, *words = sys.argv[1:]
    CHILDREN[what](*words)


if __name__ == "__main__":
    main()
