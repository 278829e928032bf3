"""The lease of a run: acquire it, renew it in time, release it, and stop the run in time if renewal fails.

Rule 1: a renewal that fails is reported and tried again until the stop time of the lease, whatever the error was.
Rule 2: at the stop time the run is cancelled: its tools are stopped and its writes end before another worker can take
the lease. `decide/timing.py` computes that time.
Rule 3: a lease that another worker has taken ends the run at once.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from wakelog.decide.timing import LeaseTerm
from wakelog.errors import LeaseLost, WakelogError
from wakelog.ports.stores import Lease
from wakelog.runtime.interface import Runtime
from wakelog.session import Session
from wakelog.stores.locking import clear_stop_time, set_stop_time
from wakelog.stores.retrying import RetryingStore, Uptime, with_retries

_RENEWAL_HINT = "wake the session again when the store answers"
# Event loop timers do not count the time a machine is suspended, the lease clock does: it is polled at this interval.
_CLOCK_POLL_S = 1.0


class LeaseRenewer:
    """Renews one lease for the task that runs under it."""

    def __init__(
        self, store: RetryingStore, lease: Lease, term: LeaseTerm, clock: Uptime, runner: "asyncio.Task[object] | None"
    ) -> None:
        self._store = store
        self._lease = lease
        self._clock = clock
        self._runner = runner
        self._set_term(term)
        store.set_lease_renewal(self.renew)

    def _set_term(self, term: LeaseTerm) -> None:
        self._term = term
        set_stop_time(self, term.stop_at)

    async def run(self) -> None:
        """Renew the lease in time, until this task is cancelled or the lease is lost."""
        while self._store.lost is None:
            await self._wait_until_due()
            if self._term.must_stop(self._clock.now()):
                self._stop_run(
                    LeaseLost(f"the lease of {self._lease.session} could not be renewed in time", hint=_RENEWAL_HINT)
                )
            elif self._store.lost is None:
                self.renew()

    async def _wait_until_due(self) -> None:
        # Yields to the run even if the term is so short that the next renewal is always due.
        await asyncio.sleep(0)
        while (left_s := self._term.renew_at - self._clock.now()) > 0:  # noqa: ASYNC110 - polls a clock
            await asyncio.sleep(min(left_s, _CLOCK_POLL_S))

    def renew(self) -> bool:
        """Try to renew the lease once; return whether that succeeded."""
        sent = self._clock.now()
        try:
            self._store.inner.renew(self._lease, ttl_s=self._term.ttl_s)
        except LeaseLost as error:
            self._stop_run(error)
            return False
        except Exception as error:  # noqa: BLE001 - after any error the run must be stopped in time
            self._set_term(self._term.after_failure(self._clock.now()))
            self._report(error)
            return False
        if self._term.failed_renewals:
            self._store.report(f"the lease of {self._lease.session} was renewed again")
        self._set_term(self._term.after_renewal(sent))
        return True

    def _report(self, error: Exception) -> None:
        """Report the first of consecutive failed renewals."""
        if self._term.failed_renewals == 1:
            why = error.message if isinstance(error, WakelogError) else f"{type(error).__name__}: {error}"
            left_s = max(0.0, self._term.stop_at - self._clock.now())
            what = f"the lease of {self._lease.session} could not be renewed"
            self._store.report(f"{what} ({why}); trying again for {left_s:.0f} s, then the run is stopped")

    def _stop_run(self, error: LeaseLost) -> None:
        """End all writes and cancel the run; a run that makes this call itself is ended by the error it gets."""
        is_new = self._store.lost is None
        self._store.mark_lease_lost(error)
        if is_new and self._runner is not None and self._runner is not _current_task():
            self._runner.cancel()

    def clear(self) -> None:
        """Clear the stop time at the end of the run: it no longer limits store calls on this thread."""
        clear_stop_time(self)


def _current_task() -> "asyncio.Task[object] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


@contextlib.asynccontextmanager
async def hold_lease(runtime: Runtime, session: Session) -> AsyncIterator[Lease]:
    """Hold the lease of a session, renew it in time, and release it at the end.

    `LeaseLost`, after all running work has been stopped, if another worker has the lease or may take it soon.
    """
    store = session.store if isinstance(session.store, RetryingStore) else with_retries(session.store)
    runner = asyncio.current_task()
    # The term is counted from before the request, so that it ends here before it ends for the store.
    term = LeaseTerm(ttl_s=runtime.lease_s, renewed_at=runtime.lease_clock.now())
    lease = session.acquire(runtime.holder, ttl_s=runtime.lease_s, channels=sorted(runtime.channel_names))
    keeper = LeaseRenewer(store, lease, term, runtime.lease_clock, runner)
    renewing = asyncio.ensure_future(keeper.run())
    try:
        try:
            yield lease
        finally:
            renewing.cancel()
            await asyncio.wait({renewing})
    except asyncio.CancelledError:
        if store.lost is not None and (runner is None or runner.uncancel() == 0):
            raise store.lost from None
        raise
    finally:
        keeper.clear()
        store.limit_retries()
        if store.lost is None:
            session.release(lease)
