"""Child processes of the fault tests. Run as `python -m tests.faults.children WHAT FOLDER …`.

Everything a child acknowledges it prints at once, one line each: what was printed must be in the log.
A `WakelogError` is printed as one line of JSON; anything else is a traceback, and the test fails.
"""

import contextlib
import json
import os
import resource
import select
import shutil
import sys
from collections.abc import Callable

from tests.faults.samples import NAME
from wakelog.errors import LeaseLost, StoreError, WakelogError
from wakelog.log.content import Image, Prompt
from wakelog.log.entry import Message
from wakelog.log.integrity import verify_seals
from wakelog.projections.context import build_context
from wakelog.projections.overview import overview
from wakelog.reading import read_active, read_log
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore, blob_files
from wakelog.transfer.garbage import DAY_S, collect


def wait_for(word: str) -> None:
    """Wait until the parent sends a word."""
    heard = sys.stdin.readline().strip()
    assert heard == word, heard


def tell(*words: object) -> None:
    """Send a line to the parent."""
    print(*words, flush=True)


def refused(error: WakelogError) -> str:
    """An error in the form that the tests read."""
    said = {"error": type(error).__name__, "kind": error.kind, "message": error.message, "hint": error.hint}
    return json.dumps(said)


# ── reading hostile logs ─────────────────────────────────────────────────────────────────────────


def peak_mb() -> int:
    """The peak memory of this program. The kernel's figure per process would include its parent's."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) // 1024


def read_all(times: str, *folders: str) -> None:
    """Read logs in every way, append to them, read them again, and report the memory that it took."""
    for folder in folders:
        tell(json.dumps(seen_in(folder, NAME, int(times))))


def seen_in(folder: str, name: str, times: int) -> dict[str, object]:
    """The results of reading one log, before and after appends to it."""
    store = JsonlStore(folder)
    for way in (read_log, read_active):
        log = way(store, name)
        if log.tree.head is not None:
            assert overview(log.tree).entries >= 0
            assert build_context(log.tree.branch(), "budget:1000").digest
    assert verify_seals(store.load(name)).head is not None
    before = read_log(store, name)
    said = [say_once(folder, name) for _ in range(times)]
    after = read_log(JsonlStore(folder), name)
    return {
        "entries": [entry.id for entry in before.entries],
        "damage": [[hurt.kind, hurt.line] for hurt in before.damage],
        "said": said,
        "after": [entry.id for entry in after.entries],
        "broken": list(verify_seals(store.load(name)).broken),
        "peak_mb": peak_mb(),
    }


def look(folder: str) -> None:
    """Read a log in a folder that cannot be written, and report the result of an attempt to write."""
    store = JsonlStore(folder)
    tell(len(read_log(store, NAME).entries))
    tell(len(read_active(store, NAME).entries))
    assert store.held(NAME) is None
    assert store.journals(NAME) == {}
    try:
        Session(store, NAME).say("into stone")
    except WakelogError as error:
        tell(type(error).__name__)


def say_once(folder: str, name: str) -> str:
    """Append a message with a new session object; return the id of the entry, or the error."""
    try:
        return Session(JsonlStore(folder), name).say("and on").id
    except WakelogError as error:
        return refused(error)


# ── appending while the disk fails ───────────────────────────────────────────────────────────────


# More than any test needs: a store that never succeeds ends a test with its errors.
_TRIES_MAX = 10


def append_stubbornly(folder: str, count: str) -> None:
    """Append `count` messages by id, repeat each after an error, and report every result."""
    session = Session(JsonlStore(folder), NAME)
    for number in range(int(count)):
        entry_id = f"m{number}"
        for _ in range(_TRIES_MAX):
            try:
                entry = session.append(Message(id=entry_id, message=Prompt(content=f"message {number}")))
            except StoreError as error:
                tell("failed", entry_id, refused(error))
            else:
                tell("kept", entry_id, entry.seq)
                break


def append_carelessly(folder: str, count: str) -> None:
    """Control: without the retry, a failed append is reported as acknowledged."""
    session = Session(JsonlStore(folder), NAME)
    for number in range(int(count)):
        entry_id = f"m{number}"
        with contextlib.suppress(StoreError):
            session.append(Message(id=entry_id, message=Prompt(content=f"message {number}")))
        tell("kept", entry_id, number)


def append_once(folder: str, entry_id: str) -> None:
    """Try once to append a message by its id after the first three entries; report the result."""
    store = JsonlStore(folder)
    try:
        sealed = store.append(NAME, b'{"type":"custom","id":"%s"}' % entry_id.encode(), after=2 + int(entry_id[1:]))
    except StoreError as error:
        tell("failed", entry_id, refused(error))
    else:
        tell("kept", entry_id, sealed.seq)


def fill(folder: str, copy: str, kind: str) -> None:
    """Append until the disk is full, free space, continue, and copy the log to a place where the test can read it."""
    store = JsonlStore(os.path.join(folder, "store"))
    session = Session.create(store)
    ballast = Ballast(folder, kind)
    number = 0
    while ballast:
        try:
            entry = session.append(Message(id=f"m{number}", message=Prompt(content="x" * 700)))
        except StoreError as error:
            tell("failed", f"m{number}", refused(error))
            ballast.drop()
        else:
            tell("kept", entry.id, entry.seq)
            number += 1
    for last in range(number, number + 5):
        entry = session.append(Message(id=f"m{last}", message=Prompt(content="there is space again")))
        tell("kept", entry.id, entry.seq)
    shutil.copyfile(store.folder.log_path(session.name), copy)


class Ballast:
    """Keeps the disk nearly full: a file that takes up the space, or a limit on the size of every file."""

    def __init__(self, folder: str, kind: str) -> None:
        self._file = os.path.join(folder, "ballast") if kind == "disk" else None
        if self._file is not None:
            with open(self._file, "wb") as file:
                file.write(b"x" * 24 * 1024)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (33_333, resource.RLIM_INFINITY))
        self._stands = True

    def __bool__(self) -> bool:
        return self._stands

    def drop(self) -> None:
        """Free the space."""
        self._stands = False
        if self._file is not None:
            os.unlink(self._file)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def create(folder: str, session_id: str, tries: str) -> None:
    """Create a session by its id several times; report every result."""
    for _ in range(int(tries)):
        try:
            session = Session.create(JsonlStore(folder), session_id=session_id)
        except StoreError as error:
            tell("failed", session_id, refused(error))
        else:
            tell("kept", session_id, session.name)


# ── many writers ─────────────────────────────────────────────────────────────────────────────────


def say(folder: str, label: str, count: str) -> None:
    """Append messages at the head as fast as possible, after a common start."""
    session = Session(JsonlStore(folder), NAME)
    tell("ready")
    wait_for("go")
    for number in range(int(count)):
        entry = session.say(f"{label} {number}")
        tell(entry.id, entry.seq, entry.type)


def wander(folder: str, label: str, count: str) -> None:
    """Move the head to one old node after another."""
    session = Session(JsonlStore(folder), NAME)
    tell("ready")
    wait_for("go")
    for number in range(int(count)):
        nodes = sorted(session.read().tree.nodes)
        entry = session.move_head(nodes[(number * 7 + len(label)) % len(nodes)])
        tell(entry.id, entry.seq, entry.type)


def ensure(folder: str, count: str) -> None:
    """Create sessions that other processes create at the same time."""
    tell("ready")
    wait_for("go")
    for number in range(int(count)):
        tell(Session.create(JsonlStore(folder), session_id=f"same-{number}").name)


# ── leases ───────────────────────────────────────────────────────────────────────────────────────


def hold(folder: str, holder: str, ttl_s: str) -> None:
    """Take the lease, then append under it at each command, and report the results."""
    session = Session(JsonlStore(folder), NAME)
    lease = session.acquire(holder, ttl_s=float(ttl_s))
    tell("holds", lease.fence)
    for _ in iter(sys.stdin.readline, ""):
        try:
            entry = session.append(Message(message=Prompt(content=f"by {holder}")), lease=lease)
        except LeaseLost:
            tell("LeaseLost")
        else:
            tell("kept", entry.id, entry.seq)


def hold_unfenced(folder: str, holder: str, ttl_s: str) -> None:
    """Control: the same without the fence check."""
    JsonlStore._check_fence = lambda *_: None  # type: ignore[method-assign]
    hold(folder, holder, ttl_s)


# ── blobs ────────────────────────────────────────────────────────────────────────────────────────


def put(folder: str, content: str, tries: str) -> None:
    """Put a blob several times; report every result and the stored content."""
    blobs = JsonlStore(folder).blobs
    for _ in range(int(tries)):
        try:
            ref = blobs.put(content.encode())
        except StoreError as error:
            tell("failed", "blob", refused(error))
        else:
            tell("kept", ref.digest, ref.bytes)
        tell("stored", *(blob.digest for blob in blobs.stored()))


def put_in_place(folder: str, content: str, tries: str) -> None:
    """Control: the same with content that is written under its final name, in two halves."""

    def write(shelf: str, path: str, raw: bytes) -> None:
        with open(path, "wb", buffering=0) as file:
            for half in (raw[: len(raw) // 2], raw[len(raw) // 2 :]):
                file.write(half)
                os.fsync(file.fileno())

    blob_files._write = write  # type: ignore[assignment]
    put(folder, content, tries)


def put_too_much(folder: str, limit: str) -> None:
    """Put a blob that is larger than the file size limit, and again after the limit is raised."""
    _, highest = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), highest))
    put(folder, "x" * 2 * int(limit), "1")
    resource.setrlimit(resource.RLIMIT_FSIZE, (highest, highest))
    put(folder, "x" * 2 * int(limit), "1")


def put_the_same(folder: str, count: str) -> None:
    """Put blobs that other processes put at the same time."""
    blobs = JsonlStore(folder).blobs
    tell("ready")
    wait_for("go")
    for number in range(int(count)):
        tell(blobs.put(b"%d" % number * 10_000).digest)


def put_and_name(folder: str, label: str, count: str) -> None:
    """Put blobs that exist already, are old and named by no log, and then name each in the log."""
    store = JsonlStore(folder)
    session = Session.create(store, session_id=label)
    tell("ready")
    wait_for("go")
    for number in range(int(count)):
        content = f"{label} {number}".encode()
        digest = store.blobs.put(content).digest
        name = digest.removeprefix("sha256:")
        # Collection finishes this early only if it removes blobs that it must not remove.
        os.utime(os.path.join(folder, ".blobs", name[:2], name), (1, 1))
        ref = store.blobs.put(content)
        session.append(Message(message=Prompt(content=(Image(mime_type="image/png", blob=ref),))))
        tell(ref.digest, ref.bytes)


def collect_on(folder: str) -> None:
    """Collect garbage until told to stop; report how often, and how much was removed."""
    store = JsonlStore(folder)
    tell("ready")
    wait_for("go")
    runs = removed = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        removed += len(collect(store, older_than_s=DAY_S).blobs)
        runs += 1
    tell("done", runs, removed)


CHILDREN: dict[str, Callable[..., None]] = {
    each.__name__: each
    for each in (
        *(read_all, look, append_stubbornly, append_carelessly, append_once, fill, create, say, wander, ensure),
        *(hold, hold_unfenced, put, put_in_place, put_too_much, put_the_same, put_and_name, collect_on),
    )
}


def main() -> None:
    """Run the function that the first argument names."""
    what, *words = sys.argv[1:]
    CHILDREN[what](*words)


if __name__ == "__main__":
    main()
