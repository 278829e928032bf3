"""Group commit: concurrent durable appends of the threads of one process share the cost of syncing.

A thread that finds no commit in progress leads: it commits its own request together with all that wait. Threads that
arrive meanwhile wait, and the first of them leads the next group. There is no timer and no additional thread, and a
single thread does not wait for others.
Rule 1: requests are taken in the order of their arrival, and each thread gets the answer to its own request.
Rule 2: a leader takes the group at the last moment, when it waits for no lock any more (`Group.take`). Until then it
alone waits, under its own time limits.
Rule 3: leading is not a lock. A thread that has waited for `LEAD_AFTER_S` leads a group of its own, so a commit that
does not end delays no other session for longer.
Rule 4: if the commit of several requests fails as a whole, each of their threads gets `GroupFailed` and decides by
itself what to do, so that no request fails because of another one.
Rule 5: a thread that is interrupted while it waits withdraws its request, if it was not taken yet. An interrupt in the
middle of a change leaves no thread waiting for ever: a request is removed from the queue as the last step.
"""

import operator
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeAlias, TypeVar

from wakelog.errors import Unavailable
from wakelog.stores.locking import is_time_up, lease_time_left_s

GROUP_MAX = 256
LEAD_AFTER_S = 1.5
_LOOK_S = 0.5
_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")
_release = operator.methodcaller("release")


class GroupFailed(Exception):
    """The commit of several requests failed as a whole; the request may or may not be committed."""


class Group(Generic[_Request, _Answer]):
    """The request of one thread and, if that thread leads, those that are committed with it."""

    __slots__ = ("_most", "_mutex", "_waiting", "answers", "is_taken", "leads", "members", "ready", "request", "waking")

    def __init__(
        self, request: _Request, waiting: "deque[Group[_Request, _Answer]]", mutex: threading.Lock, most: int
    ) -> None:
        self.request = request
        self._waiting, self._mutex, self._most = waiting, mutex, most
        self.is_taken = self.leads = False
        # Released when the request is answered, and when its thread must lead. None without a wait.
        self.ready: threading.Lock | None = None
        # The answer, or nothing.
        self.answers: Sequence[_Answer] = ()
        self.members: list[Group[_Request, _Answer]] = []
        # Wakes the threads of the members when it is consumed, in one call, which no interrupt cuts in two.
        self.waking: Iterator[None] | None = None

    def take(self) -> list[_Request]:
        """Take the waiting requests and return all, the leader's first. Called once, when no lock is waited for."""
        if not self._waiting:
            return [self.request]
        locks: list[threading.Lock] = []
        self.waking = map(_release, locks)
        with self._mutex:
            while self._waiting and len(self.members) < self._most - 1:
                place = self._waiting[0]
                if place.ready is not None and not place.leads:
                    place.is_taken = True
                    locks.append(place.ready)
                    self.members.append(place)
                self._waiting.popleft()
        return [self.request, *(place.request for place in self.members)]

    def take_alone(self) -> _Request | None:
        """Return the leader's request if no other one waits, else None. Called before `take`, if at all."""
        return None if self._waiting else self.request


_Commit: TypeAlias = Callable[[Group[_Request, _Answer]], Sequence[_Answer]]


class GroupCommit(Generic[_Request, _Answer]):
    """Groups the requests of the threads of this process."""

    def __init__(self, *, group_max: int = GROUP_MAX) -> None:
        self._group_max = group_max
        self._begin()

    def _begin(self) -> None:
        """Set up the state of this process. A forked child starts anew: the threads of its parent are not in it."""
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._leader: Group[_Request, _Answer] | None = None
        self._waiting: deque[Group[_Request, _Answer]] = deque()

    def submit(self, request: _Request, commit: _Commit[_Request, _Answer]) -> _Answer:
        """Commit a request, possibly with those of other threads, and return its answer.

        `commit` commits a group and returns an answer for each of its requests; it is called if this thread leads.
        Raises what `commit` raises, or `GroupFailed` if the group had requests of other threads. `Unavailable` if there
        is no answer when the leases of this thread must be given up.
        """
        if self._pid != os.getpid():
            self._begin()
        place: Group[_Request, _Answer] = Group(request, self._waiting, self._mutex, self._group_max)
        try:
            with self._mutex:
                if self._leader is None:
                    self._leader, place.leads = place, True
                else:
                    self._join(place)
            if place.leads or self._waits_to_lead(place):
                return self._lead(place, commit)
        finally:
            try:
                self._leave(place)
            finally:
                if place.waking is not None:
                    deque(place.waking, maxlen=0)
        if not place.answers:
            raise GroupFailed
        return place.answers[0]

    def _join(self, place: Group[_Request, _Answer]) -> None:
        """Join those that wait."""
        place.ready = threading.Lock()
        place.ready.acquire()
        self._waiting.append(place)

    def _waits_to_lead(self, place: Group[_Request, _Answer]) -> bool:
        """Wait until the request is answered (False), or its thread must lead (True)."""
        assert place.ready is not None
        if not place.ready.acquire(timeout=min(LEAD_AFTER_S, lease_time_left_s())):
            with self._mutex:
                if not place.is_taken and not place.leads:
                    self._leader, place.leads = place, True
                    self._waiting.remove(place)
            while not place.leads and not place.ready.acquire(timeout=min(_LOOK_S, lease_time_left_s())):
                if is_time_up():
                    raise Unavailable("the store did not answer in time", hint="try again")
        return place.leads

    def _lead(self, place: Group[_Request, _Answer], commit: _Commit[_Request, _Answer]) -> _Answer:
        """Commit the group that this thread leads, and set the answers of its members."""
        try:
            own, *others = commit(place)
            for member, answer in zip(place.members, others, strict=True):
                member.answers = (answer,)
        except Exception as error:
            if place.members:
                raise GroupFailed from error
            raise
        return own

    def _leave(self, place: Group[_Request, _Answer]) -> None:
        """Let the next thread lead if this one does; withdraw a request that still waits. Does nothing otherwise."""
        following = None
        with self._mutex:
            if self._leader is place:
                if self._waiting:
                    following = self._waiting[0]
                    following.leads = True
                self._leader = following
                if following is not None:
                    self._waiting.popleft()
            elif not place.answers and place in self._waiting:
                self._waiting.remove(place)
        if following is not None and following.ready is not None:
            following.ready.release()
