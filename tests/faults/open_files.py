"""A program that works on many sessions with a low limit of open files.

    python -m tests.faults.open_files FOLDER LEFT [threads] [greedy]

It makes sessions under a limit of open files, then opens other files until LEFT descriptors are free, appends one
entry to each session, with `threads` to all of them at once, frees the descriptors, and appends once more. Says what
came of both, as JSON. With `greedy` the store does not adapt: it opens one log after the other until it cannot.
"""

import contextlib
import json
import os
import resource
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from wakelog.errors import WakelogError
from wakelog.session import Session
from wakelog.stores.jsonl.log_locks import OpenLogs
from wakelog.stores.jsonl.store import JsonlStore
from wakelog.testing.store_rig import body

LIMIT = 64
SESSIONS = 100


def fill(left):
    """Open files until only this number of descriptors is free."""
    opened = []
    with contextlib.suppress(OSError):
        while True:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    for _ in range(left):
        os.close(opened.pop())
    return opened


def count_free():
    """The number of free descriptors."""
    opened = []
    with contextlib.suppress(OSError):
        while True:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    for descriptor in opened:
        os.close(descriptor)
    return len(opened)


def append_each(store, after, entry, fences):
    """Append an entry to each session, one after the other; return the results and errors."""
    return [append_to(store, name, after[name], entry, fences.get(name)) for name in after]


def append_from_threads(store, after, entry, fences):
    """Append an entry to each session, each in a thread of its own; return the results and errors."""
    gate = threading.Barrier(len(after))

    def work(name):
        gate.wait()
        return append_to(store, name, after[name], entry, fences.get(name))

    with ThreadPoolExecutor(len(after)) as threads:
        return list(threads.map(work, after))


def append_to(store, name, after, entry, fence):
    try:
        return store.append(name, body(entry, parent=name), after=after, fence=fence)
    except WakelogError as error:
        return error


def told(answers):
    """The number of appended entries, and the errors of the others."""
    errors = [answer for answer in answers if isinstance(answer, WakelogError)]
    return {
        "sealed": len(answers) - len(errors),
        "kinds": sorted({error.kind for error in errors}),
        "hints": sorted({error.hint for error in errors}),
    }


def main():
    folder, left = sys.argv[1], int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    store = JsonlStore(folder)
    names = [Session.create(store, session_id=f"s{number}").name for number in range(SESSIONS)]
    leases = {name: Session(store, name).acquire("w", ttl_s=600) for name in names}
    # The store would close logs that it keeps open to make room: with none open, the free number is exact.
    store.close()
    others = fill(left)
    free = count_free()
    if "greedy" in sys.argv:
        OpenLogs._is_full = lambda _: False  # type: ignore[method-assign, assignment]
    append = append_from_threads if "threads" in sys.argv else append_each
    fences = {name: lease.fence for name, lease in leases.items()}
    scarce = told(append(store, fences, "m1", fences))
    for descriptor in others:
        os.close(descriptor)
    sizes = {name: sum(1 for _ in store.load(name)) for name in names}
    again = told(append(store, {name: sizes[name] - 1 for name in names}, "m2", {}))
    print(json.dumps({"free": free, "scarce": scarce, "lines": sorted(set(sizes.values())), "again": again}))


if __name__ == "__main__":
    main()
