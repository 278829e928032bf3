"""Renewing the lease of a run, and stopping the run in time if that cannot be done.

Rule 1: a renewal that fails is reported and tried again until the stop time of the lease, whatever the error was.
Rule 2: at the stop time the run is cancelled: its tools are stopped and its writes end before another worker can take
the lease. `decide/lease_term.py` says when that is.
Rule 3: a lease that another worker has taken ends the run at once.
"""

import asyncio

from wakelog.decide.lease_term import LeaseTerm
from wakelog.errors import LeaseLost, WakelogError
from wakelog.ports import Lease
from wakelog.stores.retrying import RetryingStore, Uptime
from wakelog.stores.time_limit import clear_stop_time, set_stop_time

_HINT = "wake the session again when the store answers"
# Timers of the event loop do not count time asleep, the clock of the lease does: it is looked at this often.
_LOOK_S = 1.0


class LeaseKeeper:
    """Keeps one lease for the task that runs under it."""

    def __init__(
        self, store: RetryingStore, lease: Lease, term: LeaseTerm, uptime: Uptime, runner: "asyncio.Task[object] | None"
    ) -> None:
        self._store = store
        self._lease = lease
        self._uptime = uptime
        self._runner = runner
        self._set(term)
        store.hold(self.renew)

    def _set(self, term: LeaseTerm) -> None:
        self._term = term
        set_stop_time(self, term.stop_at)

    async def keep(self) -> None:
        """Renews the lease in time, until this task is cancelled or the lease is lost."""
        while self._store.lost is None:
            await self._wait_until_due()
            if self._term.must_stop(self._uptime.now()):
                self._lose(LeaseLost(f"the lease of {self._lease.session} could not be renewed in time", hint=_HINT))
            elif self._store.lost is None:
                self.renew()

    async def _wait_until_due(self) -> None:
        # A term may be so short that the next renewal is always due: the run must go on in between.
        await asyncio.sleep(0)
        while (left_s := self._term.due - self._uptime.now()) > 0:  # noqa: ASYNC110 - it is a clock that is waited for
            await asyncio.sleep(min(left_s, _LOOK_S))

    def renew(self) -> bool:
        """Tries to renew the lease once; whether that succeeded."""
        sent = self._uptime.now()
        try:
            self._store.inner.renew(self._lease, ttl_s=self._term.ttl_s)
        except LeaseLost as error:
            self._lose(error)
            return False
        except Exception as error:  # noqa: BLE001 - whatever it was, the run must be stopped in time and not go on without
            self._set(self._term.missed(self._uptime.now()))
            self._report(error)
            return False
        if self._term.tries:
            self._store.tell(f"the lease of {self._lease.session} is renewed again")
        self._set(self._term.renewed(sent))
        return True

    def _report(self, error: Exception) -> None:
        """Reports the first of the renewals that fail in a row."""
        if self._term.tries == 1:
            why = error.message if isinstance(error, WakelogError) else f"{type(error).__name__}: {error}"
            left_s = max(0.0, self._term.stop_at - self._uptime.now())
            what = f"the lease of {self._lease.session} could not be renewed"
            self._store.tell(f"{what} ({why}); trying again for {left_s:.0f} s, then the run is stopped")

    def _lose(self, error: LeaseLost) -> None:
        """Ends all writes, and cancels the run; a run that makes this very call is ended by the error that it gets."""
        is_new = self._store.lost is None
        self._store.lose(error)
        if is_new and self._runner is not None and self._runner is not _current_task():
            self._runner.cancel()

    def end(self) -> None:
        """The run is over: calls on this thread need not return by its stop time any more."""
        clear_stop_time(self)


def _current_task() -> "asyncio.Task[object] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
