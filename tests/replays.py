"""Law 11 for every session that a test runs in this process: replay reproduces its log byte for byte.

Sessions whose log a test damaged, or into which a test wrote entries that only a runtime writes (mark `meddled`), are
left out: the runtime did not write them. A crashing store stays unusable; a test with one replays the store under it.
"""

import asyncio

from wakelog.errors import WakelogError
from wakelog.log.integrity import verify_seals
from wakelog.reading import read_log
from wakelog.runtime.replay.recording import ReplayStore
from wakelog.runtime.replay.verification import replay
from wakelog.stores.retrying import without_retries
from wakelog.testing.crashing_store import CrashingStore


def everything_replays(store, names):
    """Replay sessions of a store and assert that the same log comes out."""
    for name in names:
        again = asyncio.run(replay(store, name)) if _is_whole(store, name) else None
        assert again is None or again.ok, (name, again.reason, again.divergence and again.divergence.recorded)


def _is_whole(store, name):
    try:
        return not read_log(store, name).damage and not verify_seals(store.load(name)).broken
    except WakelogError:
        return False


class Woken:
    """Records which sessions are held in this process."""

    def __init__(self, holding):
        self._holding = holding
        self._seen = {}

    def __call__(self, runtime, session):
        store = without_retries(runtime.store)
        if not isinstance(store, ReplayStore | CrashingStore):
            self._seen.setdefault(id(store), (store, set()))[1].add(session.name)
        return self._holding(runtime, session)

    def replay(self):
        """Replay all recorded sessions."""
        for store, names in self._seen.values():
            everything_replays(store, sorted(names))
