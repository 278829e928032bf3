"""Retry delays and lease terms: when to try again, when to renew a lease, and when to stop. Pure; stores load it alone.

Times of a lease are seconds on the holder's monotonic clock, which counts time asleep. The store counts the term from
the moment it handles a request; the holder counts from before the request is sent. So the holder's end of the term is
never later than the store's, whatever either wall clock shows.
"""

import msgspec

# A lease is renewed three times within its term.
_RENEWALS = 3
# The last part of the term is for stopping: tools must have ended before another worker can take the lease.
STOPPING_SHARE = 0.25
_RETRY_FIRST_S = 0.05
_RETRY_MAX_S = 0.5


def retry_pause_s(tries: int) -> float:
    """Return the delay after this many failed tries of a store call: 0.05 s, doubled each time, at most 0.5 s."""
    return min(_RETRY_FIRST_S * (1 << min(tries - 1, 16)), _RETRY_MAX_S)


class LeaseTerm(msgspec.Struct, frozen=True):
    """The term of one lease. `sent` is when the last successful request was sent, `ttl_s` the term it requested."""

    ttl_s: float
    renewed_at: float
    failed_renewals: int = 0
    """Failed renewals since `sent`."""
    failed_at: float = 0.0
    """When the last renewal failed."""

    @property
    def stop_at(self) -> float:
        """When the holder must start to stop, unless the lease is renewed before."""
        return self.renewed_at + self.ttl_s * (1 - STOPPING_SHARE)

    @property
    def renew_at(self) -> float:
        """When to renew next; after a failed renewal, when to retry, or to stop if that is earlier."""
        if not self.failed_renewals:
            return self.renewed_at + self.ttl_s / _RENEWALS
        pause_s = min(retry_pause_s(self.failed_renewals), self.ttl_s / 20)
        return min(self.failed_at + pause_s, self.stop_at)

    def must_stop(self, now: float) -> bool:
        """Whether to stop: a renewal has failed and `stop_at` has passed. Without a failure one more try is made."""
        return self.failed_renewals > 0 and now >= self.stop_at

    def after_renewal(self, sent: float) -> "LeaseTerm":
        """Return the term after a successful renewal that was sent at this time."""
        return LeaseTerm(self.ttl_s, sent)

    def after_failure(self, now: float) -> "LeaseTerm":
        """Return the term after a failed renewal."""
        return msgspec.structs.replace(self, failed_renewals=self.failed_renewals + 1, failed_at=now)


RETRY_FIRST_MS = 1_000
RETRY_LONGEST_MS = 60_000
ASKED_LONGEST_MS = 3_600_000


def retry_delay_ms(entry_id: str, faults: int, asked_ms: int | None) -> int:
    """Return the delay after a fault: the one the provider requested (at most an hour), else exponential back-off.

    The back-off is at most a minute; jitter is derived from the id of the fault, so replay computes the same delay.
    """
    if asked_ms is not None:
        return max(0, min(asked_ms, ASKED_LONGEST_MS))
    longest = min(RETRY_LONGEST_MS, RETRY_FIRST_MS << min(max(0, faults - 1), 16))
    return longest - sum(entry_id.encode()) % (longest // 4)
