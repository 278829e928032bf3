"""A worker over PostgreSQL as a program, for tests that interrupt its server.

    python -m tests.faults.outage_worker FOLDER URL LEASE_S [PLACE] [old | impatient]

It halts at a place of `tests/kernel/holder.py` until the file `gate` is there. With `old` it renews its lease as it was
done once: any error ends renewing without a word. With `impatient` no call to the store is repeated. Notices go to
stderr. The last line says how the session was left.
"""

import asyncio
import json
import sys

from tests.kernel.holder import LOST, Place
from wakelog.errors import LeaseLost
from wakelog.runtime.lease import LeaseRenewer
from wakelog.stores import open_store
from wakelog.stores.retrying import RetryingStore


class ServerPlace(Place):
    """The folder of one test, with the sessions in a store on a server."""

    def __init__(self, folder, url, *, halts="", lease_s=30.0):
        super().__init__(folder, halts, "gate", lease_s)
        self.store = open_store(url)


async def _die_at_the_first_error(keeper):
    while True:
        await asyncio.sleep(keeper._term.ttl_s / 3)
        keeper._store.inner.renew(keeper._lease, ttl_s=keeper._term.ttl_s)


def _give_up(store, error, act):
    raise error


def main(folder, url, lease_s, halts="", manner=""):
    """Wake the session."""
    if manner == "old":
        LeaseRenewer.run = _die_at_the_first_error  # type: ignore[method-assign]
    if manner == "impatient":
        RetryingStore.retry = _give_up  # type: ignore[method-assign]
    place = ServerPlace(folder, url, halts=halts, lease_s=float(lease_s))
    try:
        report = place.wake()
    except LeaseLost as error:
        print(json.dumps({"lost": error.message}), flush=True)
        return LOST
    finally:
        place.store.close()
    print(json.dumps({"left": getattr(report.decision, "outcome", type(report.decision).__name__)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
