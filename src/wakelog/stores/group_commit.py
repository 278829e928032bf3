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
from collections.abc import Callable, Sequence
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


class _Place(Generic[_Request, _Answer]):
    """One request and its answer. `ready` is released when the request is answered, and when its thread may lead."""

    __slots__ = ("answers", "is_taken", "leads", "ready", "request")

    def __init__(self, request: _Request) -> None:
        self.request = request
        self.ready: threading.Lock | None = None
        self.is_taken = self.leads = False
        # The answer, or nothing.
        self.answers: Sequence[_Answer] = ()


class Group(Generic[_Request, _Answer]):
    """The requests of one commit: that of the leader, and those of the threads that wait when the group is taken."""

    def __init__(
        self,
        leader: _Place[_Request, _Answer],
        waiting: deque[_Place[_Request, _Answer]],
        mutex: threading.Lock,
        most: int,
    ) -> None:
        leader.is_taken = True
        self.members = [leader]
        self.locks: list[threading.Lock] = []
        self._waiting, self._mutex, self._most = waiting, mutex, most

    def take(self) -> list[_Request]:
        """Take the waiting requests and return all, the leader's first. Called once, when no lock is waited for."""
        with self._mutex:
            while self._waiting and len(self.members) < self._most:
                place = self._waiting[0]
                if place.ready is not None and not place.leads:
                    place.is_taken = True
                    self.locks.append(place.ready)
                    self.members.append(place)
                self._waiting.popleft()
        return [place.request for place in self.members]

    def take_alone(self) -> _Request | None:
        """Return the leader's request if no other one waits, else None. Called before `take`, if at all."""
        return None if self._waiting else self.members[0].request


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
        self._leader: _Place[_Request, _Answer] | None = None
        self._waiting: deque[_Place[_Request, _Answer]] = deque()

    def submit(self, request: _Request, commit: _Commit[_Request, _Answer]) -> _Answer:
        """Commit a request, possibly with those of other threads, and return its answer.

        `commit` commits a group and returns an answer for each of its requests; it is called if this thread leads.
        Raises what `commit` raises, or `GroupFailed` if the group had requests of other threads. `Unavailable` if there
        is no answer when the leases of this thread must be given up.
        """
        if self._pid != os.getpid():
            self._begin()
        place: _Place[_Request, _Answer] = _Place(request)
        try:
            if self._leads_at_once(place) or self._waits_to_lead(place):
                return self._lead(place, commit)
        finally:
            self._leave(place)
        if not place.answers:
            raise GroupFailed
        return place.answers[0]

    def _leads_at_once(self, place: _Place[_Request, _Answer]) -> bool:
        """Take the lead if there is no leader; else join those that wait."""
        with self._mutex:
            if self._leader is None:
                self._leader = place
                return True
            place.ready = threading.Lock()
            place.ready.acquire()
            self._waiting.append(place)
            return False

    def _waits_to_lead(self, place: _Place[_Request, _Answer]) -> bool:
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

    def _lead(self, place: _Place[_Request, _Answer], commit: _Commit[_Request, _Answer]) -> _Answer:
        """Commit a group, answer all of its threads, and let the next one lead."""
        group = Group(place, self._waiting, self._mutex, self._group_max)
        # Consumed in one call, which no interrupt cuts in two. The list is filled when the group is taken.
        waking = map(_release, group.locks)
        try:
            answers = commit(group)
            for member, answer in zip(group.members, answers, strict=True):
                member.answers = (answer,)
        except Exception as error:
            if len(group.members) > 1:
                raise GroupFailed from error
            raise
        finally:
            try:
                self._leave(place)
            finally:
                deque(waking, maxlen=0)
        return place.answers[0]

    def _leave(self, place: _Place[_Request, _Answer]) -> None:
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
