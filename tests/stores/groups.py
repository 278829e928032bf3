"""Appends of several threads that are committed as one group, for tests of what happens to a group."""

import os
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from unittest import mock

from tests.patience import PATIENCE_S
from wakelog.errors import WakelogError
from wakelog.ports.stores import SealedLine
from wakelog.stores import group_commit
from wakelog.stores.database.tables import AppendRequest


class Arrivals(deque[Any]):
    """The waiting requests of a `GroupCommit`, which counts them as they arrive."""

    def __init__(self, arrived):
        super().__init__()
        self._arrived = arrived

    def append(self, request):
        super().append(request)
        self._arrived.release()


def count_arrivals(commits):
    """Return a semaphore that is released once for each request that waits from now on."""
    arrived = threading.Semaphore(0)
    if commits._pid != os.getpid():
        commits._begin()
    commits._waiting = Arrivals(arrived)
    return arrived


class GivenGroup:
    """A group of given requests."""

    def __init__(self, requests):
        self._requests = requests

    def take(self):
        return self._requests

    def take_alone(self):
        return None


class HeldLead:
    """Leads the group commit of a store while the block lasts, so that requests of other threads gather."""

    def __init__(self, commits):
        self.arrived = count_arrivals(commits)
        self._commits = commits
        self._has_lead, self._is_over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=commits.submit, args=(None, self._hold))
        # A thread that waits long would lead by itself.
        self._patience = mock.patch.object(group_commit, "LEAD_AFTER_S", PATIENCE_S)

    def __enter__(self):
        self._patience.start()
        self._thread.start()
        assert self._has_lead.wait(PATIENCE_S)
        return self

    def _hold(self, group):
        self._has_lead.set()
        self._is_over.wait(PATIENCE_S)
        return [None]

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join(PATIENCE_S)
        self._patience.stop()


def append_in_one_group(store, appends: Sequence[AppendRequest]) -> list[SealedLine | WakelogError]:
    """Append from as many threads, which share one commit in the given order; return the result or error of each."""

    def work(append):
        try:
            return store.append(
                append.session, append.body, after=append.after, fence=append.fence, durable=append.durable
            )
        except WakelogError as error:
            return error
        finally:
            # It may have failed before it had to wait.
            held.arrived.release()

    with ThreadPoolExecutor(len(appends)) as pool:
        answers: list[Future[SealedLine | WakelogError]] = []
        with HeldLead(store._commits) as held:
            for append in appends:
                answers.append(pool.submit(work, append))
                assert held.arrived.acquire(timeout=PATIENCE_S)
        return [answer.result(PATIENCE_S) for answer in answers]
