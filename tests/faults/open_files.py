"""A program that works on many sessions with a low limit of open files.

    python -m tests.faults.open_files FOLDER LEFT [greedy]

It makes sessions under a limit of open files, then opens other files until LEFT descriptors are free, appends one
entry to each session in one call, frees the descriptors, and appends once more. Says what came of both, as JSON.
With `greedy` the store does not adapt: it opens one log after the other until it cannot.
"""

import contextlib
import json
import os
import resource
import sys

from wakelog.errors import WakelogError
from wakelog.ports.stores import AppendRequest
from wakelog.session import Session
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


def take_greedily(store, held, names, lock_wait, *, most):
    """Control: take all requested logs, without regard to how many can be open."""
    taken = {}
    for name in names[:most]:
        try:
            taken[name] = held.enter_context(store._logs.append_lock(name, lock_wait))
        except WakelogError as error:
            taken[name] = error
    return taken


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
        JsonlStore._take_some = take_greedily  # type: ignore[method-assign]
    scarce = told(
        store.append_all(
            [
                AppendRequest(name, body("m1", parent=name), lease.fence, fence=lease.fence)
                for name, lease in leases.items()
            ]
        )
    )
    for descriptor in others:
        os.close(descriptor)
    sizes = {name: sum(1 for _ in store.load(name)) for name in names}
    again = told(store.append_all([AppendRequest(name, body("m2", parent=name), sizes[name] - 1) for name in names]))
    print(json.dumps({"free": free, "scarce": scarce, "lines": sorted(set(sizes.values())), "again": again}))


if __name__ == "__main__":
    main()
