"""Lease renewal: renew the lease of a run, and stop the run in time if that fails.

Rule 1: a renewal that fails is reported and tried again until the stop time of the lease, whatever the error was.
Rule 2: at the stop time the run is cancelled: its tools are stopped and its writes end before another worker can take
the lease. `decide/lease_term.py` computes that time.
Rule 3: a lease that another worker has taken ends the run at once.
"""

import asyncio

from wakelog.decide.lease_term import LeaseTerm
from wakelog.errors import LeaseLost, WakelogError
from wakelog.ports import Lease
from wakelog.stores.retrying import RetryingStore, Uptime
from wakelog.stores.time_limit import clear_stop_time, set_stop_time

_HINT = "wake the session again when the store answers"
# Event loop timers do not count the time a machine is suspended, the lease clock does: it is polled at this interval.
_LOOK_S = 1.0


class LeaseKeeper:
    """Renews one lease for the task that runs under it."""

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
        """Renew the lease in time, until this task is cancelled or the lease is lost."""
        while self._store.lost is None:
            await self._wait_until_due()
            if self._term.must_stop(self._uptime.now()):
                self._lose(LeaseLost(f"the lease of {self._lease.session} could not be renewed in time", hint=_HINT))
            elif self._store.lost is None:
                self.renew()

    async def _wait_until_due(self) -> None:
        # Yields to the run even if the term is so short that the next renewal is always due.
        await asyncio.sleep(0)
        while (left_s := self._term.due - self._uptime.now()) > 0:  # noqa: ASYNC110 - polls a clock
            await asyncio.sleep(min(left_s, _LOOK_S))

    def renew(self) -> bool:
        """Try to renew the lease once; return whether that succeeded."""
        sent = self._uptime.now()
        try:
            self._store.inner.renew(self._lease, ttl_s=self._term.ttl_s)
        except LeaseLost as error:
            self._lose(error)
            return False
        except Exception as error:  # noqa: BLE001 - after any error the run must be stopped in time
            self._set(self._term.missed(self._uptime.now()))
            self._report(error)
            return False
        if self._term.tries:
            self._store.tell(f"the lease of {self._lease.session} is renewed again")
        self._set(self._term.renewed(sent))
        return True

    def _report(self, error: Exception) -> None:
        """Report the first of consecutive failed renewals."""
        if self._term.tries == 1:
            why = error.message if isinstance(error, WakelogError) else f"{type(error).__name__}: {error}"
            left_s = max(0.0, self._term.stop_at - self._uptime.now())
            what = f"the lease of {self._lease.session} could not be renewed"
            self._store.tell(f"{what} ({why}); trying again for {left_s:.0f} s, then the run is stopped")

    def _lose(self, error: LeaseLost) -> None:
        """End all writes and cancel the run; a run that makes this call itself is ended by the error it gets."""
        is_new = self._store.lost is None
        self._store.lose(error)
        if is_new and self._runner is not None and self._runner is not _current_task():
            self._runner.cancel()

    def end(self) -> None:
        """Clear the stop time at the end of the run: it no longer limits store calls on this thread."""
        clear_stop_time(self)


def _current_task() -> "asyncio.Task[object] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
