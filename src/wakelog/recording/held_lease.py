"""The lease of a program that records its own agent loop: renewed by one thread of the process, released at the end.

Rule 1: a lease belongs to one `Session` object of one process. A forked child process does not inherit it.
Rule 2: a lease that was lost is not acquired again silently, because another process may have settled open tool calls
meanwhile. Writes raise `LeaseLost` until the session is recovered.
Rule 3: a lease is released when its session is closed or garbage-collected, and when the process exits. A killed
process releases nothing; on the same machine its lease is void at once, elsewhere it expires.
"""

import atexit
import contextlib
import os
import queue
import secrets
import socket
import threading
import time
import weakref

from wakelog.errors import LeaseLost, WakelogError
from wakelog.ports.stores import Lease, Store
from wakelog.writer import SessionWriter

LEASE_S = 30.0
_RENEW_EVERY_S = LEASE_S / 3
_RETRY_AFTER_S = 1.0


class HeldLease:
    """The lease of one recording session. Creating it acquires the lease; `Conflict` while another holder has it."""

    def __init__(self, session: SessionWriter) -> None:
        _RENEWALS.release_dropped()
        holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(2)}"
        self._pid = os.getpid()
        try:
            self.lease = session.acquire(holder, ttl_s=LEASE_S, recording=True)
            self._renewal = _RENEWALS.add(session.store, self.lease)
            # Releasing writes to the store, which a finalizer must not do: it may run inside a call to the same store.
            self._finalizer = weakref.finalize(self, _RENEWALS.release_soon, self._renewal)
            self._finalizer.atexit = False
        except BaseException:
            # Ctrl-C may come at any point of this block: a lease that this object does not know must not stay.
            _RENEWALS.release_of_holder(session, holder)
            raise

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process acquired the lease, not the parent it was forked from."""
        return self._pid == os.getpid()

    @property
    def is_valid(self) -> bool:
        """Whether the lease still belongs to this object, as far as is known."""
        return self.is_of_this_process and not self._renewal.is_lost

    def check(self) -> Lease:
        """Return the lease; `LeaseLost` if another process has it, as far as is known."""
        if self._renewal.is_lost:
            hint = "call session.recover() to take the session back and settle open tool calls"
            raise LeaseLost(f"the lease of {self.lease.session} was lost", hint=hint)
        return self.lease

    def release(self, session: SessionWriter) -> None:
        """Release the lease and record that; does nothing if it was lost or belongs to another process."""
        self._finalizer.detach()
        if self.is_of_this_process:
            _RENEWALS.remove(self._renewal)
            session.release(self.lease)


class _Renewal:
    """One lease to be renewed, and when that is due next."""

    def __init__(self, store: Store, lease: Lease) -> None:
        self.store = store
        self.lease = lease
        self.due_at = time.monotonic() + _RENEW_EVERY_S
        self.is_lost = False
        self.is_dropped = False

    def renew(self) -> None:
        """Renew the lease; an error of the store is tried again soon."""
        try:
            self.store.renew(self.lease, ttl_s=LEASE_S)
        except LeaseLost:
            self.is_lost = True
        except WakelogError:
            self.due_at = time.monotonic() + _RETRY_AFTER_S
        else:
            self.due_at = time.monotonic() + _RENEW_EVERY_S

    def release(self) -> None:
        """Release the lease. A store that fails here is left alone: the lease ends by itself."""
        with contextlib.suppress(WakelogError):
            SessionWriter(self.store, self.lease.session).release(self.lease)


class _Renewals:
    """All leases of this process, renewed by one daemon thread that ends when there are none."""

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """Start without leases: in a new process, also one forked from a process that has some."""
        self._held: set[_Renewal] = set()
        self._lock = threading.Lock()
        # Held while a lease is released, so that the end of the process waits for the thread that does it.
        self._releasing = threading.Lock()
        self._is_running = False
        # Wakes the thread; an item is a lease to release. The only queue that a finalizer may put into.
        self._inbox: queue.SimpleQueue[_Renewal | None] = queue.SimpleQueue()

    def add(self, store: Store, lease: Lease) -> _Renewal:
        """Renew a lease from now on."""
        renewal = _Renewal(store, lease)
        # Registered again for each lease: what is registered last runs first, before any store closes itself.
        atexit.unregister(self._release_all)
        atexit.register(self._release_all)
        with self._lock:
            self._held.add(renewal)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="wakelog-leases", daemon=True).start()
        return renewal

    def remove(self, renewal: _Renewal) -> None:
        """Stop renewing a lease."""
        with self._lock:
            self._held.discard(renewal)
        self._inbox.put(None)

    def release_soon(self, renewal: _Renewal) -> None:
        """Have the thread release a lease. Safe to call from a finalizer."""
        renewal.is_dropped = True
        self._inbox.put(renewal)

    def release_dropped(self) -> None:
        """Release the leases of garbage-collected sessions now, and wait for one that the thread is releasing."""
        for renewal in list(self._held):
            if renewal.is_dropped:
                self._release(renewal)
        with self._releasing:
            pass

    def release_of_holder(self, session: SessionWriter, holder: str) -> None:
        """Release the lease of a holder that failed to take it over, if the store has it."""
        with self._lock:
            self._held = {renewal for renewal in self._held if renewal.lease.holder != holder}
        with contextlib.suppress(WakelogError):
            held = session.store.held(session.name)
            if held is not None and held.holder == holder:
                session.release(held)

    def _run(self) -> None:
        while (held := self._held_or_stop()) is not None:
            left_s = min(renewal.due_at for renewal in held) - time.monotonic()
            with contextlib.suppress(queue.Empty):
                dropped = self._inbox.get(timeout=max(0.0, left_s))
                if dropped is not None:
                    self._release(dropped)
                continue
            for renewal in held:
                if renewal.due_at <= time.monotonic():
                    renewal.renew()
                    if renewal.is_lost:
                        self.remove(renewal)

    def _held_or_stop(self) -> list[_Renewal] | None:
        """Return the leases to renew; None, and the thread ends, if there are none."""
        with self._lock:
            self._is_running = bool(self._held)
            return list(self._held) or None

    def _release(self, renewal: _Renewal) -> None:
        """Release a lease once, in this thread or at the end of the process."""
        with self._releasing:
            with self._lock:
                is_held = renewal in self._held
                self._held.discard(renewal)
            if is_held:
                renewal.release()

    def _release_all(self) -> None:
        """Release all leases at the end of the process, and wait for one that the thread is releasing."""
        for renewal in list(self._held):
            self._release(renewal)
        self._releasing.acquire()


_RENEWALS = _Renewals()
